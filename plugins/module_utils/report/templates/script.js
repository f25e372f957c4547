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

  // Latency curves: the value under the pointer, of the nearest line.
  const tip = document.getElementById('tip');
  const time = (ns) => { for (const [unit, size] of [['s', 1e9], ['ms', 1e6], ['µs', 1e3]]) { if (ns >= size) { return Number((ns / size).toPrecision(3)) + ' ' + unit; } } return ns + ' ns'; };
  document.querySelectorAll('svg.chart.wide').forEach((chart) => {
    const lines = [...chart.querySelectorAll('polyline[data-curve]')].map((line) => ({
      name: line.dataset.name,
      data: line.dataset.curve.split(' ').map((pair) => pair.split(':').map(Number)),
      points: line.getAttribute('points').split(' ').map((pair) => pair.split(',').map(Number)),
    }));
    if (lines.length === 0) { return; }
    chart.addEventListener('pointermove', (event) => {
      const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
      let best = null;
      lines.forEach((line) => line.points.forEach((point, index) => {
        const distance = Math.abs(point[0] - place.x) * 2 + Math.abs(point[1] - place.y);
        if (best === null || distance < best.distance) { best = { distance, line, index }; }
      }));
      const [percent, ns] = best.line.data[best.index];
      tip.textContent = best.line.name + ': ' + percent + ' % within ' + time(ns);
      tip.hidden = false;
      tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + 'px';
      tip.style.top = event.clientY - 40 + 'px';
    });
    chart.addEventListener('pointerleave', () => { tip.hidden = true; });
  });
})();
