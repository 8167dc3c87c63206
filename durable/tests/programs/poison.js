// The worker of poison.py in Node. usage: poison.js table|stream PLACE EXAMPLES
"use strict";

const fs = require("fs");

const [sink, place, examples] = process.argv.slice(2);

const faults = {
  text: () => { throw new Error("no <stock>"); },
  surrogate: () => { throw new Error("\udcff"); },
  zero: () => { throw new Error("a\0b"); },
  mute: () => { throw Object.create(null); },
  type: () => "soon",
  far: () => 1e300,
  foreign: () => Promise.reject(undefined),
  deferred: async (link, timer) => {
    if (sink !== "table") throw new Error("no");
    await link.query("insert into late values ($1)", [timer.id]);
  },
  "own-link": async (link) => {
    if (sink === "table") await link.query("rollback");
    throw new Error("no");
  },
};

const handle = async (link, timer) => {
  const [kind, fault] = timer.id.toString("latin1").split(" ");
  if (kind === "deadly") process.exit(9);
  if (kind === "bad") return faults[fault](link, timer);
  fs.appendFileSync(process.env.POISON_LOG, `${timer.id.toString("hex")} ${process.pid}\n`);
  if (kind === "limited") setTimeout(() => process.exit(9), 1000);
  if (kind === "hangs" || kind === "limited") return new Promise(() => {});
};

if (sink === "table") {
  const { Client } = require("pg");
  const words = Object.fromEntries(place.split(" ").map((word) => word.split("=")));
  require(examples + "/tvec_worker.js").work(() => new Client({ host: words.host, user: words.user, database: words.dbname }), handle);
} else {
  const { createClient } = require("redis");
  require(examples + "/tvec_stream_worker.js").work(() => createClient({ socket: { path: place } }), handle);
}
