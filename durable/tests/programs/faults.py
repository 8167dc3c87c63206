#!/usr/bin/env python3
"""Kills a process with durable timers, cuts its power, stops it or sets its clock, and audits its books.

Runs to_be_killed again and again on one file, and ends it with SIGKILL after a random time. With
--power-cuts what was not synced is forgotten as well: of each block that was written since the last
sync of its file the disk may have the old or the new. With --stops one process is not killed, but stopped
for longer than the leases of its claims, again and again; with --clocks its wall clock is set, by up to two
seconds either way, or a day ahead and back: timers with a period go on then. With --crashes some handlers end their process. With --reads the process reads its own file
now and then, and a second process that wants the file is refused. With --replaced the file and its log are
replaced by copies while the process is stopped, as a restored backup does, and it goes on for a while. With --shared the file is open for other
connections. Then one process more finishes what is left. The books: everything stored was delivered or
cancelled; nothing came early, nothing after a confirmed cancel, no (id, attempt) twice.
"""

import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import harm
from children import patiently
from harm import CRASHED

BLOCK = 4096
DAY, BEATS = 86_400_000, 3
FILES = ("timers.db", "timers.db-wal")


def cut_power(folder):
    """Goes back to what the disk has: each block that was written since is there or not."""
    for name in FILES:
        live, synced = folder / name, folder / (name + ".synced")
        if not synced.exists():
            live.unlink(missing_ok=True)
            continue
        old, new = synced.read_bytes(), live.read_bytes() if live.exists() else b""
        live.write_bytes(harm.torn(old, new, BLOCK))


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
        self.environment["TVEC_TRIES"] = "1"  # a file that cannot be opened is a fault
        if options.crashes:
            self.environment["TVEC_CRASHES"] = "1"
        if options.reads:
            self.environment["TVEC_READS"] = "1"
        if options.shared:
            self.environment["TVEC_SHARED"] = "1"
        if options.clocks:
            self.environment["TVEC_BEATS"] = "1"
        harm.set_clock(self.folder, 0)
        self.start()

    def start(self, *words):
        log = self.folder / "log"
        self.logged_before = log.stat().st_size if log.exists() else 0
        self.runs += 1
        self.process = harm.start(self.options.program, self.folder / "timers.db", self.folder, self.runs, *words,
                                  env=self.environment)

    def kill(self):
        if self.process.poll() not in (None, CRASHED if self.options.crashes else None):
            harm.fail(f"the process ended by itself: {self.process.returncode}")
        harm.end(self.process)

    def do(self):
        """One round."""
        if self.options.stops or self.options.clocks:
            time.sleep(random.uniform(0.1, 0.5))
            self.process.send_signal(signal.SIGSTOP)
            self.stop() if self.options.stops else self.change_clock(random.randint(-2000, 2000))
            self.process.send_signal(signal.SIGCONT)
            if self.options.clocks and random.random() < 0.3:
                self.go_a_day_ahead_and_back()
            return
        if self.options.reads:
            self.try_to_share()
        if self.options.replaced:
            self.replace()
        if self.options.crashes:
            self.process.wait()  # a kill between a handler's count and its call would count as well
        else:
            if random.random() < 0.5:
                self.wait_until_it_has_the_file()  # on a busy machine it would never come to work
            time.sleep(random.uniform(0.05, 0.7))
        self.kill()
        if self.options.power_cuts:
            cut_power(self.folder)
        self.start()

    def try_to_share(self):
        self.wait_until_it_has_the_file()
        other = self.folder / "other"
        other.mkdir(exist_ok=True)
        second = harm.start(self.options.program, self.folder / "timers.db", other, 0, "--finish",
                            env=self.environment, quiet=True)
        try:
            if second.wait(timeout=harm.PATIENCE) != 1:
                harm.fail("a second process had the file as well")
        except subprocess.TimeoutExpired:
            harm.fail("a second process was not refused")

    def replace(self):
        """What is answered `stored` after that must be in the copy, or nowhere."""
        if self.runs == 1:
            self.wait_until_it_has_the_file()  # a copy of one in the making is none
        time.sleep(random.uniform(0.05, 0.3))
        self.process.send_signal(signal.SIGSTOP)
        threads = list(pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/stat"))
        while not all("T" in thread.read_text().rsplit(")", 1)[1][:3] for thread in threads):
            time.sleep(0.001)
        names = [name for name in FILES if (self.folder / name).exists()]
        for name in names:
            shutil.copy(self.folder / name, self.folder / (name + ".copy"))
        for name in random.sample(names, len(names)):
            os.rename(self.folder / (name + ".copy"), self.folder / name)
        self.process.send_signal(signal.SIGCONT)

    def wait_until_it_has_the_file(self):
        log = self.folder / "log"
        while not log.exists() or log.stat().st_size == self.logged_before:
            if self.process.poll() is not None:
                harm.fail(f"the process ended by itself: {self.process.returncode}")
            time.sleep(0.01)

    def stop(self):
        time.sleep(random.uniform(0.5, 1.2))

    def go_a_day_ahead_and_back(self):
        """What the clock has planned that was ahead must come."""
        for ahead in DAY, 0:
            self.process.send_signal(signal.SIGSTOP)
            self.change_clock(ahead + random.randint(-2000, 2000))
            self.process.send_signal(signal.SIGCONT)
            time.sleep(random.uniform(0.2, 0.5))
        before = self.beats()
        for _ in patiently():
            if len(before) == BEATS and all(n > before[who] for who, n in self.beats().items()):
                return
        harm.fail(f"silent after the clock was set back: {before}, {self.beats()}")

    def beats(self):
        """How often each timer with a period has come."""
        lines = (self.folder / "log").read_text().splitlines()
        return collections.Counter(line.split()[1] for line in lines if line.startswith("H "))

    def change_clock(self, ms):
        harm.set_clock(self.folder, ms)
        with open(self.folder / "log", "a") as log:
            log.write("T\n")

    def finish(self):
        if not self.options.crashes:
            self.kill()
        elif self.process.wait() != CRASHED:
            harm.fail("the process failed")
        harm.set_clock(self.folder, DAY + 4000 if self.options.clocks else 2000)  # so that nothing is due much later
        self.start("--finish")
        log = self.folder / "log"
        while (code := harm.wait_for_the_last(self.process, log)) == CRASHED and self.options.crashes:
            self.start("--finish")
        if code != 0:
            harm.fail("the last process failed")


def add_options(parser):
    parser.add_argument("--power-cuts", metavar="SHIM", type=harm.shim, help="what_was_synced, to be preloaded")
    parser.add_argument("--stops", action="store_true", help="it is stopped, and goes on")
    parser.add_argument("--crashes", action="store_true", help="some handlers end their process")
    parser.add_argument("--reads", action="store_true", help="it reads its own file")
    parser.add_argument("--replaced", action="store_true", help="its file is replaced by a copy")
    parser.add_argument("--shared", action="store_true", help="its file is open for other connections")
    parser.add_argument("--clocks", metavar="SHIM", type=harm.shim, help="set_clock, to be preloaded")
    parser.add_argument("--rounds", type=int, default=8, help="how often (8)")


if __name__ == "__main__":
    options = harm.options_of(__doc__, add_options)
    harm.audit(options, Harm, "power cuts" if options.power_cuts else "stops" if options.stops else
               "clocks set" if options.clocks else "crashes" if options.crashes else
               "refusals" if options.reads else "replaced files" if options.replaced else "kills")
