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
import threading
import time

import harm
from redis_server import Server

PART = 16384  # what a wire carries at once


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


class Harm(harm.Sharing):
    """A server, processes that share its timers, and what is done to them."""

    def __init__(self, options, folder):
        super().__init__(options, folder)
        if options.harm == "failovers" and not options.no_wait:
            self.environment["TVEC_WAIT_REPLICAS"] = "1"
        if options.harm == "slow-link":
            self.environment["TVEC_BODY"] = "300000"
        self.server = Server(folder, "server", shim=self.shim(), fsync=options.fsync)
        self.slow = Wire(self.server.port, bytes_a_second=2_000_000) if options.harm == "slow-link" else None
        self.replicas = 0
        if options.harm == "failovers":
            self.add_replica()
        self.start_all()
        time.sleep(0.5)

    def where(self):
        return f"redis:127.0.0.1:{self.slow.port}" if self.slow else f"redis:{self.server.socket}"

    def add_replica(self):
        self.replicas += 1
        self.wire = Wire(self.server.port)
        self.replica = Server(self.folder, f"replica{self.replicas}", primary=self.wire)
        self.replica.wait_for("master_link_status:up", "INFO", "replication")

    def slow_link(self):
        time.sleep(1)

    def cut_connections(self):
        self.server.say("CLIENT", "KILL", "TYPE", random.choice(["normal", "pubsub"]), "SKIPME", "yes")

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
        self.stop_all()
        self.start_all()

    def finish(self):
        super().finish()
        if self.slow and any(line.startswith("L ") for line in open(self.folder / "log")):
            harm.fail("a connection broke because it was slow")


def add_options(parser):
    harm.add_options(parser, "kills", "crashes", "stops", "cuts", "server-kills", "power-cuts", "failovers", "clocks",
                     "slow-link")
    parser.add_argument("--fsync", default="always", help="appendfsync of the server (always)")
    parser.add_argument("--no-wait", action="store_true", help="failovers: replicas are not waited for")


if __name__ == "__main__":
    options = harm.options_of(__doc__, add_options)
    if not shutil.which("redis-server"):
        harm.skip("there is no redis-server")
    harm.audit(options, Harm, options.harm)
