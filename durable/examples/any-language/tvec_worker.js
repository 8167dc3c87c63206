// The same as tvec_worker.py, in Node, for the package pg.
//
//     await tvecWorker.work(() => new Client(), handle);
//
// calls `handle(db, timer)` for each due timer, for ever. The timer has `id` (a Buffer), `attempt`, `due` and `body`.
// What the handler does with the client is committed with the end of the delivery, or not at all. Nothing means done,
// a number means again after so many milliseconds, and an exception means failed, with its text as the reason.
//
// With `outside` no transaction is open when the handler is called, so that it may act elsewhere. It then has a minute,
// after which another worker gets the timer. A handler that needs more calls `extend(db, timer, "10 minutes")`. What is no
// Client of pg, such as a Pool, whose statements may go to several sessions, is refused by a TypeError.
"use strict";

const VERSION = "0.6.0";
const isRollback = (fault) => ["40001", "40P01"].includes(fault?.code); // a serialization failure, or a deadlock
// Returns true for the server's answer to a mistake. The others are of the connection, or of the whole server.
const isAnswer = (fault) => /^[0-9A-Z]{5}$/.test(fault?.code) && !/^(08|40|53|55|57|58|XX)/.test(fault.code);

// Returns the text of what was thrown, as PostgreSQL takes it, whatever it is.
const reasonOf = (fault) => {
  try {
    return String(fault).replaceAll("\0", "?");
  } catch {
    return "what was thrown has no text";
  }
};

// Returns false if the timer was cancelled, or another worker has it.
const extend = async (db, { id, attempt }, lease = "1 minute") =>
  (await db.query("select tvec.extend($1::bytea, $2, $3) as said", [id, attempt, lease])).rows[0].said === "ok";

// One transaction, which locks the timer first, as one that cancels it does: they do not deadlock. Whatever the handler
// does is the end of this delivery, and of no other.
const inTransaction = async (db, timer, handle, outside, triesLeft) => {
  const { id, attempt } = timer;
  if (!await extend(db, timer)) return;
  await db.query(outside ? "commit" : "savepoint handler");
  try {
    const delay = await handle(db, timer);
    if (delay === undefined) await db.query("select tvec.done($1::bytea, $2)", [id, attempt]);
    else await db.query("select tvec.again($1::bytea, $2, clock_timestamp() + $3 * interval '1 ms')", [id, attempt, delay]);
  } catch (fault) {
    if (isRollback(fault) && triesLeft > 0) throw fault;
    if (!outside) await db.query("rollback to savepoint handler");
    await db.query("select tvec.failed($1::bytea, $2, $3)", [id, attempt, reasonOf(fault)]);
  }
};

const call = async (db, timer, handle, outside, triesLeft = 9) => {
  await db.query("begin read write");
  try {
    await inTransaction(db, timer, handle, outside, triesLeft);
    await db.query("commit");
  } catch (fault) {
    await db.query("rollback");
    if (isRollback(fault) && triesLeft > 0) return call(db, timer, handle, outside, triesLeft - 1);
    if (!isAnswer(fault)) throw fault;
    const { id, attempt } = timer; // the commit was refused, by a deferred constraint say
    await db.query("select tvec.failed($1::bytea, $2, $3)", [id, attempt, reasonOf(fault)]);
  }
};

// Takes timers and calls the handler for each. Returns how many there were. Each worker that takes one and dies has
// cost it an attempt, so the take is committed first. If the array `taken` holds some that were left when a connection
// broke, these come instead: one timer that ends its session must not cost others an attempt.
const workOff = async (db, handle, { most = 10, prefix = "", outside = false, taken = [] } = {}) => {
  if (taken.length === 0) {
    taken.push(...(await db.query("select id, attempt, due, body from tvec.next($1, $2::text)", [most, prefix])).rows);
  }
  const number = taken.length;
  while (taken.length > 0) await call(db, taken.shift(), handle, outside);
  return number;
};

const untilItFails = async (db, handle, options) => {
  let wake = () => {};
  const broken = new Promise((_, reject) => db.on("error", reject));
  broken.catch(() => {}); // it may come while nobody waits
  db.on("notification", () => wake());
  await db.connect();
  await db.query("set default_transaction_read_only = off; listen tvec_ready");
  for (;;) {
    const woken = new Promise((resolve) => { wake = resolve; });
    if (await workOff(db, handle, options) > 0) continue;
    let limit; // it waits for a delivery, and looks at times, as its notification may be lost
    await Promise.race([woken, broken, new Promise((resolve) => { limit = setTimeout(resolve, 5000); })]);
    clearTimeout(limit);
  }
};

const work = async (connect, handle, options) => {
  const taken = [];
  for (;;) {
    const db = connect();
    if (!db?.connectionParameters) throw new TypeError(`connect() returned ${db?.constructor.name}: expected a new Client of pg`);
    await untilItFails(db, handle, { ...options, taken }).catch((fault) => console.error("tvec_worker: " + fault.message));
    db.end().catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 1000)); // the timer at which it broke comes again
  }
};

module.exports = { VERSION, extend, work, workOff };
