// Draws a census as rings: the root outside, a level in each ring further in. A slot keeps its place, and the
// hand of each ring goes round.

const fullTurn = 2 * Math.PI;
const top = -fullTurn / 4;

export class Wheel {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
  }

  draw(census) {
    this.measure();
    const longest = Math.max(1, ...census.levels.flatMap((l) => l.held.map((s) => s.pending + s.idle)));
    this.scale = 1 / Math.log2(1 + longest);
    const bands = census.levels.map((_, i) => this.band(i, census.levels.length));
    census.levels.forEach((level, i) => this.drawLevel(level, census.now, bands[i]));
    census.levels.forEach((level, i) => this.writeName(level.name, bands[i]));
    this.write(census);
  }

  // The canvas has as many pixels as the screen shows of it.
  measure() {
    const style = getComputedStyle(this.canvas);
    this.colour = (name) => style.getPropertyValue(`--${name}`);
    this.size = Math.max(1, Math.round(this.canvas.clientWidth * devicePixelRatio));
    this.canvas.width = this.canvas.height = this.size;
    this.pen.translate(this.size / 2, this.size / 2);
  }

  // The ring of a level: the root's is half as wide again as each of the others.
  band(index, levels) {
    const outer = this.size / 2 - 1;
    const unit = (outer * 0.8) / (levels + 0.5);
    const from = index === 0 ? 0 : index + 0.5;
    const width = index === 0 ? 1.5 : 1;
    return { outer: outer - from * unit, inner: outer - (from + width) * unit + unit * 0.12 };
  }

  drawLevel(level, now, { outer, inner }) {
    this.sector(inner, outer, 0, fullTurn, "ring");
    for (const { slot, pending, idle } of level.held) {
      const height = (outer - inner) * this.scale * Math.log2(1 + pending + idle);
      const shaded = (height * idle) / (pending + idle);
      const [from, to] = [slot, slot + 1].map((s) => (s / level.slots) * fullTurn);
      this.sector(inner, inner + shaded, from, to, "idle");
      this.sector(inner + shaded, inner + height, from, to, "pending");
    }
    this.drawHand(((now / level.width) % level.slots) / level.slots, inner, outer);
  }

  sector(inner, outer, from, to, colour) {
    this.pen.beginPath();
    this.pen.arc(0, 0, outer, top + from, top + to);
    this.pen.arc(0, 0, inner, top + to, top + from, true);
    this.pen.fillStyle = this.colour(colour);
    this.pen.fill();
  }

  drawHand(turn, inner, outer) {
    const angle = top + turn * fullTurn;
    this.pen.beginPath();
    for (const radius of [inner, outer]) this.pen.lineTo(radius * Math.cos(angle), radius * Math.sin(angle));
    this.pen.strokeStyle = this.colour("hand");
    this.pen.lineWidth = 2 * devicePixelRatio;
    this.pen.stroke();
  }

  // At the foot of a ring, legible in front of its slots.
  writeName(name, { inner, outer }) {
    const size = Math.max(this.size / 44, 10 * devicePixelRatio);
    const foot = (inner + outer) / 2 + size / 3;
    this.pen.textAlign = "center";
    this.pen.font = `${size}px system-ui, sans-serif`;
    this.pen.lineWidth = size / 3;
    this.pen.lineJoin = "round";
    this.pen.strokeStyle = this.colour("ring");
    this.pen.strokeText(name, 0, foot);
    this.pen.fillStyle = this.colour("soft");
    this.pen.fillText(name, 0, foot);
  }

  write(census) {
    const pending = census.levels.reduce((sum, level) => sum + level.pending, census.beyond.pending);
    this.pen.textAlign = "center";
    this.pen.fillStyle = this.colour("ink");
    this.pen.font = `600 ${this.size / 22}px system-ui, sans-serif`;
    this.pen.fillText(pending, 0, 0);
    this.pen.font = `${this.size / 36}px system-ui, sans-serif`;
    this.pen.fillText("pending", 0, this.size / 28);
  }
}
