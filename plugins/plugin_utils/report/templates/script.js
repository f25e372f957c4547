// The page is complete without this: it adds the theme switch, sorting, and values under the pointer.
(() => {
  'use strict';
  const root = document.documentElement;
  const themes = ['auto', 'light', 'dark'];
  const store = {
    get: () => { try { return localStorage.getItem('storlab-theme'); } catch (error) { return null; } },
    set: (value) => { try { localStorage.setItem('storlab-theme', value); } catch (error) { /* a file page may have no storage; the choice then lasts as long as the page */ } },
  };
  const button = document.getElementById('theme');
  let theme = themes.includes(store.get()) ? store.get() : 'auto';
  const show = () => {
    if (theme === 'auto') { root.removeAttribute('data-theme'); } else { root.dataset.theme = theme; }
    button.textContent = 'Theme: ' + theme;
  };
  button.hidden = false;
  button.addEventListener('click', () => { theme = themes[(themes.indexOf(theme) + 1) % 3]; store.set(theme); show(); });
  show();

  // On a phone the waterfall is laid out as a grid, and some browsers then forget that it is a table.
  const roles = { TABLE: 'table', THEAD: 'rowgroup', TBODY: 'rowgroup', TR: 'row', TD: 'cell' };
  document.querySelectorAll('.waterfall, .waterfall :is(thead, tbody, tr, th, td)').forEach((part) => {
    part.setAttribute('role', roles[part.tagName] || (part.scope === 'row' ? 'rowheader' : 'columnheader'));
  });

  // Sorting: a header becomes a button; the exact number is in the cell's data element, so 1.2k sorts above 900.
  const key = (cell) => { const raw = cell === undefined ? '' : cell.querySelector('data')?.value || cell.textContent.trim(); const number = Number(raw); return raw !== '' && !Number.isNaN(number) ? number : raw; };
  const compare = (a, b) => {
    const numbers = [typeof a === 'number', typeof b === 'number'];
    return numbers[0] && numbers[1] ? a - b : numbers[0] !== numbers[1] ? (numbers[0] ? -1 : 1) : String(a).localeCompare(String(b));
  };
  document.querySelectorAll('table.sortable').forEach((table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const label = document.createElement('button');
      label.type = 'button';
      label.append(...head.childNodes);
      head.append(label);
      label.addEventListener('click', () => {
        const up = head.getAttribute('aria-sort') !== 'ascending';
        heads.forEach((other) => other.removeAttribute('aria-sort'));
        head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
        const body = table.tBodies[0];
        // A failed point spans several columns, so cells are found by position, not by index.
        const at = (row) => { let left = column; for (const cell of row.cells) { if (left < cell.colSpan) { return cell; } left -= cell.colSpan; } return undefined; };
        body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) * compare(key(at(a)), key(at(b)))));
      });
    });
  });

  // Beside each raw file lie the job that made it and the samples; their classes say whether they are there.
  const beside = { job: 'job.fio', series: 'series.json' };
  document.querySelectorAll('.points td:last-child').forEach((cell) => {
    const raw = cell.querySelector('a');
    cell.classList.forEach((kind) => {
      if (!raw || !beside[kind]) { return; }
      const link = document.createElement('a');
      link.href = raw.getAttribute('href').replace(/[^/]*$/, beside[kind]);
      link.textContent = kind === 'series' ? 'samples' : kind;
      cell.append(link, ' ');
    });
  });

  // Where there is more than a narrow screen shows: a line above a table, and a navigation that fades out until its end is reached.
  const nav = document.querySelector('.bar nav');
  const reach = () => nav.classList.toggle('end', nav.scrollLeft + nav.clientWidth >= nav.scrollWidth - 2);
  const hints = [...document.querySelectorAll('.scroll')].map((scroll) => {
    const hint = document.createElement('p');
    hint.className = 'more';
    hint.textContent = 'The table goes on to the right →';
    scroll.before(hint);
    return () => { hint.hidden = scroll.scrollWidth <= scroll.clientWidth + 1; hint.style.display = hint.hidden ? 'none' : ''; };
  });
  const measure = () => { reach(); hints.forEach((look) => look()); };
  nav.addEventListener('scroll', reach);
  addEventListener('resize', measure);
  document.addEventListener('toggle', measure, true);
  measure();

  // Copying: a table as tab-separated text, with the exact numbers.
  const tsv = (table) => [...table.rows].map((row) => [...row.cells].map((cell) => (cell.querySelector('data')?.value ?? cell.textContent).trim().replace(/\s+/g, ' ')).join('\t')).join('\n');
  const copy = async (text) => {
    try { await navigator.clipboard.writeText(text); return true; } catch (error) { /* a page opened as a file may not; the old way still works there */ }
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  };
  document.querySelectorAll('table').forEach((table) => {
    const tools = document.createElement('div');
    const press = document.createElement('button');
    tools.className = 'tools';
    press.type = 'button';
    press.textContent = 'Copy table';
    press.addEventListener('click', async () => { press.textContent = await copy(tsv(table)) ? 'Copied' : 'Not allowed here'; setTimeout(() => { press.textContent = 'Copy table'; }, 1500); });
    tools.append(press);
    (table.closest('.scroll') || table).after(tools);
  });

  // Choosing: layers, patterns and metrics are classes, so one style sheet hides what is not chosen, wherever it stands.
  const choose = document.getElementById('choose');
  if (choose) {
    const hidden = document.head.appendChild(document.createElement('style'));
    const chosen = () => {
      const off = [...choose.querySelectorAll('input:not(:checked)')].map((box) => 'main .' + box.value + ':not(label)');
      const pattern = choose.querySelector('#pattern'), metric = choose.querySelector('#metric');
      if (pattern?.value) { off.push(...[...pattern.options].filter((option) => option.value && !option.selected).map((option) => 'main .' + option.value)); }
      if (metric?.value) { off.push('.one[class*="M-"]:not(.' + metric.value + ')'); }
      hidden.textContent = off.length ? off.join(',') + '{display:none!important}' : '';
    };
    choose.hidden = choose.querySelectorAll('input').length < 2 && !choose.querySelector('select');
    choose.addEventListener('change', chosen);
    choose.addEventListener('submit', (event) => event.preventDefault());
    // A browser may restore what was chosen before the page was loaded again.
    chosen();
  }

  // Charts: the value under the pointer or the arrow keys; a drag across (or + and -) zooms, a double click or Escape shows all again.
  const tip = document.getElementById('tip');
  const ACROSS = 1000, UP = 9999;
  const digits = (value) => String(Number(value.toPrecision(3)));
  const scaled = (value, steps) => { const step = steps.find(([, size]) => Math.abs(value) >= size * 0.9995) || steps[steps.length - 1]; return digits(value / step[1]) + step[0]; };
  const words = {
    ns: (value) => scaled(value, [[' s', 1e9], [' ms', 1e6], [' µs', 1e3], [' ns', 1]]),
    iops: (value) => scaled(value, [['M', 1e6], ['k', 1e3], ['', 1]]) + ' IOPS',
    '%': (value) => digits(value) + ' %',
    s: (value) => digits(value) + ' s',
    percentile: (share) => (share * 100).toFixed(Math.max(0, Math.min(3, Math.floor(-Math.log10(1 - share) + 0.01) - 1))) + ' % within',
  };
  const axis = (text) => {
    const [kind, low, high, unit] = text.split(' ');
    const scale = { log: Math.log10, nines: (share) => -Math.log10(Math.max(1 - share, 1e-9)) }[kind] || ((value) => value);
    const back = { log: (value) => 10 ** value, nines: (value) => 1 - 10 ** -value }[kind] || ((value) => value);
    const from = scale(Number(low)), to = scale(Number(high));
    return { say: (share) => (words[unit] || digits)(back(from + share * (to - from))) };
  };
  const shown = (element) => element.getClientRects().length > 0 && element.style.visibility !== 'hidden';
  const svg = (name, css) => { const element = document.createElementNS('http://www.w3.org/2000/svg', name); element.setAttribute('class', css); return element; };

  const enliven = (chart) => {
    // Titles of dots become our own tip; left in place the browser would show a second one.
    const dots = [...chart.querySelectorAll('circle')].filter((dot) => dot.firstChild).map((dot) => { const text = dot.textContent; dot.replaceChildren(); return { dot, text }; });
    const lines = dots.length > 0 ? [] : [...chart.querySelectorAll('.area polyline')].map((line) => ({
      line, points: line.getAttribute('points').split(' ').map((pair) => pair.split(',').map((number, index) => Number(number) / (index ? UP : ACROSS))),
    }));
    if (dots.length + lines.length === 0) { return; }
    const [across, up] = [axis(chart.dataset.x), axis(chart.dataset.y)];
    const legend = [...(chart.closest('figure')?.querySelectorAll('.legend li') || [])];
    const nameOf = (line) => legend.find((entry) => [...entry.classList].every((name) => line.classList.contains(name)))?.textContent || '';
    const area = chart.querySelector('.area');
    const joint = chart.dataset.x.startsWith('nines') ? ' ' : ', ';
    let [from, to] = [0, 1];
    const mark = svg('circle', 'here');
    mark.setAttribute('r', 6);
    const annotate = (text, x, y, box) => {
      mark.setAttribute('cx', 100 * x + '%');
      mark.setAttribute('cy', y);
      chart.append(mark);
      tip.textContent = text;
      tip.hidden = false;
      const left = box.left + x * box.width, top = box.top + y;
      tip.style.left = Math.max(4, Math.min(left + 14, innerWidth - tip.offsetWidth - 8)) + 'px';
      tip.style.top = (top > 60 ? top - 42 : top + 18) + 'px';
    };
    const quiet = () => { tip.hidden = true; mark.remove(); };
    // What can be pointed at now, as shares of the plot: each with its words.
    const places = (box) => [
      ...dots.filter(({ dot }) => shown(dot)).map(({ dot, text }) => ({ x: parseFloat(dot.getAttribute('cx')) / 100, y: parseFloat(dot.getAttribute('cy')), say: () => text })),
      ...lines.filter(({ line }) => shown(line)).flatMap(({ line, points }) => points.filter(([x]) => x >= from && x <= to).map(([x, y]) => ({
        x: (x - from) / (to - from), y: y * box.height, say: () => nameOf(line) + ': ' + across.say(x) + joint + up.say(1 - y),
      }))),
    ];
    const frame = () => chart.getBoundingClientRect();
    let keyed = -1, at;
    chart.tabIndex = 0;
    chart.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') { zoom(0, 1); quiet(); return; }
      if (event.key === '+' || event.key === '-') {
        const half = Math.min(0.5, (to - from) * (event.key === '+' ? 0.25 : 1)), middle = Math.min(1 - half, Math.max(half, from + (to - from) * (at ?? 0.5)));
        zoom(middle - half, middle + half);
        return;
      }
      if (!['ArrowLeft', 'ArrowRight'].includes(event.key)) { return; }
      event.preventDefault();
      const box = frame(), all = places(box).filter((place) => place.x >= 0 && place.x <= 1).sort((a, b) => a.x - b.x);
      keyed = Math.max(0, Math.min(all.length - 1, keyed + (event.key === 'ArrowRight' ? 1 : -1)));
      if (all[keyed]) { at = all[keyed].x; annotate(all[keyed].say(), at, all[keyed].y, box); }
    });
    chart.addEventListener('blur', quiet);

    // Zooming moves what is placed in percent and what the nested picture shows of its lines.
    const placed = [...chart.querySelectorAll('.ticks text, .name, line, circle')].filter((element) => !element.closest('.ends')).flatMap((element) =>
      [['x'], ['cx'], ['x1', 'x2']].filter((names) => names.every((name) => (element.getAttribute(name) || '').endsWith('%')))
        .map((names) => ({ element, names, values: names.map((name) => parseFloat(element.getAttribute(name))) })));
    const back = document.createElement('button');
    back.type = 'button';
    back.className = 'reset';
    back.textContent = 'Show all';
    back.addEventListener('click', () => zoom(0, 1));
    const zoom = (low, high) => {
      [from, to] = [low, high];
      if (area) { area.setAttribute('viewBox', [low * ACROSS, 0, (high - low) * ACROSS, UP].join(' ')); }
      placed.forEach(({ element, names, values }) => {
        const moved = values.map((value) => (value / 100 - low) / (high - low));
        const inside = moved.some((share) => share > -0.001 && share < 1.001);
        element.style.visibility = inside ? '' : 'hidden';
        names.forEach((name, index) => element.setAttribute(name, 100 * Math.min(1, Math.max(0, moved[index])) + '%'));
      });
      if (low > 0 || high < 1) { chart.parentNode.append(back); } else { back.remove(); }
    };
    let start = null;
    const selection = svg('rect', 'selection');
    const shareAt = (event) => { const box = frame(); return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)); };
    chart.addEventListener('pointerdown', (event) => { if (event.pointerType === 'mouse' && event.button === 0) { start = shareAt(event); } });
    chart.addEventListener('pointermove', (event) => {
      const box = frame(), at = shareAt(event);
      if (start !== null && Math.abs(at - start) > 0.02) {
        chart.classList.add('zooming');
        selection.setAttribute('x', 100 * Math.min(start, at) + '%');
        selection.setAttribute('width', 100 * Math.abs(at - start) + '%');
        selection.setAttribute('height', '100%');
        chart.append(selection);
        return;
      }
      const y = event.clientY - box.top;
      let best = null;
      places(box).forEach((place) => {
        const distance = Math.abs(place.x - at) * box.width * (lines.length ? 2 : 1) + Math.abs(place.y - y);
        if (best === null || distance < best.distance) { best = { ...place, distance }; }
      });
      if (best) { annotate(best.say(), best.x, best.y, box); }
    });
    window.addEventListener('pointerup', (event) => {
      if (start !== null && chart.classList.contains('zooming')) {
        const [low, high] = [start, shareAt(event)].sort((a, b) => a - b).map((share) => from + share * (to - from));
        if (high - low > 0.01) { zoom(low, high); }
      }
      start = null;
      chart.classList.remove('zooming');
      selection.remove();
    });
    chart.addEventListener('dblclick', () => zoom(0, 1));
    chart.addEventListener('pointerleave', quiet);
  };
  document.querySelectorAll('svg.plot').forEach(enliven);
  // A chart that a script of the page has drawn again.
  document.addEventListener('drawn', (event) => enliven(event.target));
})();
