// The worker of clients.py in Node. usage: clients.js WORKER CONNECT OPTIONS, of which the last two are expressions
"use strict";

const fs = require("fs");

const [path, connect, words] = process.argv.slice(2);
const options = eval(`(${words})`);
const worker = require(path);
const seen = new Set();

const handle = async (link, { id, attempt, body }) => {
  const name = id.toString("hex");
  const isFirst = !seen.has(name);
  seen.add(name);
  fs.appendFileSync(process.env.HANDLED, `${name} ${attempt} ${body.toString("hex")}\n`);
  const kind = id.toString("latin1").split(" ")[1];
  if (kind === "again" && isFirst) return 50;
  if (kind === "throws" && isFirst) throw new Error("no");
  if (kind === "extends" && !await worker.extend(link, { id, attempt }, undefined, options.key)) throw new Error("it was taken away");
};

worker.work(() => eval(connect), handle, options).catch((fault) => {
  console.error(fault.message);
  process.exit(1);
});
