#!/usr/bin/env node
// The same as orders.py, in Node.
//
// usage: orders.js setup | place ID [SECONDS] | pay ID | work
"use strict";

const { Client } = require("pg");

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

const pay = (db, order) => inTransaction(db, async () => {
  await db.query("update orders set state = 'paid' where id = $1 and state = 'placed'", [order]);
  await db.query("select tvec.cancel($1::text)", ["close " + order]);
});

const closeDueOrders = (db) => inTransaction(db, async () => {
  const deliveries = await db.query("select convert_from(id, 'UTF8') as id, attempt from tvec.next(10)");
  for (const { id, attempt } of deliveries.rows) {
    const order = id.slice("close ".length);
    const closed = await db.query("update orders set state = 'closed' where id = $1 and state = 'placed'", [order]);
    if (closed.rowCount === 1) console.log("closed " + order);
    await db.query("select tvec.done($1::text, $2)", [id, attempt]);
  }
  return deliveries.rowCount;
});

const work = async (db) => {
  let wake = () => {};
  db.on("notification", () => wake());
  await db.query("listen tvec_ready");
  for (;;) {
    const woken = new Promise((resolve) => { wake = resolve; });
    if (await closeDueOrders(db) > 0) continue;
    let limit;
    await Promise.race([woken, new Promise((resolve) => { limit = setTimeout(resolve, 5000); })]);
    clearTimeout(limit);
  }
};

const main = async () => {
  const commands = { setup, place, pay, work };
  const [command, ...words] = process.argv.slice(2);
  if (!(command in commands)) throw new Error("usage: orders.js setup | place ID [SECONDS] | pay ID | work");
  const db = new Client({ host: process.env.PGHOST || "/var/run/postgresql" });  // as psql of Debian
  await db.connect();
  await commands[command](db, ...words);
  await db.end();
};

main().catch((fault) => {
  console.error("orders.js: " + fault.message);
  process.exitCode = 1;
});
