// The page of all runs: another workload, layer or metric in the place of the trend that is there from the start.
(() => {
  'use strict';
  const choose = document.getElementById('choose');
  if (!choose) { return; }
  const data = JSON.parse(document.getElementById('data').textContent);
  const [workload, layer, figure] = ['workload', 'layer', 'figure'].map((id) => document.getElementById(id));
  const drawn = document.getElementById('drawn');
  const [caption, table] = [document.querySelector('#trended h3'), document.querySelector('#numbers tbody')];
  // Runs and changes of the environment stay where they are.
  const plotted = drawn.querySelector('.plot'), across = plotted && plotted.dataset.x;
  const kept = [...drawn.querySelectorAll('.ticks, .changed')].map((part) => part.outerHTML).join('');
  const escape = (text) => { const holder = document.createElement('p'); holder.textContent = text; return holder.innerHTML; };
  const digits = (value, count) => { const [, exponent] = value.toExponential(count - 1).split('e'); return value === 0 ? '0' : value.toFixed(Math.max(0, count - 1 - Number(exponent))); };
  const scaled = (value, steps) => { const [suffix, size] = steps.find((step) => Math.abs(value) >= step[1] * 0.9995) || steps[steps.length - 1]; return digits(value / size, 3) + suffix; };
  const time = [[' s', 1e9], [' ms', 1e6], [' µs', 1e3], [' ns', 1]];
  // As units.py writes them.
  const words = {
    ns: (value) => scaled(value, time), us: (value) => scaled(value * 1e3, time), iops: (value) => scaled(value, [['G', 1e9], ['M', 1e6], ['k', 1e3], ['', 1]]),
    'MB/s': (value) => (value >= 999.5e6 ? Math.round(value / 1e6).toLocaleString('en') : digits(value / 1e6, 3)),
  };
  const tick = (text) => text.replace(/^(\d+)\.(\d*?)0*(?=\D|$)/, (whole, before, after) => (after ? before + '.' + after : before));

  const options = (select, names, say) => {
    const before = select.value;
    select.replaceChildren(...names.map((name) => new Option(say(name), name)));
    select.value = names.includes(before) ? before : names[0];
  };
  const draw = () => {
    const line = data.trends[workload.value][layer.value][figure.value];
    const { title, unit } = data.metrics[figure.value], word = words[unit], height = 260, runs = data.runs.length;
    const spread = ([, value, low, high]) => word(value) + (word(low) === word(high) ? '' : ' (' + word(low) + '–' + word(high) + ')');
    // Four to six round steps from zero, as plot.linear_axis.
    const most = Math.max(...line.map((point) => point[3])) || 1, rough = most / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].find((part) => part * power >= rough * 0.999999) * power, count = Math.max(1, Math.ceil(most / step - 1e-9)), top = count * step;
    const x = (at) => (at + 0.5) / runs, y = (value) => 1 - value / top;
    const said = data.words[workload.value] + ', ' + layer.value;
    const [at, value, low, high] = line[line.length - 1], span = word(low) === word(high) ? '' : ' <small>' + word(low) + '–' + word(high) + '</small>';
    const single = `<p class="single"><strong>${word(value)}</strong> ${escape(title)}${span}<br><small>Only ${escape(data.runs[at].name)} has it; a trend needs two runs.</small></p>`;
    const marks = Array.from({ length: count + 1 }, (unused, index) => index * step);
    const path = (points) => points.map(([at, value]) => Math.round(1000 * x(at)) + ',' + Math.round(9999 * y(value))).join(' ');
    const range = line.filter((point) => point[2] !== point[3]).map(([at, , low, high]) => `M${Math.round(1000 * x(at))} ${Math.round(9999 * y(low))}V${Math.round(9999 * y(high))}`).join('');
    drawn.innerHTML = line.length === 1 || !plotted ? single : `<svg class="chart plot trend" style="height:${height}px;--r:16px" role="img" aria-labelledby="trend-t" data-x="${across}" data-y="linear 0 ${top} ${unit}">
      <title id="trend-t">${escape(title + ': ' + said)}</title>
      <g class="axis"><text class="up" x="-54" y="-9">${escape(title)}</text><text x="50%" y="${height + 36}">runs, oldest first</text></g>
      <g class="ups">${marks.map((value) => `<text y="${height * y(value) + 4}">${value ? tick(word(value)) : 0}</text>`).join('')}</g>
      <svg class="area" viewBox="0 0 1000 9999" preserveAspectRatio="none" width="100%" height="${height}">
      <path class="grid" d="${marks.map((value) => `M0 ${Math.round(9999 * y(value))}H1000`).join('')}${data.runs.map((run, index) => `M${Math.round(1000 * x(index))} 0V9999`).join('')}"/><polyline class="line c0" points="${path(line)}"/><path class="bars c0" d="${range}"/></svg>
      ${kept}<g class="c0">${line.map((point) => `<circle class="dot" cx="${100 * x(point[0])}%" cy="${height * y(point[1])}" r="4"><title>${escape((data.runs[point[0]].label || data.runs[point[0]].name) + ': ' + spread(point))}</title></circle>`).join('')}</g></svg>`;
    caption.textContent = said;
    caption.nextSibling.textContent = figure.selectedOptions[0].textContent;
    table.replaceChildren(...line.map(([at, ...values]) => {
      const row = document.createElement('tr');
      row.innerHTML = `<th scope="row">${escape(data.runs[at].name)}</th><td>${escape(data.runs[at].label)}</td>` + values.map((value) => `<td class="n"><data value="${value}">${word(value)}</data></td>`).join('');
      return row;
    }));
    drawn.firstChild.dispatchEvent(new Event('drawn', { bubbles: true }));
  };
  const fill = () => {
    options(layer, Object.keys(data.trends[workload.value]), (name) => name);
    const known = data.trends[workload.value][layer.value];
    [...figure.options].forEach((option) => { option.disabled = !known[option.value]; });
    if (!known[figure.value]) { figure.value = Object.keys(known)[0]; }
  };
  options(workload, Object.keys(data.trends), (name) => data.words[name]);
  workload.value = data.chosen[0];
  fill();
  [layer.value, figure.value] = data.chosen.slice(1);
  fill();
  choose.hidden = false;
  choose.addEventListener('change', () => { fill(); draw(); });
  choose.addEventListener('submit', (event) => event.preventDefault());
})();
