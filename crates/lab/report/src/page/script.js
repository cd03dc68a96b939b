// Read-out under the pointer: a line at the nearest step and the values of all series there.
(() => {
  const tip = document.getElementById('tip');
  for (const figure of document.querySelectorAll('figure.plot')) {
    const source = figure.querySelector('script');
    if (!source) continue;
    const data = JSON.parse(source.textContent);
    for (const svg of figure.querySelectorAll('svg[data-x0]')) {
      const [x0, x1, y0, y1] = ['x0', 'x1', 'y0', 'y1'].map((k) => +svg.dataset[k]);
      const cross = svg.querySelector('.cross');
      const leave = () => { tip.hidden = true; cross.setAttribute('d', ''); };
      svg.addEventListener('pointerleave', leave);
      svg.addEventListener('pointermove', (event) => {
        const box = svg.getBoundingClientRect();
        const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
        const points = data.series[0][1].length;
        const index = Math.floor((x - x0) / (x1 - x0) * points);
        if (index < 0 || index >= points) return leave();
        const at = x0 + (x1 - x0) * (index + 0.5) / points;
        cross.setAttribute('d', `M${at} ${y0}V${y1}`);
        const lines = [`${+(index * data.step).toFixed(6)} to ${+((index + 1) * data.step).toFixed(6)} s`];
        for (const [name, values] of data.series) {
          if (values[index] !== null) lines.push(`${name}: ${values[index]} ${data.unit}`);
        }
        tip.replaceChildren(...lines.map((line) => {
          const row = document.createElement('div');
          row.textContent = line;
          return row;
        }));
        tip.hidden = false;
        const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
        tip.style.left = `${Math.max(8, Math.min(event.pageX + 14, room))}px`;
        tip.style.top = `${event.pageY + 16}px`;
      });
    }
  }
})();
