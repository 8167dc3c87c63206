"""What is done to processes with durable timers, again and again, and what their books say of it then."""

import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile
import time


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
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", program, store, folder / "log", str(run), *words],
                            env=env, stderr=subprocess.DEVNULL if quiet else None)


def audit(options, kind, what):
    """Has it done by kind(options, folder), round by round, and audits the books; ends with their verdict."""
    with tempfile.TemporaryDirectory(prefix="tvec-durable-") as name:
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
        sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: nothing happened")
    sys.exit(1 if faults else 0)


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
