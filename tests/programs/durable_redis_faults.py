#!/usr/bin/env python3
"""Has three processes share durable timers in a Redis server, does them harm, and audits their books.

The harm, again and again:
  kills         a process is killed with -9, and another takes its place
  stops         a process is stopped for longer than its leases, and goes on
  cuts          all connections are cut, or the server is stopped for longer than they are patient
  server-kills  the server is killed with -9, and started again on its files
  power-cuts    so is the server, and what was not synced is forgotten
  failovers     the primary is killed while its replica is behind, which takes over; they wait for it (WAIT)
Then one process finishes what is left. The books: everything that was answered as stored was delivered or
cancelled; nothing came early, nothing after a confirmed cancel, no (id, attempt) twice. All is on sockets
in a temporary folder, and the loopback. Ends with 77 where there is no redis-server.
"""

import argparse
import contextlib
import multiprocessing
import os
import pathlib
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from durable_faults import Books

PROCESSES = 3


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Server:
    """A redis-server that ends with this process."""

    def __init__(self, folder, name, shim=None, fsync="always", primary=None):
        self.folder, self.port = folder / name, free_port()
        self.folder.mkdir()
        self.socket = self.folder / "socket"
        self.words = ["setpriv", "--pdeathsig", "KILL", "redis-server", "--port", self.port, "--bind",
                      "127.0.0.1", "--unixsocket", self.socket, "--dir", self.folder, "--save", "",
                      "--appendonly", "yes", "--appendfsync", fsync, "--repl-diskless-sync-delay", 0,
                      "--repl-timeout", 5]
        if primary:
            self.words += ["--replicaof", "127.0.0.1", primary.port]
        self.environment = dict(os.environ, **({"LD_PRELOAD": str(shim)} if shim else {}))
        self.start()

    def start(self):
        self.process = subprocess.Popen(list(map(str, self.words)), env=self.environment,
                                        stdout=subprocess.DEVNULL)
        self.wait_for("PONG", "PING")

    def say(self, *words):
        done = subprocess.run(["redis-cli", "-s", self.socket, *map(str, words)], capture_output=True,
                              text=True, timeout=20)
        return done.stdout

    def wait_for(self, answer, *words):
        for _ in range(1000):
            if answer in self.say(*words):
                return
            time.sleep(0.01)
        sys.exit(f"durable_redis_faults: the server does not say {answer} to {words}")

    def signal(self, which):
        self.process.send_signal(which)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.socket.unlink(missing_ok=True)

    def cut_power(self):
        """Goes back to what the disk has of the files that are appended to."""
        self.kill()
        for live in self.folder.glob("appendonlydir/*.aof"):
            synced = live.with_name(live.name + ".synced")
            size = synced.stat().st_size if synced.exists() else 0
            if ".incr." in live.name and size < live.stat().st_size:
                os.truncate(live, size)
        self.start()


class Wire:
    """A process between a replica and its primary. What is under way in it goes when it is killed."""

    def __init__(self, port):
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        self.process = multiprocessing.Process(target=self.carry, args=(port,), daemon=True)
        self.process.start()
        self.door.close()

    def carry(self, port):
        while True:
            here, _ = self.door.accept()
            with contextlib.suppress(OSError), here, socket.create_connection(("127.0.0.1", port)) as there:
                other = {here: there, there: here}
                while all(self.hand_on(s, other[s]) for s in select.select([here, there], [], [])[0]):
                    pass

    @staticmethod
    def hand_on(source, target):
        part = source.recv(65536)
        target.sendall(part)
        return part

    def stop(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def cut(self):
        self.process.kill()
        self.process.join()


class Harm:
    """A server, processes that share its timers, and what is done to them."""

    def __init__(self, options, folder):
        self.options, self.folder, self.runs = options, folder, 0
        self.environment = dict(os.environ)
        if options.harm == "failovers" and not options.no_wait:
            self.environment["TVEC_WAIT_REPLICAS"] = "1"
        shim = options.shim if options.harm == "power-cuts" else None
        self.server = Server(folder, "server", shim=shim, fsync=options.fsync)
        self.replicas = 0
        if options.harm == "failovers":
            self.add_replica()
        self.processes = [self.start() for _ in range(PROCESSES)]

    def add_replica(self):
        self.replicas += 1
        self.wire = Wire(self.server.port)
        self.replica = Server(self.folder, f"replica{self.replicas}", primary=self.wire)
        self.replica.wait_for("master_link_status:up", "INFO", "replication")

    def start(self, *words):
        self.runs += 1
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", self.options.program, f"redis:{self.server.socket}",
             self.folder / "log", str(self.runs), *words], env=self.environment)

    def stop_all(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def restart_all(self):
        self.stop_all()
        self.processes = [self.start() for _ in range(PROCESSES)]

    def kills(self):
        which = random.randrange(PROCESSES)
        self.processes[which].kill()
        self.processes[which].wait()
        self.processes[which] = self.start()

    def stops(self):
        process = random.choice(self.processes)
        process.send_signal(signal.SIGSTOP)
        time.sleep(random.uniform(0.8, 2))
        process.send_signal(signal.SIGCONT)

    def cuts(self):
        if random.random() < 0.8:
            self.server.say("CLIENT", "KILL", "TYPE", random.choice(["normal", "pubsub"]), "SKIPME", "yes")
            return
        self.server.signal(signal.SIGSTOP)
        time.sleep(random.uniform(0.5, 1.5))
        self.server.signal(signal.SIGCONT)

    def server_kills(self):
        self.server.kill()
        time.sleep(random.uniform(0, 0.3))
        self.server.start()

    def power_cuts(self):
        self.server.cut_power()

    def failovers(self):
        self.wire.stop()
        time.sleep(random.uniform(0, 0.3))
        self.server.kill()
        self.wire.cut()
        self.replica.say("REPLICAOF", "NO", "ONE")
        self.server = self.replica
        self.add_replica()
        self.restart_all()

    def look(self):
        for process in self.processes:
            if process.poll() is not None:
                sys.exit(f"durable_redis_faults: a process ended by itself: {process.returncode}")

    def finish(self):
        self.stop_all()
        last = self.start("--finish")
        if last.wait(timeout=90) != 0:
            sys.exit("durable_redis_faults: the last process failed")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="to_be_killed")
    parser.add_argument("shim", help="what_was_synced, to be preloaded")
    parser.add_argument("harm", choices=["kills", "stops", "cuts", "server-kills", "power-cuts", "failovers"])
    parser.add_argument("--rounds", type=int, default=6, help="how often (6)")
    parser.add_argument("--time", type=float, help="seconds, instead of a number of rounds")
    parser.add_argument("--fsync", default="always", help="appendfsync of the server (always)")
    parser.add_argument("--no-wait", action="store_true", help="failovers: replicas are not waited for")
    options = parser.parse_args()
    if not shutil.which("redis-server"):
        print("durable_redis_faults: skipped: there is no redis-server")
        sys.exit(77)

    with tempfile.TemporaryDirectory(prefix="tvec-durable-") as name:
        folder, rounds, begun = pathlib.Path(name), 0, time.monotonic()
        harm = Harm(options, folder)
        time.sleep(0.5)
        while rounds < options.rounds if options.time is None else time.monotonic() < begun + options.time:
            rounds += 1
            time.sleep(random.uniform(0.1, 0.7))
            getattr(harm, options.harm.replace("-", "_"))()
            harm.look()
        harm.finish()
        books = Books(folder / "log")
    faults = list(books.faults())
    print(f"{rounds} {options.harm}: {books.summary()}", flush=True)
    if faults:
        print(f"  {len(faults)} faults, such as")
    for fault in faults[:5]:
        print(f"  {fault}")
    if not books.delivered or not books.cancelled:
        sys.exit("durable_redis_faults: nothing happened")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
