#!/usr/bin/python3
"""Upgrades a service and its store under load, from a release to this version, and tries to go back.

usage: upgrade.py OLD NEW file|redis|cluster|postgres [TIMERS]

OLD and NEW are a tvec-timers each. OLD stores TIMERS (20000) and serves them to a hook, while clients put more. SIGTERM
ends it in the middle, and NEW goes on. Then everything stored must be there or delivered, once, and never early: timers
that are due meanwhile or later, beats, failures with their numbers, dead letters, large bodies. Then OLD is started on
what NEW has left. Prints the pause. Ends with 77 where there is no server, or no driver for Python.
"""

import collections
import contextlib
import hashlib
import importlib
import json
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import unittest

import postgres_server
from children import ENDING, PATIENCE, patiently
from serving import Case, wait_for

OLD, NEW, KIND = sys.argv[1:4]
TIMERS = int(sys.argv[4]) if len(sys.argv) > 4 else 20_000
CLIENTS, NEAR, STEP, HOUR, BATCH, SHARDS = 4, 2_000, 10, 3_600_000, 1_000, 16
PATIENTLY = PATIENCE * (1 + TIMERS // 50_000)  # for what reads all timers
NEEDS = {"redis": "redis", "cluster": "redis", "postgres": "psycopg2"}


def now_ms():
    return time.time_ns() // 1_000_000


def skip(why):
    print(f"skipped: {why}", file=sys.stderr)
    sys.exit(77)


def shard_of(name):
    hashed = 0xCBF29CE484222325
    for byte in name:
        hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    return (hashed ^ hashed >> 32) % SHARDS


class File:
    def __init__(self, folder):
        self.name = str(folder / "timers.db")

    def fill(self, timers):
        """As OLD writes them: a transaction for each would take hours."""
        with sqlite3.connect(self.name) as db:
            db.executemany("insert into timer(id, due, body) values(?, ?, ?)", timers)
        db.close()

    def waiting(self):
        with contextlib.closing(sqlite3.connect(self.name)) as db:
            return {bytes(name) for name, in db.execute("select id from timer")}


class Redis:
    def __init__(self, folder):
        server = importlib.import_module("redis_server").Server(folder, "server", fsync="everysec")
        self.name, self.links = f"redis:{server.socket}", [driver.Redis(unix_socket_path=str(server.socket))]

    def link_of(self, tag):
        return self.links[0]

    def fill(self, timers):
        by_link = collections.defaultdict(list)
        for name, due, body in timers:
            tag = f"{{tvec:{shard_of(name)}}}"
            by_link[self.link_of(tag)].append(("FCALL", "tvec_put", 1, tag, name, due, body))
        for link, calls in by_link.items():
            for i in range(0, len(calls), BATCH):
                several = link.pipeline(transaction=False)
                for call in calls[i:i + BATCH]:
                    several.execute_command(*call)
                several.execute()


    def waiting(self):
        """By the keys themselves: `list` asks all shards for each page, and would take half an hour for a million."""
        tags = [f"{{tvec:{shard}}}" for shard in range(SHARDS)]
        return {name for tag in tags for name in
                set(self.link_of(tag).hkeys(f"{tag}:timer")) - set(self.link_of(tag).zrange(f"{tag}:dead", 0, -1))}


class RedisCluster(Redis):
    def __init__(self, folder):
        self.parts = importlib.import_module("redis_cluster")
        self.cluster = self.parts.Cluster(folder)
        for node in self.cluster.nodes:  # a failover may lose what was written last, and is no upgrade
            node.say("CONFIG", "SET", "cluster-node-timeout", 600_000)
        self.name, self.links = f"redis:127.0.0.1:{self.cluster.nodes[0].port}", {}

    def link_of(self, tag):
        if tag not in self.links:
            owner = self.cluster.owner_of(self.parts.slot_of(tag[1:-1]))
            self.links[tag] = driver.Redis(unix_socket_path=str(owner.socket))
        return self.links[tag]


class Postgres:
    def __init__(self, folder):
        self.server = postgres_server.Server(folder, "data")
        self.name = f"postgres:{self.server.conninfo}"

    @staticmethod
    def shard_of(name):
        """As tvec.shard_of: an end looks for its delivery in that shard."""
        return int.from_bytes(hashlib.sha256(name).digest()[:4], "big") % SHARDS

    def fill(self, timers):
        """As programs in C++ put them. `put` takes one by one."""
        with contextlib.closing(driver.connect(self.server.conninfo)) as link, link.cursor() as cursor:
            for i in range(0, len(timers), BATCH):
                ids, dues, bodies = map(list, zip(*timers[i:i + BATCH]))
                none = [b""] * len(ids)
                cursor.execute("select tvec.puts('', 'keep', '', %s::int[], %s::bytea[], %s::bigint[], %s::bigint[], "
                               "%s::bytea[], %s::bytea[])",
                               [list(map(self.shard_of, ids)), ids, dues, [0] * len(ids), bodies, none])
                link.commit()

    def waiting(self):
        with contextlib.closing(driver.connect(self.server.conninfo)) as link, link.cursor() as cursor:
            cursor.execute("select id from tvec.timer where not dead")
            return {bytes(name) for name, in cursor}


class Upgrade(Case):
    def setUp(self):
        super().setUp()
        self.addCleanup(ENDING.close)
        kind = {"file": File, "redis": Redis, "cluster": RedisCluster, "postgres": Postgres}[KIND]
        self.tool, self.place = OLD, kind(self.folder)
        self.store, self.put_by_clients, self.is_over = self.place.name, [], threading.Event()

    def run_long(self, *words):
        return subprocess.run([self.tool, "--store", self.store, *map(str, words)], capture_output=True, text=True,
                              timeout=PATIENTLY)

    def answer(self, note):
        fails = note["id"] == b"dies" or (note["id"] == b"fails" and self.tool == OLD)
        return (500, {}, b"not now") if fails else (200, {}, b"")

    def fill(self, kind, count, first, step):
        timers = [(f"{kind}-{i}".encode(), first + i * step, f"body of {kind}-{i}".encode()) for i in range(count)]
        self.place.fill(timers)
        return {name: due for name, due, _ in timers}

    def be_client(self, n):
        """Puts timers, each until it is answered."""
        i = 0
        while not self.is_over.is_set():
            name = f"client-{n}-{i}"
            done = self.run_long("put", name, "--in-ms", 300)
            if done.stdout.strip() in ("stored", "there_already"):
                self.put_by_clients.append(name.encode())
                i += 1

    def serve_as_systemd_does(self, hook):
        """Starts it until it is ready. Somebody may have the file for a moment."""
        for _ in patiently(0.1):
            # A hook on a busy machine is slow, and what it does not answer within a lease comes again.
            serve = self.start(hook.to, "--in-flight", 500, "--drain-ms", 60_000, "--lease-ms", 600_000)
            wait_for(lambda: "ready" in serve.said() or serve.process.poll() is not None, "ready, or its end")
            if serve.process.poll() is None:
                return serve
        self.fail(serve.said())

    def check_what_waits(self, far, why):
        wanted, waiting = {*far, b"large"}, self.place.waiting()
        self.assertEqual(waiting, wanted, (why, [self.timer(name.decode()) for name in list(waiting - wanted)[:5]]))
        stats = json.loads(self.run_long("stats", "--json").stdout)
        self.assertEqual((stats["waiting"], stats["dead"]), (len(far) + 1, 1), why)

    def test_nothing_is_lost_or_comes_twice(self):
        self.run_tool("put", "warm-up") if KIND == "file" else self.run_tool("install")
        began = time.monotonic()
        far = self.fill("far", TIMERS, now_ms() + 24 * HOUR, 1)
        filled = time.monotonic() - began
        large = "x" * 100_000
        self.run_tool("put", "large", "--in-ms", 24 * HOUR, "--body", large)
        self.run_tool("put", "fails", "--plan", "retry fixed 1s | attempts 1000")
        self.run_tool("put", "dies", "--plan", "attempts 1")
        self.run_tool("put", "beats", "--every-ms", 500)
        near = self.fill("near", NEAR, now_ms() + 3_000, STEP)
        hook = self.hook(self.answer)
        old = self.serve_as_systemd_does(hook)
        clients = [threading.Thread(target=self.be_client, args=[n]) for n in range(CLIENTS)]
        for client in clients:
            client.start()
        self.addCleanup(self.is_over.set)
        wait_for(lambda: len([n for n in hook.notes if n["id"].startswith(b"near")]) > NEAR // 3, "a third of the load")
        wait_for(lambda: hook.of(b"fails") and [d["id"] for d in self.json_of("dead")] == ["dies"], "the failures")

        began, since = time.monotonic(), now_ms()
        self.assertEqual(old.end(), 0, old.said())
        ended = time.monotonic()
        before, self.tool = len(hook.of(b"fails")), NEW
        if KIND == "postgres":
            self.run_tool("install")
        new = self.serve_as_systemd_does(hook)
        ready = time.monotonic()
        wait_for(lambda: near.keys() <= {n["id"] for n in hook.notes}, "what was due meanwhile")
        self.is_over.set()
        for client in clients:
            client.join()
        wanted = {*near, *self.put_by_clients, b"fails"}
        wait_for(lambda: wanted <= {n["id"] for n in hook.notes}, "what was put meanwhile")
        wait_for(lambda: not self.timer("fails"), "the end of the one that had failed")
        self.run_tool("cancel", "beats")
        self.assertEqual(new.end(), 0, new.said())

        tokens = collections.Counter((n["id"], n["due"]) for n in hook.notes if n["id"] not in (b"fails", b"warm-up"))
        self.assertEqual([t for t, times in tokens.items() if times > 1], [], "nothing comes twice")
        once = collections.Counter(n["id"] for n in hook.notes if n["id"] in wanted - {b"fails"})
        self.assertEqual([t for t, times in once.items() if times > 1], [], "nothing comes twice")
        self.assertEqual([n for n in hook.notes if n["now"] < n["due"]], [], "nothing is early")
        self.assertEqual([n["id"] for n in hook.notes if n["id"] in near and
                          (n["due"] != near[n["id"]] or n["body"] != b"body of " + n["id"])], [])
        attempts = [n["attempt"] for n in hook.of(b"fails")]
        self.assertEqual(attempts, sorted(set(attempts)), "its attempts go on")
        self.assertGreater(len(attempts), before)
        beats = [n["due"] for n in hook.of(b"beats")]
        self.assertEqual({late - soon for soon, late in zip(beats, beats[1:])} - {500 * k for k in range(1, 1000)}, set())
        self.check_what_waits(far, "nothing is lost, and nothing else is left")
        self.assertEqual(self.json_of("get", "large")[0]["body"], large)
        [dead] = self.json_of("dead")
        self.assertEqual((dead["id"], dead["reason"]), ("dies", "hook: HTTP 500: not now"))

        times = sorted(n["now"] for n in hook.notes)
        late = [n["now"] - n["due"] for n in hook.notes if n["id"] in wanted - {b"fails"} and n["due"] >= since]
        print(f"{KIND}, {TIMERS} timers (stored in {filled:.0f} s), {len(self.put_by_clients)} put meanwhile: the old ended in "
              f"{ended - began:.2f} s, the new was ready after {ready - ended:.2f} s, nothing was delivered for "
              f"{max(b - a for a, b in zip(times, times[1:])) / 1000:.2f} s, the latest timer was {max(late) / 1000:.2f} s late",
              flush=True)
        self.go_back(hook, far)

    def go_back(self, hook, far):
        self.tool = OLD
        back = self.start(hook.to)
        wait_for(lambda: "ready" in back.said() or back.process.poll() is not None, "ready, or its end")
        said = back.said()
        self.assertEqual(back.process.wait(PATIENCE), 1, said)
        self.assertRegex(said, r"\Atvec-timers: [^\n]*version[^\n]*\n\Z")
        print(f"{KIND}, back again: {said.strip()}", flush=True)
        self.run_tool("put", "lost", status=1)
        if KIND != "file":
            self.run_tool("install", status=1)
        self.tool = NEW
        self.check_what_waits(far, "the way back changes nothing")
        serve = self.serve_as_systemd_does(hook)
        self.put("last")
        wait_for(lambda: hook.of(b"last"), "it serves again")
        serve.end()


if __name__ == "__main__":
    if KIND in NEEDS:
        try:
            driver = importlib.import_module(NEEDS[KIND])
        except ImportError:
            skip(f"there is no module {NEEDS[KIND]}")
    if not (postgres_server.is_there() if KIND == "postgres" else KIND == "file" or shutil.which("redis-server")):
        skip("there is no server")
    unittest.main(argv=sys.argv[:1])
