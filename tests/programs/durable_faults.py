#!/usr/bin/env python3
"""Kills a process with durable timers, and cuts its power, and audits its books.

Runs to_be_killed again and again on one file, and ends it with SIGKILL after a random time. With
--power-cuts what was not synced is forgotten as well: of each block that was written since the last
sync of its file the disk may have the old or the new. Then one process more finishes what is left. The
books: everything stored was delivered or cancelled; nothing came early, nothing after a confirmed cancel,
no (id, attempt) twice.
"""

import argparse
import collections
import os
import pathlib
import random
import signal
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
            case ["F", who, attempt, due, now]:
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


def run_and_kill(program, folder, run, seconds, environment):
    process = subprocess.Popen([program, folder / "timers.db", folder / "log", str(run)],
                               env=environment)
    time.sleep(seconds)
    if process.poll() is not None:
        sys.exit(f"durable_faults: the process ended by itself: {process.returncode}")
    process.send_signal(signal.SIGKILL)
    process.wait()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="to_be_killed")
    parser.add_argument("--power-cuts", metavar="SHIM", help="what_was_synced, to be preloaded")
    parser.add_argument("--rounds", type=int, default=8, help="how often it is killed (8)")
    parser.add_argument("--time", type=float, help="seconds, instead of a number of rounds")
    options = parser.parse_args()
    environment = dict(os.environ)
    environment.setdefault("TSAN_OPTIONS", "halt_on_error=1")  # so that a race is seen, too
    if options.power_cuts:
        environment["LD_PRELOAD"] = options.power_cuts

    with tempfile.TemporaryDirectory(prefix="tvec-durable-") as name:
        folder, run, begun = pathlib.Path(name), 0, time.monotonic()
        while run < options.rounds if options.time is None else time.monotonic() < begun + options.time:
            run += 1
            run_and_kill(options.program, folder, run, random.uniform(0.05, 0.7), environment)
            if options.power_cuts:
                cut_power(folder)
        subprocess.run([options.program, folder / "timers.db", folder / "log", "0", "--finish"],
                       env=environment, check=True, timeout=60)
        books = Books(folder / "log")
    faults = list(books.faults())
    print(f"{run} {'power cuts' if options.power_cuts else 'kills'}: {books.summary()}")
    for fault in faults[:10]:
        print(f"  {fault}")
    if not books.delivered or not books.cancelled:
        sys.exit("durable_faults: nothing happened")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
