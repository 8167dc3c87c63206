// A line, or several, of what happened in the last minute, and the newest figures above it.

const width = 600;
const height = 80;
const seconds = 60;

// From 0 to a little over `most`.
function linear(most) {
  const top = Math.max(1e-9, most) / 0.95;
  return { from: 0, to: top, share: (value) => value / top };
}

// Whole decades, from a hundredth on: a rare large value leaves the small ones legible.
function logarithmic(most) {
  const [low, high] = [-2, Math.max(0, Math.ceil(Math.log10(most)))];
  return { from: 10 ** low, to: 10 ** high, share: (value) => Math.max(0, Math.log10(value) - low) / (high - low) };
}

export class Chart {
  // lines: [{ id, name, colour }]; values are in `unit`, shown with so many `digits`.
  constructor(parent, title, unit, digits, lines, { isLogarithmic = false } = {}) {
    this.unit = unit;
    this.digits = digits;
    this.scaleFor = isLogarithmic ? logarithmic : linear;
    this.kind = isLogarithmic ? ", logarithmic" : "";
    this.lines = lines.map((line) => ({ ...line, points: [] }));
    const figure = document.createElement("figure");
    figure.innerHTML = `<figcaption><b>${title}</b>${lines.map(Chart.legend).join("")}</figcaption>
<svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label="${title}, the last minute">
${lines.map((line) => `<polyline stroke="var(--${line.colour})"/>`).join("")}</svg>
<figcaption><span class="scale"></span><span>a minute ago to now</span></figcaption>`;
    parent.append(figure);
    this.drawn = figure.querySelectorAll("polyline");
    this.caption = figure.querySelector(".scale");
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
    const values = this.lines.flatMap((line) => line.points.map((point) => point.value));
    const { from, to, share } = this.scaleFor(Math.max(0, ...values));
    const at = ({ time: t, value }) =>
      `${(width * (1 - (time - t) / seconds)).toFixed(1)},${(height * (1 - share(value))).toFixed(1)}`;
    this.lines.forEach((line, i) => this.drawn[i].setAttribute("points", line.points.map(at).join(" ")));
    const [low, high] = [from, to].map((value) => (value ? value.toFixed(this.digits) : "0"));
    this.caption.textContent = `${low} to ${high} ${this.unit}${this.kind}`;
  }
}
