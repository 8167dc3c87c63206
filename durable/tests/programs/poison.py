#!/usr/bin/python3
"""Puts timers that nobody can handle among good ones, has workers deal with them, and audits.

usage: poison.py TVEC_TIMERS EXAMPLES table|stream|hook [--rounds N | --time SECONDS]

The same timers go through each way to workers: the table in PostgreSQL and the stream in Redis, with the workers that
the package installs in Python and Node, and a hook with a file. The poison:
  bad      the handler throws, or the hook refuses: with any text, or none, or returns what it must not
  deadly   the process that handles it ends at once, and another is started. Good timers come due with it
  strange  an entry of the stream that is no delivery
  hangs    the handler never returns: of 1, of 2, and of as many as there are workers
  limited  the same, but the process ends itself after a second, and another is started: of more than there are workers
Good ones are handled before anybody ends what hangs, unless all workers of a table or stream do: then /health says so.
In the end each good timer was handled, although one lost attempt makes a dead letter, and the dead letters are the
poison. Ends with 77 where there is no server, or no client of it in Python.
"""

import argparse
import base64
import http.server
import json
import os
import pathlib
import random
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import harm
import postgres_server
import redis_server
from children import PATIENCE, free_port, patiently

WORKERS, TOGETHER = 3, 30  # good timers in a round
MOST = 10 * TOGETHER  # timers that wait before the next round: a busy machine would be behind by minutes in the end
IN_FLIGHT = 10  # so many requests of a hook may hang before others wait
FAULTS = ("text", "surrogate", "zero", "mute", "type", "far", "foreign", "deferred", "own-link")
SCHEMA = """
create table late (id bytea);
create function refuse() returns trigger language plpgsql as $$ begin raise 'no %', new.id; end $$;
create constraint trigger refused after insert on late deferrable initially deferred for each row execute function refuse()
"""


class Mute(Exception):
    """Has no text."""

    def __str__(self):
        raise ValueError("no text")


# --- a worker, in a process of its own ---------------------------------------------------------------------------


def note(name):
    with open(os.environ["POISON_LOG"], "a", encoding="ascii") as log:
        log.write(f"{name.hex()} {os.getpid()}\n")


def hang(name):
    note(name)
    while True:
        time.sleep(PATIENCE)


def handle(link, timer):
    """Handles a timer as its id says."""
    kind, _, fault = timer.id.partition(b" ")
    if kind == b"deadly":
        os._exit(9)
    if kind == b"hangs":
        hang(timer.id)
    if kind == b"limited":
        signal.alarm(1)
        hang(timer.id)
    if kind != b"bad":
        return note(timer.id)
    fault = fault.split(b" ")[0].decode()
    if fault == "type":
        return "soon"
    if fault == "far":
        import datetime
        return datetime.timedelta(days=3_000_000)
    if fault == "foreign":  # of another server
        import psycopg2
        psycopg2.connect("host=/nowhere")
    if fault == "deferred" and hasattr(link, "execute"):
        return link.execute("insert into late values (%s)", [timer.id]) and None
    if fault == "own-link" and hasattr(link, "connection"):  # and hangs up
        link.connection.rollback()
    raise Mute() if fault == "mute" else ValueError({"surrogate": "\udcff", "zero": "a\0b"}.get(fault, "no <stock>"))


def answer(name):
    """The answer of the hook to a timer: status, headers and body."""
    kind, _, fault = name.partition(b" ")
    if kind == b"deadly":
        os._exit(9)
    if kind == b"hangs":
        hang(name)
    if kind != b"bad":
        return note(name) or (200, b"")
    return {b"zero": (500, b"a\0b"), b"surrogate": (404, b"\xff"), b"mute": (500, b""), b"type": (200, b'{"again": "soon"}'),
            b"far": (200, b'{"again": 1e300}'), b"foreign": (302, b"")}.get(fault.split(b" ")[0], (500, b"no <stock>"))


class Hook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(random.uniform(0, 0.02))  # so that several are in hand
        status, body = answer(urllib.parse.unquote_to_bytes(self.headers["Tvec-Id"]))
        self.send_response(status)
        self.send_header("Content-Length", len(body))
        self.end_headers()
        self.wfile.write(body)


class HookServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 100


def work(sink, place, examples):
    sys.path.insert(0, examples)
    if sink == "table":
        import psycopg2
        import tvec_worker
        tvec_worker.work(lambda: psycopg2.connect(place), handle)
    if sink == "stream":
        import redis
        import tvec_stream_worker
        tvec_stream_worker.work(lambda: redis.Redis(unix_socket_path=place), handle)
    HookServer(("127.0.0.1", int(place)), Hook).serve_forever()


# --- the test ----------------------------------------------------------------------------------------------------


class Campaign:
    def __init__(self, options, folder):
        self.options, self.folder, self.sink = options, folder, options.sink
        self.good, self.poison, self.number = set(), set(), 0
        self.log = folder / "handled"
        self.log.touch()
        self.environment = {**os.environ, "POISON_LOG": str(self.log)}
        getattr(self, "begin_" + self.sink)()
        self.serve = self.start(options.program, "--store", self.store, "serve", "--to", self.to, "--lease-ms", 1000,
                                "--attempts", 1, "--in-flight", IN_FLIGHT, "--page", "127.0.0.1:0", "--overdue-ms", 500,
                                stdout=subprocess.PIPE)
        while b"ready" not in (line := self.serve.stdout.readline()):
            if not line:
                harm.fail(self.said())
            if b"page at" in line:
                self.page = line.decode().split()[-1]
        self.commands = [["/usr/bin/python3", __file__, "work", self.sink, self.place, options.examples]]
        if self.sink != "hook" and self.has_node({"table": "pg", "stream": "redis"}[self.sink]):
            self.commands.append(["node", pathlib.Path(__file__).with_suffix(".js"), self.sink, self.place, options.examples])
        self.workers = [self.start_worker(n) for n in range(1 if self.sink == "hook" else WORKERS)]
        self.ends, self.deaths = False, 0
        self.keeper = threading.Thread(target=self.keep)
        self.keeper.start()

    def begin_table(self):
        self.server = postgres_server.Server(self.folder, "server")
        self.store, self.to, self.place = "postgres:" + self.server.conninfo, "table", self.server.conninfo
        self.tool("install")
        self.server.say(SCHEMA)

    def begin_stream(self):
        self.server = redis_server.Server(self.folder, "server")
        self.store, self.to, self.place = f"redis:{self.server.socket}", "stream:due", str(self.server.socket)
        self.tool("install")

    def begin_hook(self):
        self.server, self.store, self.place = None, str(self.folder / "timers.db"), str(free_port())
        self.to = f"http://127.0.0.1:{self.place}/"

    def has_node(self, package):
        return shutil.which("node") and not subprocess.run(["node", "-e", f"require('{package}')"], capture_output=True).returncode

    def start(self, *words, **more):
        with open(self.folder / "log", "a") as log:
            return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, words)], env=self.environment,
                                    stdin=subprocess.DEVNULL, stderr=log, **more)

    def start_worker(self, n):
        return self.start(*self.commands[n % len(self.commands)])

    def keep(self):
        """Starts another worker for each that dies."""
        while not self.ends:
            for n, worker in enumerate(self.workers):
                if worker.poll() is not None:
                    self.deaths += 1
                    self.workers[n] = self.start_worker(n)
            time.sleep(0.02)

    def tool(self, *words):
        return subprocess.run([self.options.program, "--store", self.store, *map(str, words)], check=True,
                              capture_output=True, timeout=PATIENCE).stdout.decode()

    def said(self):
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def put(self, names, in_ms):
        due = time.time_ns() // 1_000_000 + in_ms
        if self.sink == "table":
            self.server.say(";".join(f"select tvec.put('\\x{name.hex()}'::bytea, to_timestamp({due / 1000}))" for name in names))
            return
        for name in names:
            if self.sink == "stream":
                self.server.say("FCALL", "tvec_put", 1, "tvec", os.fsdecode(name), due, "body")
            else:
                self.tool("put", os.fsdecode(name), "--due-ms", due)

    def do(self):
        """A round: timers that are due together."""
        self.number += 1
        good = {b"good %d \xff%d" % (self.number, n) for n in range(TOGETHER)}
        poison = {b"bad %s %d" % (fault.encode(), self.number) for fault in random.sample(FAULTS, 4)}
        if random.random() < 0.5:
            poison.add(b"deadly %d" % self.number)
        names = [*good, *poison]
        random.shuffle(names)
        self.put(names, random.choice((0, 500)))
        self.good |= good
        self.poison |= poison
        if self.sink == "stream":
            self.server.say("XADD", "due", "*", *random.choice((["no", "delivery"], ["id", "x", "attempt", "many", "due", "1", "body", ""])))
        time.sleep(random.uniform(0, 0.5))
        if self.serve.poll() is not None:
            harm.fail("serve has ended: " + self.said())

    def hang(self, number, kind=b"hangs", tries=3):
        """A round in which the handlers of so many timers hang. If `serve` stands still for a lease, one timer stops
        two workers: then it is done again."""
        self.number += 1
        good = {b"good %d %d" % (self.number, n) for n in range(TOGETHER)}
        bad = {b"%s %d %d" % (kind, self.number, n) for n in range(number)}
        names = [*good, *bad]
        random.shuffle(names)
        self.good |= good
        self.poison |= bad
        self.put(names, 500)
        if self.sink == "hook" or kind == b"limited" or number < WORKERS:
            self.wait_for(lambda: good <= self.handled().keys() or tries > 1 and self.all_hang(),
                          f"timers beside {number} of which the handler hangs")
            if not good <= self.handled().keys():
                self.finish()
                return self.hang(number, kind, tries - 1)
            if self.sink == "table" and kind == b"hangs":  # whose transactions keep the timers from coming again
                self.wait_for(lambda: "had no end within its lease" in self.health()[1], "/health that names what hangs")
        else:
            self.wait_for(self.all_hang, "handlers that hang")
            self.wait_for(lambda: self.health()[0] == 503, "/health that is 503, as all workers hang")
        self.finish()
        self.wait_for(lambda: self.health() == (200, "ok\n"), "/health that is ok, as nothing waits")

    def handled(self):
        """The process that has handled each timer."""
        return {bytes.fromhex(name): int(process) for name, process in map(str.split, self.log.read_text().splitlines())}

    def health(self):
        try:
            with urllib.request.urlopen(self.page.rstrip("/") + "/health", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read().decode()

    def hanging(self):
        """The workers with a handler that hangs."""
        had = {int(process) for name, process in map(str.split, self.log.read_text().splitlines())
               if bytes.fromhex(name).startswith(b"hangs")}
        return [worker for worker in self.workers if self.sink != "hook" and worker.pid in had]

    def all_hang(self):
        return len(self.hanging()) == len(self.workers)

    def end_what_hangs(self):
        """As an operator does who has read /health."""
        for worker in self.hanging():
            worker.kill()

    def wait_for(self, what, name):
        for _ in patiently(0.1):
            if what():
                return
        harm.fail(f"in vain for {name}; /health: {self.health()}; left: {self.tool('list')}\n{self.said()}")

    def finish(self, most=0):
        """Waits until no more timers are left."""
        ends = time.monotonic() + 3 * PATIENCE
        while json.loads(self.tool("stats", "--json"))["waiting"] > most:
            if time.monotonic() > ends:
                harm.fail(f"these are left: {self.tool('list')}\n{self.said()}")
            self.end_what_hangs()
            time.sleep(0.1)

    def close(self):
        self.ends = True
        self.keeper.join()
        for process in [*self.workers, self.serve]:
            process.kill()
            process.wait()
        if self.server:
            self.server.kill()

    def faults(self):
        """Yields what is wrong, in words."""
        handled = self.handled().keys()
        dead = {}
        for line in map(json.loads, self.tool("dead", "--json", "--limit", 1_000_000).splitlines()):
            dead[line["id"].encode() if "id" in line else base64.b64decode(line["id_base64"])] = line
        for name in sorted(self.good - handled):
            yield f"{name} was never handled" + (f", and is dead: {dead[name]}" if name in dead else "")
        for name in sorted(dead.keys() & self.good & handled):
            yield f"{name} is a dead letter: {dead[name]}"
        for name in sorted(self.poison - dead.keys()):
            yield f"{name} is no dead letter"
        for name in sorted(dead.keys() - self.good - self.poison):
            yield f"{name} is a dead letter, and was never put"
        for name, letter in dead.items():
            if name.startswith(b"bad") and not letter.get("reason"):
                yield f"{name} is dead without a reason"
        self.summary = f"{len(handled & self.good)} good, {len(dead)} dead, {self.deaths} workers died"


def is_missing(sink):
    """What there is not, or None."""
    try:
        if sink == "table":
            import psycopg2  # noqa: F401
            return None if postgres_server.is_there() else "PostgreSQL"
        if sink == "stream":
            import redis  # noqa: F401
            return None if shutil.which("redis-server") else "Redis"
    except ImportError as fault:
        return str(fault)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda name: str(pathlib.Path(name).resolve()), help="tvec-timers")
    parser.add_argument("examples", type=lambda name: pathlib.Path(name).resolve(), help="the folder of the workers")
    parser.add_argument("sink", choices=("table", "stream", "hook"))
    parser.add_argument("--rounds", type=int, default=6, help="how often (6)")
    parser.add_argument("--time", type=float, help="seconds, instead of a number of rounds")
    options = parser.parse_args()
    if missing := is_missing(options.sink):
        harm.skip(f"there is no {missing}")
    with tempfile.TemporaryDirectory(prefix="tvec-poison-") as name:
        campaign, begun = Campaign(options, pathlib.Path(name)), time.monotonic()
        try:
            while campaign.number < options.rounds if options.time is None else time.monotonic() < begun + options.time:
                campaign.do()
                campaign.finish(MOST)
            campaign.finish()
            for number in (1, 2, IN_FLIGHT if options.sink == "hook" else WORKERS):
                campaign.hang(number)
            if options.sink != "hook":
                campaign.hang(3 * WORKERS, b"limited")
            campaign.finish()
            faults = list(campaign.faults())
        finally:
            campaign.close()
    print(f"{campaign.number} rounds of poison, {options.sink}: {campaign.summary}", flush=True)
    for fault in faults[:10]:
        print(f"  {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    work(*sys.argv[2:]) if sys.argv[1:2] == ["work"] else main()
