// Reads the text of a census into values.

// Reads the text of include/tvec/inspect/census.hpp; skips lines that it does not know.
export function parseCensus(text) {
  const census = { now: 0, levels: [], beyond: { pending: 0, idle: 0 } };
  for (const line of text.split("\n")) {
    const [what, ...words] = line.split(" ");
    const [a, b, c] = words.map(Number);
    const level = census.levels.at(-1);
    if (what === "now") census.now = a;
    if (what === "level") {
      census.levels.push({ name: a ? `level ${a}` : "root", width: b, slots: c, held: [], pending: 0, idle: 0 });
    }
    if (what === "slot") {
      level.held.push({ slot: Math.floor(a / level.width) % level.slots, pending: b, idle: c });
      level.pending += b;
      level.idle += c;
    }
    if (what === "overflow") census.beyond = { pending: a, idle: b };
  }
  return census;
}

// Reads Prometheus' text format: a Map of each name, with its labels, to its value.
export function parseMetrics(text) {
  const samples = text.split("\n").filter((line) => line && !line.startsWith("#"));
  return new Map(samples.map((line) => {
    const space = line.lastIndexOf(" ");
    return [line.slice(0, space), Number(line.slice(space + 1))];
  }));
}
