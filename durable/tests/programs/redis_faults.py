#!/usr/bin/env python3
"""Has three processes share durable timers in a Redis server, does them harm, and audits their books.

The harm, again and again:
  kills         a process is killed with -9, and another takes its place
  crashes       some handlers end their process, and another takes its place
  stops         a process is stopped for longer than its leases, and goes on
  cuts          all connections are cut, or the server is stopped for longer than they are patient
  server-kills  the server is killed with -9, and started again on its files
  power-cuts    so is the server, and what was not synced is forgotten
  clocks        the server's clock is an hour ahead, all processes are killed, and it is set right
  slow-link     bodies of 300 KB come through connections that carry 2 MB a second
  failovers     the primary is killed while its replica is behind, which takes over; they wait for it (WAIT)
Then one process finishes what is left. The books: everything that was answered as stored was delivered or
cancelled; nothing came early, nothing after a confirmed cancel, no (id, attempt) twice. All is on sockets
in a temporary folder, and the loopback. Ends with 77 where there is no redis-server.
"""

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import socket
import struct
import sys
import threading
import time

import harm
from redis_server import Server

PROCESSES = 3
PART = 16384  # what a wire carries at once
CRASHED = 9  # what a handler of to_be_killed ends its process with


class Wire:
    """A process that carries connections to a server. What is under way in it goes when it is killed."""

    def __init__(self, port, bytes_a_second=None):
        self.bytes_a_second = bytes_a_second
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        self.process = multiprocessing.Process(target=self.carry, args=(port,), daemon=True)
        self.process.start()
        self.door.close()

    def carry(self, port):
        while True:
            here, _ = self.door.accept()
            threading.Thread(target=self.connect, args=(here, port), daemon=True).start()

    def connect(self, here, port):
        with here, socket.create_connection(("127.0.0.1", port)) as there:
            sending = threading.Thread(target=self.hand_on, args=(here, there, None))
            sending.start()
            self.hand_on(there, here, self.bytes_a_second)
            sending.join()

    @staticmethod
    def hand_on(source, target, bytes_a_second):
        with contextlib.suppress(OSError):
            while part := source.recv(PART):
                target.sendall(part)
                if bytes_a_second:
                    time.sleep(len(part) / bytes_a_second)
        with contextlib.suppress(OSError):
            source.shutdown(socket.SHUT_RDWR)
            target.shutdown(socket.SHUT_RDWR)

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
        if options.harm == "crashes":
            self.environment["TVEC_CRASHES"] = "1"
        if options.harm == "slow-link":
            self.environment["TVEC_BODY"] = "300000"
        if options.harm == "clocks":
            self.environment["TVEC_CLOCK"] = os.environ["TVEC_CLOCK"] = str(folder / "clock")
            self.set_clock(0)
        shim = options.shim if options.harm in ("power-cuts", "clocks") else None
        self.server = Server(folder, "server", shim=shim, fsync=options.fsync)
        self.slow = Wire(self.server.port, bytes_a_second=2_000_000) if options.harm == "slow-link" else None
        self.replicas = 0
        if options.harm == "failovers":
            self.add_replica()
        self.processes = [self.start() for _ in range(PROCESSES)]
        time.sleep(0.5)

    def add_replica(self):
        self.replicas += 1
        self.wire = Wire(self.server.port)
        self.replica = Server(self.folder, f"replica{self.replicas}", primary=self.wire)
        self.replica.wait_for("master_link_status:up", "INFO", "replication")

    def start(self, *words):
        self.runs += 1
        where = f"127.0.0.1:{self.slow.port}" if self.slow else self.server.socket
        return harm.start(self.options.program, f"redis:{where}", self.folder, self.runs, *words,
                          env=self.environment)

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

    def crashes(self):
        for at, process in enumerate(self.processes):
            if process.poll() == CRASHED:
                self.processes[at] = self.start()

    def set_clock(self, hours):
        clock = self.folder / "clock"
        with open(clock, "r+b" if clock.exists() else "wb") as f:
            f.write(struct.pack("=q", hours * 3_600_000))

    def clocks(self):
        self.set_clock(1)
        time.sleep(random.uniform(0.5, 1.5))  # all shards and some timers are leased by that clock
        self.stop_all()
        self.set_clock(0)
        log = self.folder / "log"
        before = log.stat().st_size
        self.processes = [self.start() for _ in range(PROCESSES)]
        for _ in range(100):
            time.sleep(0.1)
            with open(log) as f:
                f.seek(before)
                if any(line.startswith("F ") for line in f):
                    return
        sys.exit("durable_redis_faults: nothing is delivered ten seconds after the clock was set right")

    def slow_link(self):
        time.sleep(1)

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

    def do(self):
        """One round."""
        time.sleep(random.uniform(0.1, 0.7))
        getattr(self, self.options.harm.replace("-", "_"))()
        for process in self.processes:
            if process.poll() not in (None, CRASHED if self.options.harm == "crashes" else None):
                sys.exit(f"durable_redis_faults: a process ended by itself: {process.returncode}")

    def finish(self):
        if self.options.harm == "crashes":  # a kill between a handler's count and its call would count as well
            for process in self.processes:
                process.wait()
        self.stop_all()
        if self.options.harm == "clocks":
            self.set_clock(1)  # so that all is due
        last = self.start("--finish")
        while (code := last.wait(timeout=90)) == CRASHED and self.options.harm == "crashes":
            last = self.start("--finish")
        if code != 0:
            sys.exit("durable_redis_faults: the last process failed")
        if self.slow and any(line.startswith("L ") for line in open(self.folder / "log")):
            sys.exit("durable_redis_faults: a connection broke because it was slow")


def add_options(parser):
    parser.add_argument("shim", type=harm.shim, help="what_was_synced, or set_clock for clocks, to be preloaded")
    parser.add_argument("harm", choices=["kills", "crashes", "stops", "cuts", "server-kills", "power-cuts", "failovers", "clocks",
                                         "slow-link"])
    parser.add_argument("--rounds", type=int, default=6, help="how often (6)")
    parser.add_argument("--fsync", default="always", help="appendfsync of the server (always)")
    parser.add_argument("--no-wait", action="store_true", help="failovers: replicas are not waited for")


if __name__ == "__main__":
    options = harm.options_of(__doc__, add_options)
    if not shutil.which("redis-server"):
        print("durable_redis_faults: skipped: there is no redis-server")
        sys.exit(77)
    harm.audit(options, Harm, options.harm)
