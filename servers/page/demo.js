// The page: shows what comes from /stream, and sends what the visitor wants.

import { parseCensus, parseMetrics } from "./census.js";
import { Chart } from "./chart.js";
import { Wheel } from "./wheel.js";

const window = 1; // seconds over which a rate is taken
const element = (id) => document.getElementById(id);
const visits = ["fired", "moved", "dropped"];

const wheel = new Wheel(element("wheel"));
const charts = {
  wakeups: new Chart(element("charts"), "wake-ups", "/s", 0, [{ id: "wakeups", name: "", colour: "pending" }]),
  visits: new Chart(element("charts"), "visits to timers", "/s", 0, [
    { id: "fired", name: "fired", colour: "hand" },
    { id: "moved", name: "moved", colour: "pending" },
    { id: "dropped", name: "dropped", colour: "idle" },
  ]),
  lateness: new Chart(element("charts"), "lateness", "ms", 2, [
    { id: "lateness", name: "mean", colour: "pending" },
    { id: "p99", name: "p99 since the start", colour: "hand" },
  ], { isLogarithmic: true }),
  load: new Chart(element("charts"), "connections", "", 0, [{ id: "open", name: "open", colour: "third" }]),
  echoes: new Chart(element("charts"), "echoes", "/s", 0, [{ id: "echoes", name: "", colour: "third" }]),
};
const shown = []; // the samples of the last second, oldest first
let isSetting = false; // the visitor moves a control, and the server has not answered yet

// How much `name` grew in the last second, by the second; undefined at the start.
function rate(name) {
  const [oldest, newest] = [shown[0], shown.at(-1)];
  const elapsed = newest.time - oldest.time;
  return elapsed > 0 ? (newest.metrics.get(name) - oldest.metrics.get(name)) / elapsed : undefined;
}

// Of the timers that fired in the last second, in milliseconds.
function meanLateness() {
  const fires = rate("tvec_lateness_seconds_count");
  return fires > 0 ? (1000 * rate("tvec_lateness_seconds_sum")) / fires : undefined;
}

function duration(milliseconds) {
  if (milliseconds < 1000) return `${milliseconds} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 100) return `${seconds.toFixed(1)} s`;
  return seconds < 10_000 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(0)} h`;
}

function row(level) {
  const cells = [level.name, duration(level.width),
    `${level.held.length} of ${level.slots}`, level.pending, level.idle];
  return `<tr>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`;
}

function showFigures(time, metrics) {
  charts.wakeups.add(time, [rate("echo_wakeups_total")]);
  charts.visits.add(time, visits.map((done) => rate(`tvec_visits_total{done="${done}"}`)));
  charts.lateness.add(time, [meanLateness(), 1000 * metrics.get('tvec_lateness_seconds{quantile="0.99"}')]);
  charts.load.add(time, [metrics.get("echo_connections_open")]);
  charts.echoes.add(time, [rate("echo_messages_total")]);
}

function showLoad(load) {
  const slider = element("connections");
  slider.max = load.most;
  slider.step = load.step;
  if (!isSetting) {
    slider.value = load.connections;
    element("pause").value = load.pause;
  }
  element("wanted").textContent = slider.value;
  element("burst").disabled = load.burst;
  element("silent").textContent = load.silent;
  element("ends").textContent = `ends by itself in ${load.ends_in} s`;
}

function show({ time, census, metrics, load }) {
  shown.push({ time, metrics: parseMetrics(metrics) });
  while (shown[0].time < time - window) shown.shift();
  const counted = parseCensus(census);
  wheel.draw(counted);
  element("levels").innerHTML = counted.levels.map(row).join("");
  showFigures(time, shown.at(-1).metrics);
  showLoad(load);
}

async function send(path, form) {
  const answer = await fetch(path, { method: "POST", body: new URLSearchParams(form) });
  element("said").textContent = answer.ok ? "" : await answer.text();
}

const stream = new EventSource("/stream");
stream.onmessage = (event) => show(JSON.parse(event.data));
stream.onerror = () => {
  stream.close();
  element("ends").textContent = "it has ended";
};
element("load").oninput = () => {
  isSetting = true;
  element("wanted").textContent = element("connections").value;
};
element("load").onchange = async (event) => {
  await send("/load", new FormData(event.currentTarget));
  isSetting = false;
};
element("burst").onclick = () => send("/burst", {});
