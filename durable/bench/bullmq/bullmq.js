// BullMQ with the load of durable/bench/durable, on a Redis server that is given and cleared. Prints the same lines of CSV.
// usage: node bullmq.js --socket PATH --store NAME [--rows puts,lateness] [--rate N] [--seconds N] [--puts N]
'use strict';

const { parseArgs } = require('node:util');
const { setTimeout: sleep } = require('node:timers/promises');
const { Queue, Worker } = require('bullmq');
const Redis = require('ioredis');

const options = parseArgs({
  strict: false,  // what is meant for durable/bench/durable alone
  options: {
    socket: { type: 'string' },
    store: { type: 'string' },
    rows: { type: 'string', default: 'puts,lateness' },
    rate: { type: 'string', default: '10000' },
    seconds: { type: 'string', default: '3' },
    puts: { type: 'string', default: '20000' },
  },
}).values;
const [rate, seconds, puts] = [options.rate, options.seconds, options.puts].map(Number);
const connection = { path: options.socket, maxRetriesPerRequest: null };
const redis = new Redis(connection);
const body = 'b'.repeat(64);
const now = () => performance.timeOrigin + performance.now();
const print = (row, figure, unit, value) =>
  console.log([row, options.store, 'BullMQ', figure, unit, value.toPrecision(6)].join());

// Twenty digits, at random.
const idOf = n => BigInt.asUintN(64, BigInt(n) * 11400714819323198485n).toString().padStart(20, '0');

const jobOf = (n, due) => ({
  name: 'timer',
  data: { body, due },
  opts: { delay: Math.max(0, due - Date.now()), jobId: 'id' + idOf(n), removeOnComplete: true },
});

async function serverSeconds() {
  const info = await redis.info('cpu');
  const of = name => Number(info.match(new RegExp(`${name}:([0-9.]+)`))[1]);
  return of('used_cpu_user') + of('used_cpu_sys');
}

// Measures time from now on, and processor time here and in the server.
async function stretch() {
  const [begun, own, its] = [now(), process.cpuUsage(), await serverSeconds()];
  const client = () => Object.values(process.cpuUsage(own)).reduce((a, b) => a + b) / 1e6;
  const passed = () => (now() - begun) / 1e3;
  return {
    passed,
    async printRate(row, figure, n) {
      const taken = passed();
      print(row, figure, '1/s', n / taken);
      print(row, figure + ' client', 'us', client() / n * 1e6);
      print(row, figure + ' server', 'us', (await serverSeconds() - its) / n * 1e6);
    },
    async printShare(row) {
      const taken = passed();
      print(row, 'client', '% of a core', client() / taken * 100);
      print(row, 'server', '% of a core', (await serverSeconds() - its) / taken * 100);
    },
  };
}

async function measurePuts() {
  const due = Date.now() + 3600_000;
  const queue = new Queue('together', { connection });
  let took = await stretch();
  for (let n = 0; n < puts; n += 1000)
    await queue.addBulk(Array.from({ length: 1000 }, (_, i) => jobOf(n + i, due + (n + i) / 50 | 0)));
  await took.printRate('puts', 'together random', puts);
  took = await stretch();
  let n = 0;
  for (; took.passed() < 1; ++n) {
    const job = jobOf(puts + n, due);
    await queue.add(job.name, job.data, job.opts);
  }
  await took.printRate('puts', 'one by one', n);
  await queue.close();
}

// Puts what comes every two milliseconds, due one to three seconds later. Returns how many.
async function putAtRate(queue) {
  const begun = now();
  let sent = 0;
  for (let over = false; !over; await sleep(2)) {
    const until = Math.min((now() - begun) / 1e3, seconds);
    over = until >= seconds;
    const jobs = [];
    for (; sent < until * rate; ++sent) jobs.push(jobOf(sent, Date.now() + 1000 + Math.floor(Math.random() * 2000)));
    if (jobs.length) await queue.addBulk(jobs);
  }
  return sent;
}

async function measureLateness() {
  const late = [];
  const queue = new Queue('late', { connection });
  const worker = new Worker('late', async job => { late.push(now() - job.data.due); }, { connection, concurrency: 100 });
  await worker.waitUntilReady();
  const took = await stretch();
  const sent = await putAtRate(queue);
  while (late.length < sent) {
    if (took.passed() > seconds + 60) throw new Error('not all jobs have come');
    await sleep(10);
  }
  await took.printShare('lateness');
  late.sort((a, b) => a - b);
  const at = share => late[Math.min(late.length - 1, Math.floor(late.length * share))];
  print('lateness', 'p50', 'ms', at(0.5));
  print('lateness', 'p99', 'ms', at(0.99));
  print('lateness', 'max', 'ms', at(1));
  print('lateness', 'early', 'timers', late.filter(x => x < 0).length);
  await worker.close();
  await queue.close();
}

async function main() {
  if (await redis.dbsize() !== 0) throw new Error(`there is something in ${options.socket}, which would go`);
  for (const [row, measure] of [['puts', measurePuts], ['lateness', measureLateness]]) {
    if (options.rows.split(',').includes(row)) await measure();
    await redis.flushall();
  }
  await redis.quit();
}

main().catch(error => {
  console.error(`bullmq: ${error.message}`);
  process.exit(1);
});
