#!/usr/bin/env node
// The same as orders.py, in Node.
//
// usage: orders.js setup | place ID [SECONDS] | pay ID | work
"use strict";

const { Client } = require("pg");

const tvecWorker = require("./tvec_worker.js");

const connect = () => new Client({ host: process.env.PGHOST || "/var/run/postgresql" }); // as psql of Debian

// Runs `body` in a transaction: all of it is done, or nothing.
const inTransaction = async (db, body) => {
  await db.query("begin");
  try {
    const result = await body();
    await db.query("commit");
    return result;
  } catch (fault) {
    await db.query("rollback");
    throw fault;
  }
};

const setup = (db) => db.query("create table if not exists orders (id text primary key, state text not null)");

const place = (db, order, seconds = 30 * 60) => inTransaction(db, async () => {
  await db.query("insert into orders values ($1, 'placed')", [order]);
  await db.query("select tvec.put($1::text, now() + $2 * interval '1 second')", ["close " + order, seconds]);
});

// The timer comes before the order, as in a worker: whoever is second waits, and neither has what the other wants.
const pay = (db, order) => inTransaction(db, async () => {
  await db.query("select tvec.cancel($1::text)", ["close " + order]);
  await db.query("update orders set state = 'paid' where id = $1 and state = 'placed'", [order]);
});

const close = async (db, { id }) => {
  const order = new TextDecoder("utf-8", { fatal: true }).decode(id).slice("close ".length);
  const closed = await db.query("update orders set state = 'closed' where id = $1 and state = 'placed'", [order]);
  if (closed.rowCount === 1) console.log("closed " + order);
};

const work = () => tvecWorker.work(connect, close, { prefix: "close " });

const main = async () => {
  const commands = { setup, place, pay };
  const [command, ...words] = process.argv.slice(2);
  if (command === "work") return work();
  if (!(command in commands)) throw new Error("usage: orders.js setup | place ID [SECONDS] | pay ID | work");
  const db = connect();
  await db.connect();
  await commands[command](db, ...words);
  return db.end();
};

main().catch((fault) => {
  console.error("orders.js: " + fault.message);
  process.exitCode = 1;
});
