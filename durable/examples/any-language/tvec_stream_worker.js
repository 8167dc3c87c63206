// The same as tvec_stream_worker.py, in Node, for the packages redis, from version 4 on, and ioredis, from version 5 on.
//
//     await tvecStreamWorker.work(() => createClient(), handle);
//
// calls `handle(link, timer)` for each due timer, for ever. The timer has `id` and `body` (Buffers), `attempt`, and `due`
// in ms since 1970. Nothing means done, a number means again after so many milliseconds, by the clock of this machine,
// and an exception means failed, with its text as the reason. A handler that needs longer than the lease calls
// `extend(link, timer, 60_000)` in time. Other clients are refused by a TypeError.
"use strict";

const VERSION = "0.6.0";
const GROUP = "workers";
const LATEST = 253402300799999; // the last deadline, ms since 1970
// Strings are Buffers, by version 4 of redis and by later ones, and what protocol 3 calls a map is a list.
const asBuffers = { returnBuffers: true, typeMapping: { 36: Buffer, 37: Array } };

const isIoredis = (link) => typeof link.callBuffer === "function";

// Sends a command that is about one key: in a cluster it goes to the node of that.
const say = (link, key, words) => {
  const sent = words.map((word) => (Buffer.isBuffer(word) ? word : String(word)));
  if (isIoredis(link)) return link.callBuffer(...sent);
  const isCluster = link.sendCommand.length > 2;
  return isCluster ? link.sendCommand(key, false, sent, asBuffers) : link.sendCommand(sent, asBuffers);
};

const call = (link, name, key, { id, attempt }, ...words) => {
  const place = typeof key === "function" ? key(id) : key;
  return say(link, place, ["FCALL", name, 1, place, id, attempt, ...words]);
};

class Unfit extends TypeError {}

// Connects, and asks for what changes nothing, before a delivery is taken.
const connectTo = async (link, key) => {
  const isKnown = isIoredis(link) || (link.connect && link.sendCommand);
  if (isKnown && !isIoredis(link)) await link.connect(); // ioredis connects by itself
  const timer = { id: Buffer.from("tvec_stream_worker"), attempt: 2 ** 32 - 1 };
  const said = isKnown ? await call(link, "tvec_extend", key, timer, 1) : "nothing";
  if (Buffer.isBuffer(said)) return;
  throw new Unfit(`the client answered ${said}: expected bytes, from a client of redis 4 or later, or of ioredis`);
};

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

// Returns the entries of the one stream: of a list of pairs, or with protocol 3 of the pair.
const entriesOf = (answer) => (answer ? (Array.isArray(answer[0]) ? answer[0] : answer)[1] : []);

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
    const words = ["XREADGROUP", "GROUP", GROUP, me, "COUNT", 1, "BLOCK", 5000, "STREAMS", stream, ">"];
    for (const [entry, fields] of entriesOf(await say(link, stream, words))) {
      const timer = timerOf(fields || []);
      unended.push({ entry, timer, end: timer ? await endOf(link, timer, handle) : undefined });
    }
  }
  for (const { entry, timer, end } of [...unended]) {
    try {
      if (timer) await call(link, end[0], key, timer, ...end.slice(1));
      await say(link, stream, ["XACK", stream, GROUP, entry]);
      await say(link, stream, ["XDEL", stream, entry]);
    } catch (fault) {
      if (isRefusal(fault)) unended.length = 0; // it would be refused again: it comes again when its lease ends
      throw fault;
    }
    unended.length = 0;
  }
};

// Returns true if the server has answered with an error. The others are of the connection.
const isRefusal = (fault) => fault.constructor.name.endsWith("ErrorReply") || /^[A-Z]+ /.test(fault.message);

// Newer clients call it destroy.
const close = async (link) => (link.destroy ?? link.disconnect).call(link);

const work = async (connect, handle, { stream = "due", key = "tvec", me = `${require("os").hostname()}:${process.pid}` } = {}) => {
  const unended = [];
  for (;;) {
    const link = connect();
    link.on("error", () => {}); // the next command fails
    try {
      await connectTo(link, key);
      for (;;) await workOff(link, handle, { stream, key, me }, unended);
    } catch (fault) {
      if (fault instanceof Unfit) throw fault;
      console.error("tvec_stream_worker: " + reasonOf(fault));
    } finally {
      await close(link).catch(() => {});
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
};

module.exports = { VERSION, extend, work, workOff };
