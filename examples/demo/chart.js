// A line, or several, of what happened in the last minute, and the newest figures above it.

const width = 600;
const height = 80;
const seconds = 60;

export class Chart {
  // lines: [{ id, name, colour }]; values are in `unit`, shown with so many `digits`.
  constructor(parent, title, unit, digits, lines) {
    this.unit = unit;
    this.digits = digits;
    this.lines = lines.map((line) => ({ ...line, points: [] }));
    const figure = document.createElement("figure");
    figure.innerHTML = `<figcaption><b>${title}</b>${lines.map(Chart.legend).join("")}</figcaption>
<svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label="${title}, the last minute">
${lines.map((line) => `<polyline stroke="var(--${line.colour})"/>`).join("")}</svg>
<figcaption><span class="scale"></span><span>a minute ago to now</span></figcaption>`;
    parent.append(figure);
    this.drawn = figure.querySelectorAll("polyline");
    this.scale = figure.querySelector(".scale");
  }

  static legend({ id, name, colour }) {
    return `<span style="color: var(--${colour})">${name} <output id="${id}">-</output></span>`;
  }

  // values: one for each line, or undefined where there is none yet.
  add(time, values) {
    this.lines.forEach((line, i) => {
      if (values[i] === undefined) return;
      line.points = line.points.filter((point) => point.time > time - seconds);
      line.points.push({ time, value: values[i] });
      document.getElementById(line.id).textContent = `${values[i].toFixed(this.digits)} ${this.unit}`;
    });
    this.draw(time);
  }

  draw(time) {
    const most = Math.max(1e-9, ...this.lines.flatMap((line) => line.points.map((point) => point.value)));
    const at = ({ time: t, value }) =>
      `${(width * (1 - (time - t) / seconds)).toFixed(1)},${(height * (1 - (0.95 * value) / most)).toFixed(1)}`;
    this.lines.forEach((line, i) => this.drawn[i].setAttribute("points", line.points.map(at).join(" ")));
    this.scale.textContent = `0 to ${(most / 0.95).toFixed(this.digits)} ${this.unit}`;
  }
}
