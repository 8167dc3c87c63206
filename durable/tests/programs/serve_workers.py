#!/usr/bin/python3
"""What `tvec-timers serve` promises to workers that end deliveries in the store: on Redis and in PostgreSQL.

usage: serve_workers.py TVEC_TIMERS redis|postgres
"""

import importlib
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import unittest

from serving import Case, wait_for

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

    def __init__(self, server, name="worker", stream=None):
        self.name, self.store = name, driver.Redis(unix_socket_path=str(server.socket))
        self.stream = driver.Redis(unix_socket_path=str((stream or server).socket))
        self.entries = {}

    def next(self, most=1):
        got = self.stream.execute_command("XREADGROUP", "GROUP", "workers", self.name, "COUNT", most, "STREAMS", "due", ">")
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
            self.stream.execute_command("XACK", "due", "workers", entry)
            self.stream.execute_command("XDEL", "due", entry)
        return said

    def again(self, name, attempt, in_ms):
        return self.end("again", name, attempt, time.time_ns() // 1_000_000 + in_ms)

    def extend(self, name, attempt, ms):
        return self.end("extend", name, attempt, ms)

    def put(self, name, in_ms=0, body=b"", plan=None):
        self.store.execute_command("FCALL", "tvec_put", 1, "tvec", name, time.time_ns() // 1_000_000 + in_ms, body,
                                   *(["plan", plan] if plan else []))

    def waiting(self):
        return self.stream.execute_command("XLEN", "due")

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

    def again(self, name, attempt, in_ms):
        return self.say("select tvec.again(%s::bytea, %s, now() + %s * interval '1 ms')", name, attempt, in_ms)[0][0]

    def extend(self, name, attempt, ms):
        return self.say("select tvec.extend(%s::bytea, %s, %s * interval '1 ms')", name, attempt, ms)[0][0]

    def put(self, name, in_ms=0, body=b"", plan=""):
        self.say("select tvec.put(%s::bytea, now() + %s * interval '1 ms', %s::bytea, plan => %s)", name, in_ms, body, plan)

    def waiting(self):
        return self.say("select count(*) from tvec.ready")[0][0]

    def close(self):
        self.link.close()


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
            for name, attempt, _, _ in worker.next(50):
                if worker.end("done", name, attempt) == "ok":
                    ended.append(name)
            return len(ended) >= number
        wait_for(step, f"{number} deliveries")
        return ended


class Workers(OnServer):
    def test_a_due_timer_reaches_a_worker_with_its_bytes(self):
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
        self.serve(self.to, "--lease-ms", 500)
        dies, lives = self.work(), self.work()
        dies.put(b"a")
        [(name, attempt, _, _)] = self.take(dies)
        [(_, second, _, _)] = self.take(lives)
        self.assertEqual((attempt, second), (1, 2))
        self.assertEqual(dies.end("done", name, attempt), "stale")
        self.assertEqual(lives.end("done", name, second), "ok")

    def test_a_timer_whose_workers_die_each_time_is_a_dead_letter(self):
        self.serve(self.to, "--lease-ms", 300, "--attempts", 1)
        worker = self.work()
        worker.put(b"poison")
        self.assertEqual(self.take(worker)[0][1], 1)
        [dead] = wait_for(lambda: self.json_of("dead"), "a dead letter")
        self.assertEqual((dead["id"], dead["attempts"]), ("poison", 2))  # the first one is not counted

    def test_an_extended_lease_keeps_others_away(self):
        self.serve(self.to, "--lease-ms", 500)
        worker = self.work()
        worker.put(b"a")
        [(name, attempt, _, _)] = self.take(worker)
        self.assertEqual(worker.extend(name, attempt, 60_000), "ok")
        time.sleep(2)
        self.assertEqual(worker.next(), [])
        self.assertEqual(worker.end("done", name, attempt), "ok")

    def test_what_is_cancelled_late_is_stale(self):
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

    def test_one_of_two_goes_on_when_the_other_is_killed(self):
        self.kill_one_of(2)

    def test_several_share_the_timers(self):
        serves = [self.serve(self.to, "--page", "127.0.0.1:0") for _ in range(2)]

        def taken():
            texts = [serve.ask("/metrics")[1] for serve in serves]
            return [next(int(line.split()[1]) for line in text.splitlines()
                         if line.startswith('tvec_timers_answers_total{answer="taken"}')) for text in texts]
        worker = self.work()
        for i in range(100):
            worker.put(b"%d" % i)
        self.assertEqual(len(set(self.work_off(worker, 100))), 100)
        wait_for(lambda: all(n > 0 for n in taken()), "both have delivered")
        self.assertEqual(sum(taken()), 100)
        self.assertEqual(serves[0].end(), 0)
        for i in range(100):
            worker.put(b"%d" % i)
        self.assertEqual(len(set(self.work_off(worker, 100))), 100)

    def test_what_a_killed_process_held_comes_through_the_other(self):
        stuck, works = self.hanging_hook(lambda _: True), self.hook()
        dies = self.serve(stuck.to, "--lease-ms", 3000)
        for i in range(5):
            self.put(f"{i}")
        wait_for(lambda: len(stuck.notes) == 5, "all are with the hook of the first")
        self.serve(works.to, "--lease-ms", 3000)
        dies.kill()
        wait_for(lambda: len({note["id"] for note in works.notes}) == 5, "all come through the second")
        self.assertGreaterEqual(min(note["attempt"] for note in works.notes), 2)
        self.wait_until_empty()

    def test_so_many_deliveries_wait_for_workers_at_most(self):
        self.serve(self.to, "--in-flight", 10)
        worker = self.work()
        for i in range(60):
            worker.put(b"%d" % i)
        wait_for(lambda: worker.waiting() == 10, "the bound")
        time.sleep(0.3)
        self.assertEqual(worker.waiting(), 10)
        self.assertEqual(len(set(self.work_off(worker, 60))), 60)

    def test_sigterm_waits_until_all_is_handed_over(self):
        serve = self.serve(self.to)
        worker = self.work()
        for i in range(50):
            worker.put(b"%d" % i)
        wait_for(lambda: worker.waiting() > 0, "the first")
        self.assertEqual(serve.end(), 0)
        other = self.serve(self.to)
        self.assertEqual(len(set(self.work_off(worker, 50))), 50)
        self.assertEqual(other.end(), 0)

    def test_health_is_503_while_the_server_does_not_answer(self):
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


    def test_its_log_tells_dangers_and_faults(self):
        if KIND == "redis":
            self.server.say("CONFIG", "SET", "appendfsync", "everysec")
            self.addCleanup(self.server.say, "CONFIG", "SET", "appendfsync", "always")
        else:
            self.store += " password=geheim options='-c synchronous_commit=off'"
        serve = self.serve(self.to)
        wait_for(lambda: "store: " in serve.said() and "a power cut loses" in serve.said(), "the danger")
        self.server.kill()
        for of in "store", "sink":
            wait_for(lambda: serve.said().count(f"tvec-timers: {of}: ") > (of == "store"), f"the fault of the {of}")
        self.server.start()
        wait_for(lambda: "sink: works again\n" in serve.said(), "the end of the fault")
        self.assertNotIn("geheim", serve.said())


@unittest.skipUnless(KIND == "redis", "of Redis")
class Streams(OnServer):
    """With a stream."""

    def test_a_stream_may_be_on_another_server_and_away(self):
        other = Server(self.folder, "other")
        self.addCleanup(other.kill)
        serve = self.serve(f"stream:127.0.0.1:{other.port}/due", "--page", "127.0.0.1:0", "--lease-ms", 600)
        worker = self.work("worker", other)
        worker.put(b"first")
        [(name, attempt, _, _)] = self.take(worker)
        self.assertEqual(worker.end("done", name, attempt), "ok")
        other.kill()
        worker.put(b"second")
        wait_for(lambda: serve.ask("/health")[0] == 503, "503")
        self.assertIn("stream: ", serve.ask("/health")[1])
        time.sleep(1.5)  # longer than its lease: it is held, and not claimed again
        other.start()
        [(name, attempt, _, _)] = self.take(self.work("worker", other))
        self.assertEqual((name, attempt), (b"second", 1))
        self.assertEqual(worker.end("done", name, attempt), "ok")
        self.assertEqual(serve.ask("/health")[0], 200)

    def test_entries_that_nobody_removes_go_when_their_leases_are_over(self):
        self.serve(self.to, "--lease-ms", 300)
        worker = self.work()
        worker.put(b"a")
        for _ in range(3):
            self.take(worker)
        worker.put(b"b")
        wait_for(lambda: worker.next(), "b")
        self.assertLessEqual(worker.waiting(), 4)


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

    def test_a_worker_in_a_transaction_does_not_stall_others(self):
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

    def test_a_crash_of_the_server_loses_nothing(self):
        self.serve(self.to, "--lease-ms", 1000)
        worker = self.work()
        for i in range(20):
            worker.put(b"%d" % i)
        wait_for(lambda: worker.waiting() == 20, "all wait for a worker")
        self.server.kill()
        self.server.start()
        self.assertEqual(len(set(self.work_off(self.work(), 20))), 20)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
