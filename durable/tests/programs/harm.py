"""What is done to processes with durable timers, again and again, and what their books say of it then."""

import argparse
import collections
import contextlib
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

from children import ENDING, PATIENCE, patiently

CRASHED = 9  # what a handler of to_be_killed ends its process with
PROCESSES = 3  # that share a server
HOUR = 3_600_000
NAME = "durable_" + pathlib.Path(sys.argv[0]).stem


def fail(why):
    sys.exit(f"{NAME}: {why}")


def skip(why):
    print(f"{NAME}: skipped: {why}")
    sys.exit(77)


def options_of(about, add):
    """What the command line says: to_be_killed, how often or how long, and what `add` adds."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="to_be_killed")
    add(parser)
    parser.add_argument("--time", type=float, help="seconds, instead of a number of rounds")
    return parser.parse_args()


def shim(name):
    """A library that is to be preloaded: what is not there the linker would leave out, and go on."""
    path = pathlib.Path(name).resolve()
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{name} is not there")
    return str(path)


def start(program, store, folder, run, *words, env, quiet=False):
    """A process on a store, whose log is in the folder. It ends with this one."""
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", program, store, folder / "log", str(run), *words],
                               env=env, stderr=subprocess.DEVNULL if quiet else None)
    ENDING.callback(end, process)
    return process


def end(process):
    process.kill()
    process.wait()


def wait_for_the_last(process, log):
    """Waits until it ends, as long as it goes on delivering."""
    size = -1
    while size != (size := log.stat().st_size):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=PATIENCE)
    fail("what is left does not come")


def set_clock(folder, ms):
    """Sets the clock that set_clock shows to processes so far ahead."""
    clock = folder / "clock"
    with open(clock, "r+b" if clock.exists() else "wb") as f:
        f.write(struct.pack("=q", ms))
    clock.chmod(0o644)


def torn(old, new, block):
    """A file after a power cut: each block that was not synced has the old bytes or the new ones."""
    blocks = []
    for at in range(0, max(len(old), len(new)), block):
        was, now = old[at:at + block], new[at:at + block]
        blocks.append(was if was == now or random.random() < 0.5 else now)
        if not blocks[-1]:
            break
    return b"".join(blocks)


def audit(options, kind, what):
    """Has it done by kind(options, folder), round by round, and audits the books; ends with their verdict."""
    with tempfile.TemporaryDirectory(prefix="tvec-durable-") as name, ENDING:
        folder, rounds, begun = pathlib.Path(name), 0, time.monotonic()
        harm = kind(options, folder)
        while rounds < options.rounds if options.time is None else time.monotonic() < begun + options.time:
            rounds += 1
            harm.do()
        harm.finish()
        books = Books(folder / "log")
    faults = list(books.faults())
    print(f"{rounds} {what}: {books.summary()}", flush=True)
    if faults:
        print(f"  {len(faults)} faults, such as")
    for fault in faults[:10]:
        print(f"  {fault}")
    if not books.delivered or (len(books.stored) > 200 and not books.cancelled):
        fail("nothing happened")
    sys.exit(1 if faults else 0)


class Sharing:
    """Processes that share the timers of a server, and the harm that is done with any server. A subclass has `where`, the
    name of the store, and `server`; it starts the processes when the server is there."""

    def __init__(self, options, folder):
        self.options, self.folder, self.runs = options, folder, 0
        self.environment = dict(os.environ)
        if options.harm == "crashes":
            self.environment["TVEC_CRASHES"] = "1"
        if options.harm == "clocks":
            self.environment["TVEC_CLOCK"] = os.environ["TVEC_CLOCK"] = str(folder / "clock")
            set_clock(folder, 0)

    def shim(self):
        """What the server is started with."""
        return self.options.shim if self.options.harm in ("power-cuts", "clocks") else None

    def start(self, *words):
        self.runs += 1
        return start(self.options.program, self.where(), self.folder, self.runs, *words, env=self.environment)

    def start_all(self):
        self.processes = [self.start() for _ in range(PROCESSES)]

    def stop_all(self):
        for process in self.processes:
            end(process)

    def kills(self):
        which = random.randrange(PROCESSES)
        end(self.processes[which])
        self.processes[which] = self.start()

    def crashes(self):
        for at, process in enumerate(self.processes):
            if process.poll() == CRASHED:
                self.processes[at] = self.start()

    def clocks(self):
        set_clock(self.folder, HOUR)
        time.sleep(random.uniform(0.5, 1.5))  # all shards and some timers are leased by that clock
        self.stop_all()
        set_clock(self.folder, 0)
        log = self.folder / "log"
        before = log.stat().st_size
        self.start_all()
        for _ in patiently():
            with open(log) as f:
                f.seek(before)
                if any(line.startswith("F ") for line in f):
                    return
        fail("nothing is delivered after the clock was set right")

    def stops(self):
        process = random.choice(self.processes)
        process.send_signal(signal.SIGSTOP)
        time.sleep(random.uniform(0.8, 2))
        process.send_signal(signal.SIGCONT)

    def cuts(self):
        if random.random() < 0.8:
            self.cut_connections()
            return
        self.server.signal(signal.SIGSTOP)
        time.sleep(random.uniform(0.5, 1.5))
        self.server.signal(signal.SIGCONT)

    def server_kills(self):
        self.server.kill()
        time.sleep(random.uniform(0, 0.3))
        self.server.start()

    def harm(self):
        getattr(self, self.options.harm.replace("-", "_"))()

    def do(self):
        """One round."""
        time.sleep(random.uniform(0.1, 0.7))
        self.harm()
        for process in self.processes:
            if process.poll() not in (None, CRASHED if self.options.harm == "crashes" else None):
                fail(f"a process ended by itself: {process.returncode}")

    def finish(self):
        if self.options.harm == "crashes":  # a kill between a handler's count and its call would count as well
            for process in self.processes:
                process.wait()
        self.stop_all()
        if self.options.harm == "clocks":
            set_clock(self.folder, HOUR)  # so that all is due
        last = self.start("--finish")
        while (code := wait_for_the_last(last, self.folder / "log")) == CRASHED and self.options.harm == "crashes":
            last = self.start("--finish")
        if code != 0:
            fail("the last process failed")


def add_options(parser, *kinds):
    """What the command line of a server says."""
    parser.add_argument("shim", type=shim, help="what_was_synced, or set_clock for clocks, to be preloaded")
    parser.add_argument("harm", choices=kinds)
    parser.add_argument("--rounds", type=int, default=6, help="how often (6)")


class Books:
    """What the log says of each id, and in which order."""

    def __init__(self, log):
        self.stored, self.cancelled, self.asked_to_cancel = set(), {}, set()
        self.gone, self.dead = set(), set()
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
            case ["D", who]:
                self.dead.add(who)
            case ["B" | "U", who]:
                self.gone.add(who)
            case ["T"]:
                self.set_before = number + 1
            case ["F", who, attempt, due, now]:
                now = due if number == self.set_before else now
                self.delivered[who].append((number, int(attempt), int(due), int(now)))

    def faults(self):
        """Yields what is wrong, in words."""
        for who in self.dead:
            if len(self.delivered[who]) < 3:
                yield f"{who} is dead, and its handler had it {len(self.delivered[who])} times"
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
                f"{len(self.cancelled)} cancelled, {len(self.dead)} dead")
