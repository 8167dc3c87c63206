#!/usr/bin/python3
"""What `tvec-timers serve` promises to workers that end deliveries in the store: on Redis and in PostgreSQL.

usage: serve_workers.py TVEC_TIMERS redis|postgres
"""

import collections
import importlib
import itertools
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from children import free_port
from serving import DURABLE, Case, wait_for

Case.tool, KIND = sys.argv[1:3]
NEEDS = {"redis": ("redis", "python3-redis"), "postgres": ("psycopg2", "python3-psycopg2")}
MODULE, PACKAGE = NEEDS[KIND]
try:
    driver = importlib.import_module(MODULE)
except ImportError:
    print(f"skipped: there is no {PACKAGE}", file=sys.stderr)
    sys.exit(77)
if KIND == "redis":
    from redis_server import Server
    is_there = shutil.which("redis-server")
else:
    import postgres_server
    Server, is_there = postgres_server.Server, postgres_server.is_there()
if not is_there:
    print("skipped: there is no server", file=sys.stderr)
    sys.exit(77)


class RedisWorker:
    """A worker of the consumer group of a stream."""

    name_of_stream = "due"

    def __init__(self, server, name="worker", stream=None):
        self.name, self.store = name, driver.Redis(unix_socket_path=str(server.socket))
        self.stream = driver.Redis(unix_socket_path=str((stream or server).socket))
        self.entries = {}

    def next(self, most=1):
        try:
            got = self.stream.execute_command("XREADGROUP", "GROUP", "workers", self.name, "COUNT", most, "STREAMS",
                                              self.name_of_stream, ">")
        except driver.ResponseError as e:
            if not str(e).startswith("NOGROUP"):
                raise
            return []  # it is made again
        if isinstance(got, dict):
            got = list(got.items())
        taken = []
        for entry, words in (got[0][1] if got else []):
            if isinstance(words, dict):
                words = [part for pair in words.items() for part in pair]
            fields = dict(zip(words[::2], words[1::2]))
            delivery = fields[b"id"], int(fields[b"attempt"])
            self.entries[delivery] = entry
            taken.append((*delivery, fields[b"body"], int(fields[b"due"])))
        return taken

    def end(self, how, name, attempt, *words):
        said = self.store.execute_command("FCALL", "tvec_" + how, 1, "tvec", name, attempt, *words).decode()
        if how != "extend" and (entry := self.entries.pop((name, attempt), None)):
            self.stream.execute_command("XACK", self.name_of_stream, "workers", entry)
            self.stream.execute_command("XDEL", self.name_of_stream, entry)
        return said

    def forget(self, name, attempt):
        """Removes the entry of a delivery that has not ended."""
        entry = self.entries.pop((name, attempt))
        self.stream.execute_command("XACK", self.name_of_stream, "workers", entry)
        self.stream.execute_command("XDEL", self.name_of_stream, entry)

    def again(self, name, attempt, in_ms):
        return self.end("again", name, attempt, time.time_ns() // 1_000_000 + in_ms)

    def extend(self, name, attempt, ms):
        return self.end("extend", name, attempt, ms)

    def put(self, name, in_ms=0, body=b"", plan=None):
        self.store.execute_command("FCALL", "tvec_put", 1, "tvec", name, time.time_ns() // 1_000_000 + in_ms, body,
                                   *(["plan", plan] if plan else []))

    def waiting(self):
        return self.stream.execute_command("XLEN", self.name_of_stream)

    def lease_left(self, name):
        """In ms, or None if the timer has no lease."""
        seconds, us = self.store.time()
        ends = [self.store.zscore(key, name) for key in self.store.keys("*:begun")]
        return next((end - seconds * 1000 - us / 1000 for end in ends if end is not None), None)

    def close(self):
        self.store.close()
        self.stream.close()


class PostgresWorker:
    """A worker that takes and ends deliveries in transactions of its own."""

    def __init__(self, server):
        self.link = driver.connect(server.conninfo)
        self.link.autocommit = True

    def say(self, sql, *values):
        with self.link.cursor() as cursor:
            cursor.execute(sql, values)
            return cursor.fetchall()

    def next(self, most=1):
        rows = self.say("select id, attempt, body, ceil(extract(epoch from due) * 1000) from tvec.next(%s)", most)
        return [(bytes(name), attempt, bytes(body), int(due)) for name, attempt, body, due in rows]

    def end(self, how, name, attempt, *words):
        return self.say(f"select tvec.{how}(%s::bytea, %s{', %s' * len(words)})", name, attempt, *words)[0][0]

    def forget(self, name, attempt):
        """The row went when it was taken."""

    def again(self, name, attempt, in_ms):
        return self.say("select tvec.again(%s::bytea, %s, now() + %s * interval '1 ms')", name, attempt, in_ms)[0][0]

    def extend(self, name, attempt, ms):
        return self.say("select tvec.extend(%s::bytea, %s, %s * interval '1 ms')", name, attempt, ms)[0][0]

    def put(self, name, in_ms=0, body=b"", plan=""):
        self.say("select tvec.put(%s::bytea, now() + %s * interval '1 ms', %s::bytea, plan => %s)", name, in_ms, body, plan)

    def waiting(self):
        return self.say("select count(*) from tvec.ready")[0][0]

    def lease_left(self, name):
        """In ms. Precondition: the timer has a lease."""
        return float(self.say("select visible - tvec.now_us() / 1000.0 from tvec.timer where id = %s::bytea", name)[0][0])

    def close(self):
        self.link.close()


def put_many(worker, number):
    for i in range(number):
        worker.put(b"%d" % i)


class OnServer(Case):
    """A test with a server, and the store on it."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tvec-serve-")
        cls.addClassCleanup(folder.cleanup)
        cls.server = Server(pathlib.Path(folder.name), "server")
        cls.addClassCleanup(cls.server.kill)

    def setUp(self):
        super().setUp()
        if KIND == "redis":
            self.server.say("FLUSHALL")
            self.store, self.to = f"redis:{self.server.socket}", "stream:due"
        else:
            self.server.say("drop schema if exists tvec cascade")
            self.store, self.to = f"postgres:{self.server.conninfo}", "table"
        self.run_tool("install")

    def work(self, *words):
        worker = (RedisWorker if KIND == "redis" else PostgresWorker)(self.server, *words)
        self.addCleanup(worker.close)
        return worker

    def take(self, worker, most=1):
        return wait_for(lambda: worker.next(most), "a delivery")

    def work_off(self, worker, number):
        """Ends so many timers, and returns how often each was ended as the current delivery."""
        ended = []

        def step():
            taken = worker.next(10)
            ended.extend(name for name, attempt, _, _ in taken if worker.end("done", name, attempt) == "ok")
            return taken
        while len(ended) < number:
            wait_for(step, f"a delivery after {len(ended)} of {number}")
        return ended


class Workers(OnServer):
    def test_a_due_timer_reaches_a_worker_unchanged(self):
        self.serve(self.to)
        worker = self.work()
        odd, body = b"a \xff\x00'\\\"{}", bytes(range(256))
        worker.put(odd, 100, body)
        [(name, attempt, got, due)] = self.take(worker)
        self.assertGreaterEqual(time.time_ns() // 1_000_000, due)
        self.assertEqual((name, attempt, got), (odd, 1, body))
        self.assertEqual(worker.end("done", name, attempt), "ok")
        self.assertEqual(worker.end("done", name, attempt), "stale")
        self.wait_until_empty()
        self.assertEqual(worker.waiting(), 0)

    def test_services_with_other_options_warn_of_each_other(self):
        both = [self.serve(self.to, "--lease-ms", lease, "--page", "127.0.0.1:0") for lease in (2000, 3000)]
        for serve in both:
            wait_for(lambda: "with other options" in serve.said(), "the line in the log")
            wait_for(lambda: re.fullmatch(r"ok, but another process [^\n]+ with other options: [^\n]+\n", serve.ask("/health")[1]),
                     "the text of /health")
        both[1].end()
        wait_for(lambda: both[0].ask("/health") == (200, "ok\n"), "agreement")

    def test_health_shows_warnings_of_server_and_options(self):
        if KIND == "redis":
            self.server.say("CONFIG", "SET", "appendfsync", "everysec")
            self.addCleanup(self.server.say, "CONFIG", "SET", "appendfsync", "always")
        else:
            self.store += " options='-c synchronous_commit=off'"
        for serve in [self.serve(self.to, "--lease-ms", lease, "--page", "127.0.0.1:0") for lease in (2000, 3000)]:
            wait_for(lambda: re.fullmatch(r"ok, but [^\n]+ power cut loses [^\n]+; and another process [^\n]+ with other options: [^\n]+\n",
                                          serve.ask("/health")[1]), "both")

    def test_a_worker_can_ask_for_another_delivery(self):
        self.serve(self.to)
        worker = self.work()
        worker.put(b"a")
        [(name, attempt, _, _)] = self.take(worker)
        begun = time.monotonic()
        self.assertEqual(worker.again(name, attempt, 300), "ok")
        [(name, attempt, _, _)] = self.take(worker)
        self.assertGreater(time.monotonic() - begun, 0.28)
        self.assertEqual((name, attempt), (b"a", 2))
        self.assertEqual(worker.end("done", name, attempt), "ok")

    def test_failures_follow_the_plan_and_leave_their_reason(self):
        self.serve(self.to)
        worker = self.work()
        worker.put(b"a", plan="retry fixed 50ms | attempts 2")
        for _ in range(2):
            [(name, attempt, _, _)] = self.take(worker)
            self.assertEqual(worker.end("failed", name, attempt, "no <stock>"), "ok")
        [dead] = wait_for(lambda: self.json_of("dead"), "a dead letter")
        self.assertEqual((dead["id"], dead["reason"], dead["failures"]), ("a", "no <stock>", 2))

    def test_a_worker_that_dies_leaves_it_to_another(self):
        serve = self.serve(self.to, "--lease-ms", 500)
        dies, lives = self.work(), self.work()
        dies.put(b"a")
        [(name, attempt, _, _)] = self.take(dies)
        serve.kill()  # the next delivery is ended within its lease, on a slow machine too
        self.serve(self.to, "--lease-ms", 20_000)
        [(_, second, _, _)] = self.take(lives)
        self.assertGreater(second, attempt)
        self.assertEqual(dies.end("done", name, attempt), "stale")
        self.assertEqual(lives.end("done", name, second), "ok")

    def test_timers_that_kill_workers_become_dead_letters(self):
        self.serve(self.to, "--lease-ms", 1500, "--attempts", 2 if KIND == "redis" else 1)  # a stream counts the first
        worker = self.work()
        worker.put(b"poison")
        taken = []
        [dead] = wait_for(lambda: taken.extend(worker.next()) or self.json_of("dead"), "a dead letter")
        self.assertEqual((dead["id"], dead["attempts"]), ("poison", 3))  # with the claim that found it spent
        self.assertEqual([attempt for _, attempt, _, _ in taken], [1, 2])

    def test_workers_that_are_away_cost_no_attempt(self):
        options = "--lease-ms", 400, "--attempts", 1, "--page", "127.0.0.1:0", "--overdue-ms", 400
        serve = self.serve(self.to, *options)
        worker = self.work()
        put_many(worker, 20)
        wait_for(lambda: serve.ask("/health")[0] == 503, "503")
        for _ in range(60):  # several leases
            status, why = serve.ask("/health")
            self.assertEqual(status, 503)
            self.assertRegex(why, r"\Atimer \d+ is overdue for \d+ s, and nobody is at work on it: no worker has taken it\n\Z")
            time.sleep(0.05)
        serve.kill()
        time.sleep(1)  # nobody extends their leases
        # Now a delivery that a worker has taken is to be ended within its lease, on a slow machine too.
        serve = self.serve(self.to, *options[2:], "--lease-ms", 20_000)
        time.sleep(1)
        self.assertEqual(self.json_of("dead"), [])
        self.assertEqual(len(set(self.work_off(worker, 20))), 20)
        wait_for(lambda: serve.ask("/health") == (200, "ok\n"), "health")

    def test_health_sees_workers_that_end_nothing(self):
        serve = self.serve(self.to, "--lease-ms", 300, "--page", "127.0.0.1:0", "--overdue-ms", 500)
        worker = self.work()
        worker.put(b"a")

        def forgets():
            for name, attempt, _, _ in worker.next():
                worker.forget(name, attempt)
            return re.fullmatch(r"timer a is overdue for \d+ s: \d deliveries of it had no end\n", serve.ask("/health")[1])
        wait_for(forgets, "/health tells it")
        self.assertGreater(serve.metric("tvec_timers_oldest_overdue_seconds"), 0.5)
        self.work_off(worker, 1)
        wait_for(lambda: serve.ask("/health") == (200, "ok\n"), "health")

    def test_health_names_the_oldest_of_each_kind(self):
        """Takes, ends, loses and cancels at random, beside a model. What a worker took and lost comes behind all others."""
        seed = int(os.environ.get("TVEC_SEED", random.randrange(1 << 32)))
        chance, kinds = random.Random(seed), ("mail-", "order-", "report-")
        serve = self.serve(self.to, "--lease-ms", 600_000, "--page", "127.0.0.1:0", "--overdue-ms", 1)
        worker, left, taken = self.work(), {}, {}  # from names to deadlines in s, and to attempts
        unended, numbers = collections.Counter(), itertools.count()

        def oldest(prefix):
            late = [name for name in left if name.startswith(prefix) and (name not in taken or unended[name] > 1)]
            return min(late, key=left.get, default=None)

        def is_true(prefix):
            status, why = serve.ask("/health?prefix=" + prefix)
            name = oldest(prefix)
            return why == "ok\n" if name is None else status == 503 and why.startswith(f"timer {name} is overdue")

        def lose(number):
            """The leases of some end, as if a worker had died that took all of them."""
            for name in chance.sample(sorted(taken), min(number, len(taken))):
                self.assertEqual(worker.extend(name.encode(), taken.pop(name), 1), "ok")
                unended[name] += 1

        def step():
            what = chance.randrange(10)
            if what < 3:
                for _ in range(chance.randrange(1, 8)):
                    name, late = f"{chance.choice(kinds)}{next(numbers)}", chance.randrange(10, 1_000_000)
                    worker.put(name.encode(), -1000 * late)
                    left[name] = -late
            elif what < 7:
                for name, attempt, _, _ in worker.next(chance.randrange(1, 15)):
                    if name.decode() in left:
                        taken[name.decode()] = attempt
            elif what < 9:
                for name in chance.sample(sorted(taken), len(taken) // 2):
                    self.assertEqual(worker.end("done", name.encode(), taken.pop(name)), "ok")
                    del left[name], unended[name]
            elif left:
                name = chance.choice(sorted(left))
                self.run_tool("cancel", name)
                taken.pop(name, None)
                del left[name], unended[name]
        with self.subTest(seed=seed):
            for i in range(60):
                step()
                if i in (20, 40):
                    lose(12)
                for prefix in "", *kinds, "none-":
                    wait_for(lambda: is_true(prefix), f"the oldest of {prefix}: {oldest(prefix)}")

    def test_health_forgets_cancelled_timers_that_waited_for_workers(self):
        serve = self.serve(self.to, "--lease-ms", 600_000, "--in-flight", 1, "--page", "127.0.0.1:0", "--overdue-ms", 300)
        worker = self.work()
        put_many(worker, 3)
        for i in range(3):
            why = wait_for(lambda: (answer := serve.ask("/health"))[0] == 503 and answer[1], "503")
            self.run_tool("cancel", re.match(r"timer (\d) is overdue", why)[1])
        wait_for(lambda: serve.ask("/health") == (200, "ok\n"), "health")

    def test_leases_begin_when_workers_take_their_deliveries(self):
        lease = 600_000 if KIND == "redis" else 12_000
        self.serve(self.to, "--lease-ms", lease)
        worker, left = self.work(), []

        def put(name):
            worker.put(name)
            wait_for(lambda: worker.waiting() == 1, "it waits for a worker")
            left[:] = [worker.lease_left(name)]

        def is_renewed():
            left.append(worker.lease_left(b"1"))
            return left[-1] > left[-2] + 1000

        def take_after_a_second():
            time.sleep(1)
            begun = time.monotonic()
            [(name, _, _, _)] = self.take(worker)
            self.assertGreaterEqual(worker.lease_left(name), lease - 1 - 1000 * (time.monotonic() - begun))
        put(b"0")
        take_after_a_second()
        if KIND == "redis":
            worker.forget(b"0", 1)
        put(b"1")
        wait_for(is_renewed, "a renewal")
        take_after_a_second()
        if KIND == "redis":  # the table gives a lease to a delivery that is taken, whatever is left
            self.assertGreaterEqual(min(left), lease)

    def test_an_extended_lease_delays_redelivery(self):
        self.serve(self.to, "--lease-ms", 3000)
        worker = self.work()
        worker.put(b"a")
        [(name, attempt, _, _)] = self.take(worker)
        self.assertEqual(worker.extend(name, attempt, 60_000), "ok")
        time.sleep(5)
        self.assertEqual(worker.next(), [])
        self.assertEqual(worker.end("done", name, attempt), "ok")

    def test_a_delivery_cancelled_late_is_stale(self):
        self.serve(self.to)
        worker = self.work()
        worker.put(b"a")
        worker.put(b"b")
        wait_for(lambda: worker.waiting() == 2, "both wait for a worker")
        self.assertEqual(self.run_tool("cancel", "a"), "had_begun\n")
        taken = self.take(worker, 2)
        self.assertEqual({name: worker.end("done", name, attempt) for name, attempt, _, _ in taken},
                         {b"a": "stale", b"b": "ok"} if KIND == "redis" else {b"b": "ok"})
        self.assertEqual(worker.waiting(), 0)

    def kill_one_of(self, number):
        """Kills one of so many processes while timers become due. Another begins then if that was the only one."""
        serves = [self.serve(self.to, "--lease-ms", 1000) for _ in range(number)]
        worker = self.work()
        for i in range(200):
            worker.put(b"%d" % i, i * 5)
        wait_for(lambda: worker.waiting() > 20, "some are there")
        serves[0].kill()
        if number == 1:
            self.serve(self.to, "--lease-ms", 1000)
        self.assertEqual(sorted(self.work_off(worker, 200)), sorted(b"%d" % i for i in range(200)))
        self.wait_until_empty()

    def test_nothing_is_lost_when_it_is_killed(self):
        self.kill_one_of(1)

    def test_a_process_continues_when_its_peer_is_killed(self):
        self.kill_one_of(2)

    def test_several_share_the_timers(self):
        serves = [self.serve(self.to, "--page", "127.0.0.1:0") for _ in range(2)]

        def taken():
            texts = [serve.ask("/metrics")[1] for serve in serves]
            return [next(int(line.split()[1]) for line in text.splitlines()
                         if line.startswith('tvec_timers_answers_total{answer="taken"}')) for text in texts]
        worker = self.work()
        put_many(worker, 100)
        self.assertEqual(len(set(self.work_off(worker, 100))), 100)
        wait_for(lambda: all(n > 0 for n in taken()), "both have delivered")
        self.assertEqual(sum(taken()), 100)
        self.assertEqual(serves[0].end(), 0)
        put_many(worker, 100)
        self.assertEqual(len(set(self.work_off(worker, 100))), 100)

    def test_deliveries_of_a_killed_process_come_through_another(self):
        stuck, works = self.hanging_hook(lambda _: True), self.hook()
        for i in range(5):
            self.put(f"{i}")
        dies = self.serve(stuck.to, "--lease-ms", 3000)
        wait_for(lambda: len({note["id"] for note in stuck.notes}) == 5, "all are with the hook of the first")
        self.serve(works.to, "--lease-ms", 3000)
        dies.kill()
        wait_for(lambda: len({note["id"] for note in works.notes}) == 5, "all come through the second")
        self.assertGreaterEqual(min(note["attempt"] for note in works.notes), 2)
        self.wait_until_empty()

    def test_in_flight_bounds_deliveries_that_wait_for_workers(self):
        self.serve(self.to, "--in-flight", 10)
        worker = self.work()
        put_many(worker, 60)
        wait_for(lambda: worker.waiting() == 10, "the bound")
        time.sleep(0.3)
        self.assertEqual(worker.waiting(), 10)
        self.assertEqual(len(set(self.work_off(worker, 60))), 60)

    def test_after_sigterm_another_server_delivers_the_rest(self):
        serve = self.serve(self.to)
        worker = self.work()
        put_many(worker, 50)
        wait_for(lambda: worker.waiting() > 0, "the first")
        self.assertEqual(serve.end(), 0)
        other = self.serve(self.to)
        self.assertEqual(len(set(self.work_off(worker, 50))), 50)
        self.assertEqual(other.end(), 0)

    def test_health_is_503_while_the_server_is_silent(self):
        serve = self.serve(self.to, "--page", "127.0.0.1:0")
        wait_for(lambda: serve.ask("/health") == (200, "ok\n"), "health")
        self.server.signal(signal.SIGSTOP)
        try:
            status, why = serve.ask("/health")
        finally:
            self.server.signal(signal.SIGCONT)
        self.assertEqual(status, 503)
        self.assertTrue(why)
        wait_for(lambda: serve.ask("/health")[0] == 200, "health again")

    def test_memory_held_for_an_absent_sink_is_bounded(self):
        worker = self.work()
        for i in range(200):
            worker.put(b"%d" % i, 0, bytes(1_000_000))
        nowhere = free_port()
        away = f"stream:127.0.0.1:{nowhere}/due"
        if KIND == "postgres":
            locks, away = self.work(), self.to
            locks.link.autocommit = False
            with locks.link.cursor() as cursor:
                cursor.execute("lock table tvec.ready in access exclusive mode")
        for to in away, f"http://127.0.0.1:{nowhere}/":
            with self.subTest(to):
                serve = self.serve(to, "--lease-ms", 10_000, "--in-flight", 1000, "--page", "127.0.0.1:0")

                def held():
                    return int(re.search(r"(?m)^tvec_timers_held (\d+)$", serve.ask("/metrics")[1])[1])
                wait_for(lambda: held() > 55, "as many as there is room for")
                time.sleep(0.5)
                most = held()
                serve.kill()
                self.assertLess(most, 135)
        if KIND == "postgres":
            locks.link.rollback()
        # Ten are ended within it on a disk of any speed, and what a broken connection has lost comes again.
        self.serve(self.to, "--lease-ms", 20_000)
        self.assertEqual(len(set(self.work_off(worker, 200))), 200)

    def test_its_log_tells_dangers_and_faults(self):
        if KIND == "redis":
            self.server.say("CONFIG", "SET", "appendfsync", "everysec")
            self.addCleanup(self.server.say, "CONFIG", "SET", "appendfsync", "always")
        else:
            self.store += " password=geheim options='-c synchronous_commit=off'"
        serve = self.serve(self.to, "--page", "127.0.0.1:0")
        wait_for(lambda: "store: " in serve.said() and "a power cut loses" in serve.said(), "the danger")
        self.server.kill()
        for of in "store", "sink":
            wait_for(lambda: serve.said().count(f"tvec-timers: {of}: ") > (of == "store"), f"the fault of the {of}")
        pages = [serve.ask("/metrics")[1], serve.ask("/health")[1]]
        self.server.start()
        wait_for(lambda: "sink: works again\n" in serve.said(), "the end of the fault")
        self.assertNotIn("geheim", "".join([serve.said(), *pages]))


@unittest.skipUnless(KIND == "redis", "of Redis")
class Streams(OnServer):
    """With a stream."""

    def test_the_page_starts_a_worker_of_a_stream(self):
        port = self.server.port
        said = self.follow("start.md", "Redis with Python", {
            ":6379": f":{port}", "redis.Redis()": f"redis.Redis(port={port})", "redis-cli": f"redis-cli -p {port}",
            "127.0.0.1:9181": str(self.folder / "page"), "/usr/share/tvec-timers": "durable/examples/any-language"})
        wait_for(lambda: "b'hello' b'world'\n" in said(), "what the page promises")

    def test_the_page_starts_a_worker_in_node(self):
        if shutil.which("node") is None or \
                subprocess.run(["node", "-e", 'require("redis")'], capture_output=True).returncode != 0:
            self.skipTest("the package redis of Node is not installed")
        port = self.server.port
        packages = f'{DURABLE}/examples/any-language:{os.environ.get("NODE_PATH", "")}'
        said = self.follow("start.md", "Redis with Node", {
            ":6379": f":{port}", "127.0.0.1:9181": str(self.folder / "page"), "/usr/share/tvec-timers": packages,
            "createClient()": f"createClient({{socket: {{port: {port}}}}})", "redis-cli": f"redis-cli -p {port}"})
        wait_for(lambda: "hello node\n" in said(), "what the page promises")

    def test_health_tells_kinds_that_it_did_not_reach(self):
        self.server.say("FLUSHALL")
        self.run_tool("install", "--shards", 1)
        worker = self.work()
        for i in range(1_010):
            worker.put(b"mail-%d" % i, -60_000)
        serve = self.serve(self.to, "--in-flight", 1, "--page", "127.0.0.1:0")
        for prefix, why in ("mail-", "and nobody is at work on it: [^\n]+"), (
                "order-", "and so are 1000 before any with the prefix order-: these were not looked at"):
            wait_for(lambda: re.fullmatch(rf"timer mail-\d+ is overdue for \d+ s, {why}\n", serve.ask("/health?prefix=" + prefix)[1]), prefix)

    def test_a_stream_on_another_server_may_be_away(self):
        other = Server(self.folder, "other")
        self.addCleanup(other.kill)
        serve = self.serve(f"stream:127.0.0.1:{other.port}/due", "--page", "127.0.0.1:0", "--lease-ms", 5000)
        worker = self.work("worker", other)
        worker.put(b"first")
        [(name, attempt, _, _)] = self.take(worker)
        self.assertEqual(worker.end("done", name, attempt), "ok")
        other.kill()
        worker.put(b"second")
        wait_for(lambda: serve.ask("/health")[0] == 503, "503")
        self.assertIn("stream: ", serve.ask("/health")[1])
        time.sleep(7)  # longer than its lease: it is held, and not claimed again
        other.start()
        [(name, attempt, _, _)] = self.take(self.work("worker", other))
        self.assertEqual((name, attempt), (b"second", 1))
        self.assertEqual(worker.end("done", name, attempt), "ok")
        self.assertEqual(serve.ask("/health")[0], 200)

    def test_leftover_entries_go_when_their_leases_end(self):
        self.serve(self.to, "--lease-ms", 300)
        worker = self.work()
        worker.put(b"a")
        for _ in range(3):
            self.take(worker)
        worker.put(b"b")
        wait_for(lambda: worker.next(), "b")
        self.assertLessEqual(worker.waiting(), 4)

    def pending(self):
        return self.work().stream.xpending("due", "workers")["pending"]

    def test_new_timers_come_after_somebody_has_deleted_something(self):
        serve = self.serve(self.to, "--lease-ms", 1000, "--page", "127.0.0.1:0")
        worker = self.work()
        for what in (["FLUSHALL"], ["FLUSHDB"], ["DEL", "{tvec}:meta"], ["RENAME", "{tvec}:meta", "{tvec}:old"],
                     ["DEL", "{tvec}:processes"], ["DEL", "due"], ["RENAME", "due", "old"],
                     ["XGROUP", "DESTROY", "due", "workers"], ["FUNCTION", "FLUSH"],
                     *(["DEL", *(f"{{tvec:{shard}}}:{key}" for shard in range(16))] for key in
                       ("due", "timer", "begun", "body", "own", "dead", "damaged"))):
            with self.subTest(what):
                worker.put(b"lies there")
                wait_for(worker.waiting, "a delivery in the stream")
                self.server.say(*what)
                name = " ".join(what[:2]).encode()

                def is_stored():
                    try:
                        worker.put(name)
                    except driver.ResponseError:  # there is no set, or no function
                        return False
                    return True
                wait_for(is_stored, "a put")
                came = set()

                def has_come():
                    for found, attempt, _, _ in worker.next(10):
                        if worker.end("done", found, attempt) == "ok":
                            came.add(found)
                    return name in came
                wait_for(has_come, "the new timer")
                worker.store.execute_command("FCALL", "tvec_cancel", 1, "tvec", "lies there")
                wait_for(lambda: serve.ask("/health") == (200, "ok\n"), "health")

    def test_timers_come_although_their_places_were_deleted(self):
        worker = self.work()
        put_many(worker, 50)
        self.server.say("DEL", *(f"{{tvec:{shard}}}:due" for shard in range(16)))
        self.serve(self.to, "--lease-ms", 1000)
        self.assertEqual(sorted(self.work_off(worker, 50)), sorted(b"%d" % i for i in range(50)))

    def test_a_waiting_delivery_costs_one_attempt(self):
        self.serve(self.to, "--lease-ms", 3000)
        worker = self.work()
        worker.put(b"a")
        time.sleep(7)  # several leases
        self.assertEqual(worker.waiting(), 1)
        [(name, attempt, _, _)] = self.take(worker)
        self.assertEqual((attempt, worker.end("done", name, attempt)), (1, "ok"))

    def test_a_cancelled_delivery_leaves_the_stream(self):
        self.serve(self.to, "--lease-ms", 300)
        worker = self.work()
        worker.put(b"a")
        wait_for(worker.waiting, "it waits for a worker")
        self.run_tool("cancel", "a")
        wait_for(lambda: worker.waiting() == 0, "an empty stream")

    def test_workers_that_die_leave_nothing_behind(self):
        self.serve(self.to, "--lease-ms", 300)
        for i in range(8):
            dies = self.work(f"worker{i}")
            for n in range(20):
                dies.put(b"%d %d" % (i, n))
            wait_for(lambda: dies.next(100), "deliveries")
        worker = self.work()
        self.assertEqual(len(set(self.work_off(worker, 160))), 160)
        wait_for(lambda: self.pending() == 0 and worker.waiting() == 0, "an empty list")
        worker.put(b"comes again and again")

        def consumers():
            worker.next()
            return [consumer["name"] for consumer in worker.stream.xinfo_consumers("due", "workers")]
        wait_for(lambda: consumers() == [b"worker"], "the one that reads")

    def test_workers_that_do_not_delete_entries_stop_nobody(self):
        self.serve(self.to, "--in-flight", 50)
        worker, slow = self.work(), self.work("slow")
        worker.put(b"slow")
        [(name, attempt, _, _)] = self.take(slow)
        put_many(worker, 300)
        ended = set()

        def step():
            for found, attempt, _, _ in worker.next(20):
                worker.stream.execute_command("XACK", "due", "workers", worker.entries.pop((found, attempt)))
                ended.add(found) if worker.end("done", found, attempt) == "ok" else None
            return len(ended) == 300
        wait_for(step, "all deliveries")
        self.assertEqual(slow.end("done", name, attempt), "ok")
        wait_for(lambda: worker.waiting() == 0, "an empty stream")

    def test_a_server_without_free_memory_still_delivers_everything(self):
        for limit in "12mb", "1mb":  # some memory is free after the first ends, and none until the last
            self.server.say("FLUSHALL")
            self.server.say("CONFIG", "SET", "maxmemory", "12mb")
            self.addCleanup(self.server.say, "CONFIG", "SET", "maxmemory", 0)
            self.run_tool("install")
            worker, stored = self.work(), 0
            with self.assertRaises(driver.ResponseError):
                while stored < 10_000:
                    worker.put(b"%d" % stored, 0, b"b" * 10_000)
                    stored += 1
            self.assertGreater(stored, 100)
            self.server.say("CONFIG", "SET", "maxmemory", limit)
            serve = self.serve(self.to)
            sizes = []

            def step():
                sizes.append(worker.stream.execute_command("MEMORY", "USAGE", "due") or 0)
                for name, attempt, _, _ in worker.next(10):
                    worker.end("done", name, attempt)
                return self.work_is_over(worker)
            wait_for(step, "all deliveries")
            if limit == "1mb":  # with 12mb the server refuses what goes beyond the memory that is free
                self.assertLess(max(sizes), 200_000)
            self.assertEqual(serve.end(), 0)
            self.server.say("CONFIG", "SET", "maxmemory", 0)

    def work_is_over(self, worker):
        return worker.waiting() == 0 and self.json_of("stats")[0]["waiting"] == 0

    def test_a_stream_may_lie_on_any_cluster_node(self):
        nodes = [Server(self.folder, f"node{i}", options=["--cluster-enabled", "yes", "--cluster-port", free_port()])
                 for i in range(3)]
        for i, node in enumerate(nodes):
            self.addCleanup(node.kill)
            node.say("CLUSTER", "ADDSLOTSRANGE", 16384 * i // 3, 16384 * (i + 1) // 3 - 1)
            bus = node.words[node.words.index("--cluster-port") + 1]
            nodes[0].say("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        for node in nodes:
            node.wait_for("cluster_known_nodes:3", "CLUSTER", "INFO")
            node.wait_for("cluster_state:ok", "CLUSTER", "INFO")
        self.store = f"redis:127.0.0.1:{nodes[0].port}"
        self.run_tool("install")
        on = set()
        for name in "due", "a", "b", "c", "d", "e":
            slot = int(nodes[0].say("CLUSTER", "KEYSLOT", name))
            there = nodes[slot * 3 // 16384]
            on.add(there)
            serve = self.serve(f"stream:{name}", "--page", "127.0.0.1:0")
            self.put("of " + name)
            worker = self.work("worker", there)
            worker.name_of_stream = name
            [(found, _, _, _)] = self.take(worker)
            self.assertEqual(found, b"of " + name.encode())
            self.assertEqual(serve.ask("/health"), (200, "ok\n"))
            self.assertEqual(serve.end(), 0)
            self.run_tool("cancel", "of " + name)
        self.assertEqual(len(on), 3)
        for node in nodes:
            node.say("CONFIG", "SET", "cluster-require-full-coverage", "no")
        serve = self.serve("stream:due", "--page", "127.0.0.1:0")
        wait_for(lambda: serve.ask("/health") == (200, "ok\n"), "health")
        page, done = {}, []
        text = (pathlib.Path(__file__).parents[2] / "docs/using.md").read_text()
        exec(re.search(r"```python\n(def shard_tag.*?)```", text, re.S)[1], page)
        sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples/any-language"))
        import tvec_stream_worker
        stream_worker = threading.Thread(daemon=True, target=tvec_stream_worker.work, args=(
            lambda: driver.cluster.RedisCluster("127.0.0.1", nodes[0].port),
            lambda _, timer: done.append((timer.id, timer.body)), "due",
            lambda timer: page["shard_tag"]("tvec", 16, timer)))
        stream_worker.start()
        for timer in "a", "b", "c":
            self.put(timer, "--body", timer * 2)
        self.wait_until_empty()
        self.assertEqual(sorted(done), [(b"a", b"aa"), (b"b", b"bb"), (b"c", b"cc")])
        away = next(node for node in nodes[1:] if node is not nodes[int(nodes[0].say("CLUSTER", "KEYSLOT", "due")) * 3 // 16384])
        away.kill()
        wait_for(lambda: serve.ask("/health")[0] == 503, "503 while some shards are away")
        self.assertIn(f":{away.port}: ", serve.ask("/health")[1])
        wait_for(lambda: 0 < int(re.search(r"^tvec_durable_shards (\d+)$", serve.ask("/metrics")[1], re.M)[1]) < 16, "less shards")
        for node in nodes:
            node.kill()
        time.sleep(3)  # the worker, which reads for five seconds at most, makes new connections once a second
        self.assertTrue(stream_worker.is_alive(), "a worker outlives its cluster")


@unittest.skipUnless(KIND == "postgres", "of PostgreSQL")
class Tables(OnServer):
    def test_a_worker_that_rolls_back_has_taken_nothing(self):
        self.serve(self.to)
        dies, lives = self.work(), self.work()
        dies.put(b"a")
        dies.link.autocommit = False
        [(name, attempt, _, _)] = self.take(dies)
        self.assertEqual(lives.next(), [])
        dies.link.rollback()
        self.assertEqual(lives.next()[0][:2], (name, attempt))

    def test_next_drops_rows_that_are_over(self):
        self.serve(self.to)
        worker = self.work()
        worker.put(b"ended", plan="cron 0 0 1 1 *")
        worker.put(b"touched")
        wait_for(lambda: worker.waiting() == 2, "both wait for a worker")
        self.assertEqual(worker.end("done", b"ended", 1), "ok")
        self.run_tool("touch", "touched", "--in-ms", 1_000_000)
        worker.say("select tvec.make_ready(array['touched'::bytea], array[7])")  # no attempt of it has this number
        self.assertEqual(worker.next(10), [])
        self.assertEqual(worker.waiting(), 0)

    def test_serve_overrides_read_only_serializable_and_jit_settings(self):
        for setting in ("default_transaction_read_only = on", "default_transaction_isolation = serializable",
                        "jit_above_cost = 0"):
            with self.subTest(setting):
                self.server.say("alter database postgres set " + setting)
                self.addCleanup(self.server.say, "begin read write; alter database postgres reset all; commit")
                serve, worker = self.serve(self.to), self.work()
                worker.say("select set_config('default_transaction_read_only', 'off', false)")
                worker.put(b"a")
                self.assertEqual(self.work_off(worker, 1), [b"a"])
                self.assertNotIn("sink", serve.said())
                serve.kill()
                self.server.say("begin read write; alter database postgres reset all; commit")

    def test_a_delivery_rolled_back_costs_no_attempt(self):
        serve = self.serve(self.to, "--lease-ms", 200, "--attempts", 1)
        worker = self.work()
        worker.put(b"a")
        worker.link.autocommit = False
        for _ in range(4):
            self.take(worker)
            worker.link.rollback()
        worker.link.autocommit = True
        serve.kill()  # the next delivery is ended within its lease, on a slow machine too
        self.serve(self.to, "--lease-ms", 20_000, "--attempts", 1)
        self.assertEqual(self.work_off(worker, 1), [b"a"])
        self.assertEqual(self.json_of("dead"), [])

    def test_a_delivery_extended_during_a_take_is_taken(self):
        self.serve(self.to, "--lease-ms", 60_000)
        worker, other = self.work(), self.work()
        worker.put(b"a")
        wait_for(lambda: worker.waiting() == 1, "it waits for a worker")
        [[text]] = worker.say("select pg_get_functiondef('tvec.next(int, bytea)'::regprocedure)")
        waits = text.replace("select r.ctid as line, r.n,", "select pg_advisory_lock(1), r.ctid as line, r.n,")
        self.assertNotEqual(waits, text)
        self.server.say(waits)
        other.say("select pg_advisory_lock(1)")
        taken = []
        takes = threading.Thread(target=lambda: taken.extend(worker.next()))
        takes.start()
        wait_for(lambda: other.say("select from pg_stat_activity where wait_event = 'advisory'"), "the call has begun")
        self.assertEqual(other.extend(b"a", 1, 60_000), "ok")
        other.say("select pg_advisory_unlock(1)")
        takes.join()
        self.assertEqual([(name, attempt) for name, attempt, _, _ in taken], [(b"a", 1)])
        self.assertEqual(worker.end("done", b"a", 1), "ok")

    def test_only_a_timer_that_kills_workers_is_buried(self):
        serve = self.serve(self.to, "--lease-ms", 2000, "--attempts", 1)
        names = [b"poison", *(b"%d" % i for i in range(9))]
        worker = self.work()
        for name in names:
            worker.put(name)
        wait_for(lambda: worker.waiting() == 10, "all wait for a worker")
        self.server.say("delete from tvec.ready")  # as a crash of the server does
        wait_for(lambda: worker.waiting() == 10, "all have come again, and no worker has seen them")
        died_with, ended = [], []

        def step():
            taken = worker.next(10)
            if b"poison" in (delivery[0] for delivery in taken):
                died_with.append(len(taken))
                if len(died_with) == 1:  # what comes now is ended within its lease, on a slow machine too
                    serve.kill()
                    self.serve(self.to, "--lease-ms", 5000, "--attempts", 1)
                return False  # it ends nothing
            ended.extend(name for name, attempt, _, _ in taken if worker.end("done", name, attempt) == "ok")
            return len(ended) == 9 and self.json_of("dead")
        [dead] = wait_for(step, "all but one")
        self.assertEqual((dead["id"], dead["reason"]), ("poison", "deliveries without an end: 1"))
        self.assertIn("\tdeliveries without an end: 1\n", self.run_tool("dead"))
        self.assertEqual(sorted(ended), sorted(names[1:]))
        self.assertEqual(died_with, [10, 1])

    def test_a_timer_nobody_takes_has_one_row(self):
        serve = self.serve(self.to)
        worker = self.work()
        put_many(worker, 5)
        wait_for(lambda: worker.waiting() == 5, "all wait for a worker")
        serve.kill()
        for attempt in 2, 3:
            self.server.say(f"update tvec.timer set attempt = {attempt};"
                            f"select tvec.make_ready(array_agg(id), array_agg(attempt)) from tvec.timer")
        self.assertEqual(self.server.say("select count(*) || ' ' || count(distinct id) from tvec.ready"), "5 5")

    def test_a_delivery_nobody_takes_stays_the_same(self):
        serve = self.serve(self.to, "--lease-ms", 9000, "--page", "127.0.0.1:0")
        put_many(self.work(), 20)
        wait_for(lambda: self.server.say("select count(*) from tvec.ready") == "20", "all wait for a worker")
        till, swept = self.server.say("select max(visible) from tvec.timer"), serve.metric("tvec_durable_swept_total")
        wait_for(lambda: self.server.say(f"select min(visible) > {till} from tvec.timer") == "t", "leases that are extended")
        self.assertEqual(self.server.say("select min(attempt) || ' ' || max(attempt) from tvec.timer"), "1 1")
        self.assertEqual(serve.metric("tvec_durable_swept_total"), swept)

    def test_health_blames_no_delivery_that_no_worker_took(self):
        serve = self.serve(self.to, "--page", "127.0.0.1:0", "--overdue-ms", 300)
        put_many(self.work(), 20)
        wait_for(lambda: self.server.say("select count(*) from tvec.ready") == "20", "all wait for a worker")
        self.server.say("update tvec.timer set attempt = 3; update tvec.ready set attempt = 3")  # after two crashes
        wait_for(lambda: serve.ask("/health")[0] == 503, "503")
        for _ in range(20):
            self.assertIn("no worker has taken it", serve.ask("/health")[1])

    def test_health_sees_a_kind_without_workers(self):
        serve = self.serve(self.to, "--lease-ms", 1000, "--page", "127.0.0.1:0", "--overdue-ms", 800)
        worker = self.work()
        for i in range(5):
            worker.put(b"mail-%d" % i)
        for i in range(10):  # of another kind
            worker.put(b"order-%d" % i)
            wait_for(lambda: worker.say("select tvec.done(d.id, d.attempt) from tvec.next(10, 'order-') d"), "an order")
            time.sleep(0.1)
        self.assertRegex(serve.ask("/health")[1], r"\Atimer mail-\d is overdue for \d+ s, and nobody is at work on it: "
                         "no worker has taken it")
        self.assertEqual(serve.ask("/health?prefix=mail-")[0], 503)
        self.assertEqual(serve.ask("/health?prefix=order-"), (200, "ok\n"))
        self.work_off(worker, 5)
        wait_for(lambda: serve.ask("/health") == (200, "ok\n"), "health")

    def test_deliveries_in_open_transactions_count_as_under_way(self):
        serve = self.serve(self.to, "--lease-ms", 60_000, "--page", "127.0.0.1:0", "--overdue-ms", 300)
        worker = self.work()
        worker.put(b"a")
        worker.link.autocommit = False
        self.take(worker)
        wait_for(lambda: serve.metric("tvec_timers_oldest_overdue_seconds") == 0, "the gauge")
        time.sleep(0.5)
        for _ in range(5):
            self.assertEqual(serve.ask("/health"), (200, "ok\n"))
        worker.link.rollback()
        wait_for(lambda: serve.ask("/health")[0] == 503, "503")

    def test_health_sees_claims_that_fail(self):
        serve = self.serve(self.to, "--page", "127.0.0.1:0", "--overdue-ms", 500)
        self.server.say("create function tvec.no() returns trigger language plpgsql as $$ begin raise 'no room'; end $$;"
                        "create trigger no before update on tvec.timer for each row execute function tvec.no()")
        worker = self.work()
        worker.put(b"a")
        wait_for(lambda: serve.ask("/health")[0] == 503, "503")
        for _ in range(10):
            self.assertRegex(serve.ask("/health")[1], r"\Atimer a is overdue for \d+ s, .*no room")
        self.server.say("drop trigger no on tvec.timer; drop function tvec.no()")
        self.assertEqual(self.work_off(worker, 1), [b"a"])
        wait_for(lambda: serve.ask("/health") == (200, "ok\n"), "health")

    def test_next_takes_only_ids_with_a_prefix(self):
        self.serve(self.to)
        worker = self.work()
        for name in b"a 1", b"b 1", b"a 2", b"\xff":
            worker.put(name)
        wait_for(lambda: worker.waiting() == 4, "all wait for a worker")
        self.assertEqual({bytes(row[0]) for row in worker.say("select id from tvec.next(10, 'a ')")}, {b"a 1", b"a 2"})
        self.assertEqual(worker.say("select id from tvec.next(10, %s)", b"\xff")[0][0].tobytes(), b"\xff")
        self.assertEqual(worker.next(10)[0][0], b"b 1")

    def test_next_does_not_wait_for_locked_timers(self):
        self.serve(self.to, "--lease-ms", 60_000)
        pays, worker = self.work(), self.work()
        for name in b"a", b"b":
            worker.put(name)
        wait_for(lambda: worker.waiting() == 2, "both wait for a worker")
        pays.link.autocommit = False
        pays.say("select tvec.cancel('a')")
        worker.say("select set_config('lock_timeout', '1', false)")
        self.assertEqual([delivery[0] for delivery in worker.next(10)], [b"b"])
        pays.link.rollback()
        self.assertEqual([delivery[0] for delivery in worker.next(10)], [b"a"])

    def test_a_slow_table_is_asked_once(self):
        serve = self.serve(self.to, "--in-flight", 1, "--page", "127.0.0.1:0")
        locks, worker = self.work(), self.work()
        for name in b"a", b"b", b"c":
            worker.put(name)
        wait_for(lambda: worker.waiting() == 1 and "tvec_timers_held 1\n" in serve.ask("/metrics")[1],
                 "one waits for a worker, and one in the process")
        locks.link.autocommit = False
        with locks.link.cursor() as cursor:
            cursor.execute("lock table tvec.ready in access exclusive mode")
        ends = time.monotonic() + 0.5  # longer than the pause between two looks
        while time.monotonic() < ends:
            self.assertEqual(serve.ask("/health"), (200, "ok\n"))
        locks.link.rollback()
        self.assertEqual(sorted(self.work_off(worker, 3)), [b"a", b"b", b"c"])

    def test_a_worker_in_a_transaction_stalls_no_others(self):
        self.serve(self.to, "--lease-ms", 500)
        slow, quick = self.work(), self.work()
        slow.put(b"slow")
        slow.link.autocommit = False
        self.take(slow)
        for i in range(20):
            quick.put(b"%d" % i)
        self.assertEqual(len(set(self.work_off(quick, 20))), 20)
        self.assertEqual(slow.end("done", b"slow", 1), "ok")
        slow.link.commit()
        self.wait_until_empty()

    def test_done_counts_only_if_the_transaction_commits(self):
        self.serve(self.to, "--lease-ms", 500)
        worker = self.work()
        worker.put(b"a")
        worker.link.autocommit = False
        [(name, attempt, _, _)] = self.take(worker)
        self.assertEqual(worker.end("done", name, attempt), "ok")
        worker.link.rollback()
        worker.link.autocommit = True
        [(_, _, _, _)] = self.take(worker)
        self.assertEqual(self.json_of("stats")[0]["waiting"], 1)

    def test_workers_are_woken(self):
        self.serve(self.to)
        worker = self.work()
        worker.say("select 1 from (select 1) x")
        with worker.link.cursor() as cursor:
            cursor.execute("listen tvec_ready")
        worker.put(b"a", 50)

        def is_woken():
            worker.link.poll()
            return worker.link.notifies
        wait_for(is_woken, "a notification")
        self.assertEqual(len(worker.next()), 1)

    def test_a_full_notification_queue_is_reported_and_harmless(self):
        usage = "create or replace function pg_catalog.pg_notification_queue_usage() returns float8 volatile language "
        self.server.say(usage + "sql as 'select 0.6::float8'")  # to fill it takes gigabytes
        self.addCleanup(self.server.say, usage + "internal as 'pg_notification_queue_usage'")
        serve, worker = self.serve(self.to), self.work()
        with worker.link.cursor() as cursor:
            cursor.execute("listen tvec_ready")
        wait_for(lambda: "store: the queue of notifications is half full" in serve.said(), "the reason")
        worker.put(b"a")
        self.assertEqual(self.work_off(worker, 1), [b"a"])
        self.assertEqual(worker.link.notifies, [])

    def test_a_server_crash_loses_no_waiting_delivery(self):
        self.serve(self.to, "--lease-ms", 1000)
        worker = self.work()
        put_many(worker, 20)
        wait_for(lambda: worker.waiting() == 20, "all wait for a worker")
        self.server.kill()
        self.server.start()
        self.assertEqual(len(set(self.work_off(self.work(), 20))), 20)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
