// The same as tvec_stream_worker.py, in Node, for the package redis.
//
//     await tvecStreamWorker.work(() => createClient(), handle);
//
// calls `handle(link, timer)` for each due timer, for ever. The timer has `id` and `body` (Buffers), `attempt`, and `due`
// in ms since 1970. Nothing means done, a number means again after so many milliseconds, by the clock of this machine,
// and an exception means failed, with its text as the reason. A handler that needs longer than the lease calls
// `extend(link, timer, 60_000)` in time.
"use strict";

const VERSION = "0.5.0";
const GROUP = "workers";
const LATEST = 253402300799999; // the last deadline, ms since 1970
const asBuffers = { returnBuffers: true, typeMapping: { 36: Buffer } }; // of versions 4 and 5 of the package

const say = (link, words) => link.sendCommand(words.map((word) => (Buffer.isBuffer(word) ? word : String(word))), asBuffers);

const call = (link, name, key, { id, attempt }, ...words) =>
  say(link, ["FCALL", name, 1, typeof key === "function" ? key(id) : key, id, attempt, ...words]);

// Returns false if the timer was cancelled, or another worker has it.
const extend = async (link, timer, leaseMs = 60000, key = "tvec") =>
  String(await call(link, "tvec_extend", key, timer, leaseMs)) === "ok";

// Returns the text of what was thrown, whatever it is.
const reasonOf = (fault) => {
  try {
    return String(fault);
  } catch {
    return "what was thrown has no text";
  }
};

// Returns nothing for an entry that is no delivery: somebody else has put it into the stream.
const timerOf = (fields) => {
  const found = {};
  for (let i = 0; i + 1 < fields.length; i += 2) found[String(fields[i])] = fields[i + 1];
  const { id, attempt, due, body } = found;
  const isDelivery = id && body && /^\d+$/.test(String(attempt)) && /^\d+$/.test(String(due));
  return isDelivery ? { id, attempt: Number(attempt), due: Number(due), body } : undefined;
};

const deadlineIn = (delay) => {
  const due = Math.ceil(Date.now() + delay);
  if (typeof delay === "number" && due >= 0 && due <= LATEST) return due;
  throw new RangeError("the handler returned " + String(delay).slice(0, 40) +
    ": expected nothing, or milliseconds up to the end of the year 9999");
};

// Calls the handler. Whatever it does is the end of this delivery, and of no other.
const endOf = async (link, timer, handle) => {
  try {
    const delay = await handle(link, timer);
    return delay === undefined ? ["tvec_done"] : ["tvec_again", deadlineIn(delay)];
  } catch (fault) {
    return ["tvec_failed", reasonOf(fault)];
  }
};

// Takes one delivery, as a worker that dies has cost all that it took an attempt, and ends it. The end is in the array
// `unended` until it is answered: if the connection breaks it is sent again, and the handler is not called again.
const workOff = async (link, handle, { stream, key, me }, unended) => {
  if (unended.length === 0) {
    const answer = await say(link, ["XREADGROUP", "GROUP", GROUP, me, "COUNT", 1, "BLOCK", 5000, "STREAMS", stream, ">"]);
    for (const [entry, fields] of answer ? answer[0][1] : []) {
      const timer = timerOf(fields || []);
      unended.push({ entry, timer, end: timer ? await endOf(link, timer, handle) : undefined });
    }
  }
  for (const { entry, timer, end } of [...unended]) {
    try {
      if (timer) await call(link, end[0], key, timer, ...end.slice(1));
      await say(link, ["XACK", stream, GROUP, entry]);
      await say(link, ["XDEL", stream, entry]);
    } catch (fault) {
      if (isRefusal(fault)) unended.length = 0; // it would be refused again: it comes again when its lease ends
      throw fault;
    }
    unended.length = 0;
  }
};

// Returns true if the server has answered with an error. The others are of the connection.
const isRefusal = (fault) => fault.constructor.name.endsWith("ErrorReply") || /^[A-Z]+ /.test(fault.message);

const work = async (connect, handle, { stream = "due", key = "tvec", me = `${require("os").hostname()}:${process.pid}` } = {}) => {
  const unended = [];
  for (;;) {
    const link = connect();
    link.on("error", () => {}); // the next command fails
    try {
      await link.connect();
      for (;;) await workOff(link, handle, { stream, key, me }, unended);
    } catch (fault) {
      console.error("tvec_stream_worker: " + reasonOf(fault));
    }
    await Promise.resolve(link.disconnect()).catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
};

module.exports = { VERSION, extend, work, workOff };
