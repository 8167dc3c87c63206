#!/usr/bin/env python3
"""Sends random commands to a server with the module, to its replica through it, and to a model of
exact expiry: a stock server that samples no keys, and of which all keys are touched when they are due.

Rounds: commands, with deadlines that are past, due soon, or far; then the wait for those that are
due. Compared are all answers, the events, when they come (never early), and at the end of a round
all keys with their values and deadlines, of the three servers. Other keys, as many as the sampler of
Redis needs half a minute for, are on the server all the time.

usage: fuzz.py MODULE [--seconds N] [--seed N]"""

import argparse
import random
import select
import sys
import time

from promises import attach, in_step
from server import Server, wait_for

KEYS = [f"k{i}" for i in range(25)]
DBS = (0, 1, 2)
COMMANDS = 150     # of a round
SOON = (250, 350)  # ms after the start of a round: its commands should be done by then
OTHERS = 20000
FUNCTION = """#!lua name=fuzz
redis.register_function('play', function(keys, words) return redis.pcall(unpack(words)) end)"""


def fill(client):
    client("SELECT", 9)
    client("EVAL", f"for i=1,{OTHERS} do redis.call('SET','other:'..i,i,'EX',36000) end", 0)
    client("SELECT", 0)


class Words:
    """Random commands. Times that are soon are absolute, so that they are the same on both servers."""

    def __init__(self, seed, dumped):
        self.random, self.dumped = random.Random(seed), dumped
        self.start = 0

    def deadline(self):
        """In ms: past, soon or far."""
        return self.random.choice((self.start - self.random.randrange(1, 10 ** 6),
                                   self.start + self.random.randrange(*SOON),
                                   self.start + self.random.randrange(*SOON),
                                   self.start + self.random.randrange(10 ** 6, 10 ** 8)))

    def plain(self):
        """A command without its connection's state."""
        pick = self.random.choice
        key, other, at = pick(KEYS), pick(KEYS), self.deadline()
        how = pick(("", "NX", "XX", "GT", "LT")).split()
        ways = [
            ("SET", key, at), ("SET", key, "v", "PXAT", at), ("SET", key, "v", "PXAT", at),
            ("SET", key, 7, "EXAT", self.start // 1000 + 1000), ("SET", key, "w", "KEEPTTL"),
            ("SET", key, "v", "PXAT", at, pick(("NX", "XX")), "GET"),
            ("SETEX", key, 1000, "v"), ("PSETEX", key, 1000000, "v"),
            ("PEXPIREAT", key, at, *how), ("PEXPIREAT", key, at, *how), ("EXPIRE", key, 1000),
            ("EXPIREAT", key, at // 1000 - 1000, *how), ("PEXPIRE", key, -5, *how),
            ("PERSIST", key), ("GETEX", key, "PXAT", at), ("GETEX", key, "PERSIST"), ("GETDEL", key),
            ("DEL", key, other), ("UNLINK", key), ("RENAME", key, other), ("RENAMENX", key, other),
            ("COPY", key, other, "REPLACE"), ("COPY", key, key, "DB", pick(DBS), "REPLACE"),
            ("MOVE", key, pick(DBS)), ("GETSET", key, "g"), ("MSET", key, 1, other, 2),
            ("APPEND", key, "x"), ("INCR", key), ("RPUSH", key, 1), ("LPOP", key), ("SADD", key, 1, 2),
            ("SREM", key, 1, 2), ("SUNIONSTORE", key, other), ("LMOVE", key, other, "LEFT", "RIGHT"),
            ("BITOP", "NOT", key, other), ("SORT", key, "STORE", other), ("EXISTS", key, other),
            ("RESTORE", key, at, self.dumped, "ABSTTL", "REPLACE")]
        return pick(ways)

    def script(self, words):
        """The same in a script, or in a function."""
        if self.random.randrange(2):
            return ("FCALL", "play", 0, *words)
        shown = ",".join(f"ARGV[{i + 1}]" for i in range(len(words)))
        return ("EVAL", f"return redis.pcall({shown})", 0, *words)

    def commands(self):
        """Those of a round."""
        for _ in range(COMMANDS):
            way = self.random.randrange(20)
            if way == 0:
                yield ("SELECT", self.random.choice(DBS))
            elif way == 1:
                yield ("SWAPDB", *self.random.sample(DBS, 2))
            elif way < 4:
                yield ("MULTI",)
                for _ in range(self.random.randrange(4)):
                    yield self.plain()
                yield ("EXEC",)
            elif way < 6:
                yield self.script(self.plain())
            else:
                yield self.plain()


class Events:
    """The `expired` events of a server."""

    def __init__(self, server):
        client = server.connect()
        client("PSUBSCRIBE", "__keyevent@*__:expired")
        self.socket, self.rest = client.socket, [b""]

    def come(self):
        """Those that have come, as databases with keys, and when."""
        said = []
        while select.select([self.socket], [], [], 0.02)[0]:
            first, *more = self.socket.recv(1 << 16).split(b"\r\n")
            self.rest = [*self.rest[:-1], self.rest[-1] + first, *more]
            now = time.time() * 1000
            while len(self.rest) > 9:  # lines of a message: its size, and four words with their sizes
                channel, key = self.rest[6], self.rest[8]
                said.append((int(channel[11:].split(b"_")[0]), key, now))
                del self.rest[:9]
        return said


def touch(client):
    """Touches all keys, and thereby deletes those that have expired."""
    for db in DBS:
        client.pipeline([("SELECT", db), ("EXISTS", *KEYS)])


def content(client):
    """All keys of a server, with values and deadlines."""
    shown = {}
    for db in DBS:
        client("SELECT", db)
        keys = sorted(client("KEYS", "*"))
        shown[db] = list(zip(keys, client.pipeline([("PEXPIRETIME", key) for key in keys]),
                             client.pipeline([("DEBUG", "DIGEST-VALUE", key) for key in keys])))
    return shown


def same(content, other):
    """Whether two servers have the same. Relative deadlines were set a moment later on one."""
    def known(keys):
        return {db: [(key, at > 0, value) for key, at, value in of] for db, of in keys.items()}
    deadlines, others = ([at for keys in c.values() for _, at, _ in keys] for c in (content, other))
    return known(content) == known(other) and all(abs(a - b) < 2000 for a, b in zip(deadlines, others))


class Fuzzer:
    def __init__(self, module, seed):
        self.module, self.random = module, random.Random(seed + 1)
        self.server, self.replica, self.model = Server(module), Server(module), Server()
        self.model.client("SET", "k", "v")
        self.words = Words(seed, self.model.client("DUMP", "k"))
        self.model.client("FLUSHALL")
        self.model.client("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        for server in (self.server, self.model):
            server.client("FUNCTION", "LOAD", FUNCTION)
        fill(self.server.client)
        attach(self.replica, self.server)
        self.events, self.expected = Events(self.server), Events(self.model)
        self.rounds = self.skipped = self.expired = self.latest = 0

    def both(self, commands):
        """Sends all to both servers."""
        answers, expected = (s.client.pipeline(commands) for s in (self.server, self.model))
        if self.late():  # a key may have expired on one alone
            return
        for words, answer, other in zip(commands, answers, expected):
            assert str(answer) == str(other), f"{words}: {answer}, but {other} of the model"

    def late(self):
        """Whether the keys of this round that are due soon may be due already."""
        return time.time() * 1000 > self.words.start + SOON[0]

    def disturb(self):
        """What seldom happens, between rounds."""
        say = self.server.client
        which = self.random.randrange(24)
        if which == 0:
            self.both([("FLUSHDB",)])
        elif which == 1:
            say("DEBUG", "RELOAD")
        elif which == 2:
            say("MODULE", "UNLOAD", "tvec_expire")
            say("MODULE", "LOAD", self.module)
        elif which == 3:
            say("CONFIG", "SET", "tvec_expire.max-turn-us", self.random.choice((100, 1500, 50000)))
        elif which == 4:
            self.both([("FLUSHALL", "SYNC")])
            fill(say)
        self.server.scanned()

    def play(self):
        """A round."""
        self.disturb()
        self.both([("SELECT", 0)])
        self.words.start = int(time.time() * 1000)
        self.both(list(self.words.commands()))
        self.deadlines = {(db, key): at for db, keys in content(self.model.client).items()
                          for key, at, _ in keys}
        at_once = self.events.come()
        is_late, end = self.late(), self.words.start + SOON[1]
        came = self.wait_for_events(at_once, end)
        if is_late:
            self.skipped += 1
            self.both([("FLUSHALL",)])
            fill(self.server.client)
        else:
            self.compare(at_once, came)
        self.rounds += 1

    def wait_for_events(self, at_once, end):
        """Until no key that is due is left. No command touches them on the server."""
        came = []
        while time.time() * 1000 <= end:
            came += self.events.come()
        touch(self.model.client)
        self.want = self.expected.come()
        patience = time.monotonic() + 5
        while len(at_once) + len(came) < len(self.want) and time.monotonic() < patience:
            came += self.events.come()
        return came

    def compare(self, at_once, later):
        want, came = (sorted(event[:2] for event in some) for some in (self.want, at_once + later))
        assert want == came, f"events {came}, but {want} of the model"
        for db, key, at in later:
            deadline = self.deadlines.get((db, key), 0)
            assert at > deadline, f"{key} came {deadline - at:.1f} ms early"
            self.latest = max(self.latest, at - deadline if deadline > 0 else 0)
        self.expired += len(came)
        in_step(self.replica, self.server)
        shown = [content(s.client) for s in (self.model, self.server, self.replica)]
        assert same(shown[0], shown[1]), f"keys {shown[1]}, but {shown[0]} of the model"
        assert shown[1] == shown[2], f"keys {shown[2]} of the replica, but {shown[1]} of its master"
        self.both([("SELECT", 0)])
        held = self.server.client("TVEC_EXPIRE.CHECK")
        volatile = sum(at > 0 for keys in shown[0].values() for _, at, _ in keys) + OTHERS
        stale = sum(at < 0 for keys in shown[0].values() for _, at, _ in keys)
        assert volatile <= held <= volatile + stale, f"{held} keys held, {volatile} are volatile"

    def stop(self):
        for server in (self.replica, self.server, self.model):
            server.__exit__(None)


def main():
    options = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    options.add_argument("module")
    options.add_argument("--seconds", type=float, default=20)
    options.add_argument("--seed", type=int, default=random.randrange(10 ** 6))
    asked = options.parse_args()
    print(f"seed {asked.seed}", flush=True)
    fuzzer = Fuzzer(asked.module, asked.seed)
    end = time.monotonic() + asked.seconds
    try:
        while time.monotonic() < end:
            fuzzer.play()
    except (AssertionError, RuntimeError, OSError) as fault:
        sys.exit(f"fuzz: round {fuzzer.rounds}: {fault}\n{fuzzer.server.log()[-600:]}")
    fuzzer.stop()
    print(f"{fuzzer.rounds} rounds of {COMMANDS} commands, {fuzzer.skipped} of them not compared;"
          f" {fuzzer.expired} keys expired, the latest {fuzzer.latest:.0f} ms after its deadline")


if __name__ == "__main__":
    main()
