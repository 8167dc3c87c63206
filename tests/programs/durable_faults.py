#!/usr/bin/env python3
"""Kills a process with durable timers, cuts its power, stops it or sets its clock, and audits its books.

Runs to_be_killed again and again on one file, and ends it with SIGKILL after a random time. With
--power-cuts what was not synced is forgotten as well: of each block that was written since the last
sync of its file the disk may have the old or the new. With --stops one process is not killed, but stopped
for longer than the leases of its claims, again and again; with --clocks its wall clock is set, by up to two
seconds either way. Then one process more finishes what is left. The books: everything stored was
delivered or cancelled; nothing came early, nothing after a confirmed cancel, no (id, attempt) twice.
"""

import argparse
import collections
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

BLOCK = 4096
FILES = ("timers.db", "timers.db-wal")


class Books:
    """What the log says of each id, and in which order."""

    def __init__(self, log):
        self.stored, self.cancelled, self.asked_to_cancel = set(), {}, set()
        self.gone = set()
        self.delivered = collections.defaultdict(list)
        self.set_before = -1  # the line after which the clock was set: what was on its way is not early
        for number, line in enumerate(log.read_text().splitlines()):
            self.enter(number, line.split())

    def enter(self, number, words):
        match words:
            case ["P", who, _]:
                self.stored.add(who)
            case ["c", who]:
                self.asked_to_cancel.add(who)
            case ["C", who]:
                self.cancelled.setdefault(who, number)
            case ["B" | "U", who]:
                self.gone.add(who)
            case ["T"]:
                self.set_before = number + 1
            case ["F", who, attempt, due, now]:
                now = due if number == self.set_before else now
                self.delivered[who].append((number, int(attempt), int(due), int(now)))

    def faults(self):
        """Yields what is wrong, in words."""
        for who in self.stored - self.delivered.keys() - self.asked_to_cancel:
            yield f"{who} was stored and never came"
        for who, comings in self.delivered.items():
            attempts = [attempt for _, attempt, _, _ in comings]
            if len(set(attempts)) < len(attempts):
                yield f"{who} came twice with one attempt: {attempts}"
            if any(now < due for _, _, due, now in comings):
                yield f"{who} came early"
            if who in self.cancelled and comings[-1][0] > self.cancelled[who]:
                yield f"{who} came after it was cancelled"

    def summary(self):
        again = sum(len(comings) - 1 for comings in self.delivered.values())
        return (f"{len(self.stored)} stored, {len(self.delivered)} delivered, {again} came again, "
                f"{len(self.cancelled)} cancelled")


def cut_power(folder):
    """Goes back to what the disk has: each block that was written since is there or not."""
    for name in FILES:
        live, synced = folder / name, folder / (name + ".synced")
        if not synced.exists():
            live.unlink(missing_ok=True)
            continue
        old, new = synced.read_bytes(), live.read_bytes() if live.exists() else b""
        blocks = []
        for at in range(0, max(len(old), len(new)), BLOCK):
            was, now = old[at:at + BLOCK], new[at:at + BLOCK]
            blocks.append(was if was == now or random.random() < 0.5 else now)
            if not blocks[-1]:
                break
        live.write_bytes(b"".join(blocks))


class Harm:
    """A process on a file, and what is done to it."""

    def __init__(self, options, folder):
        self.options, self.folder, self.runs = options, folder, 0
        self.environment = dict(os.environ)
        self.environment.setdefault("TSAN_OPTIONS", "halt_on_error=1")  # so that a race is seen, too
        shim = options.power_cuts or options.clocks
        if shim:
            self.environment["LD_PRELOAD"] = shim
        self.environment["TVEC_CLOCK"] = str(folder / "clock")
        self.set_clock(0)

    def set_clock(self, ms):
        with open(self.folder / "clock", "r+b" if (self.folder / "clock").exists() else "wb") as f:
            f.write(struct.pack("=q", ms))

    def start(self, *words):
        self.runs += 1
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", self.options.program, self.folder / "timers.db",
             self.folder / "log", str(self.runs), *words], env=self.environment)

    def kill(self):
        if self.process.poll() is not None:
            sys.exit(f"durable_faults: the process ended by itself: {self.process.returncode}")
        self.process.kill()
        self.process.wait()

    def do(self):
        """One round."""
        if self.options.stops or self.options.clocks:
            time.sleep(random.uniform(0.1, 0.5))
            self.process.send_signal(signal.SIGSTOP)
            self.stop() if self.options.stops else self.change_clock()
            self.process.send_signal(signal.SIGCONT)
            return
        time.sleep(random.uniform(0.05, 0.7))
        self.kill()
        if self.options.power_cuts:
            cut_power(self.folder)
        self.start()

    def stop(self):
        time.sleep(random.uniform(0.5, 1.2))

    def change_clock(self):
        self.set_clock(random.randint(-2000, 2000))
        with open(self.folder / "log", "a") as log:
            log.write("T\n")

    def finish(self):
        self.kill()
        self.set_clock(2000)  # so that nothing is due much later
        self.start("--finish")
        try:
            if self.process.wait(timeout=60) != 0:
                sys.exit("durable_faults: the last process failed")
        except subprocess.TimeoutExpired:
            sys.exit("durable_faults: what is left does not come")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="to_be_killed")
    parser.add_argument("--power-cuts", metavar="SHIM", help="what_was_synced, to be preloaded")
    parser.add_argument("--stops", action="store_true", help="it is stopped, and goes on")
    parser.add_argument("--clocks", metavar="SHIM", help="set_clock, to be preloaded")
    parser.add_argument("--rounds", type=int, default=8, help="how often (8)")
    parser.add_argument("--time", type=float, help="seconds, instead of a number of rounds")
    options = parser.parse_args()
    harm = ("power cuts" if options.power_cuts else "stops" if options.stops else
            "clocks set" if options.clocks else "kills")

    with tempfile.TemporaryDirectory(prefix="tvec-durable-") as name:
        folder, rounds, begun = pathlib.Path(name), 0, time.monotonic()
        process = Harm(options, folder)
        process.start()
        while rounds < options.rounds if options.time is None else time.monotonic() < begun + options.time:
            rounds += 1
            process.do()
        process.finish()
        books = Books(folder / "log")
    faults = list(books.faults())
    print(f"{rounds} {harm}: {books.summary()}", flush=True)
    for fault in faults[:10]:
        print(f"  {fault}")
    if not books.delivered or not books.cancelled:
        sys.exit("durable_faults: nothing happened")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
