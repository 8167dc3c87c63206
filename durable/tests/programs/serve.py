#!/usr/bin/env python3
"""What `tvec-timers serve` promises, with a hook and a file: deliveries, failures, the end, metrics and health.

usage: serve.py TVEC_TIMERS
"""

import contextlib
import email.utils
import gzip
import json
import os
import pathlib
import random
import re
import resource
import shlex
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse

from children import PATIENCE
from serving import Case, commands_of, datagrams, wait_for

Case.tool = sys.argv[1]


class Deliveries(Case):
    def test_a_due_timer_is_posted_with_its_bytes(self):
        hook = self.hook()
        self.serve(hook.to)
        odd, body = b"a/b %\xff<script>", bytes(range(1, 256))
        self.run_tool("put", os.fsdecode(odd), "--in-ms", 50, "--body", os.fsdecode(body))
        [note] = wait_for(lambda: hook.notes, "the delivery")
        self.assertEqual((note["id"], note["body"], note["attempt"], note["path"]), (odd, body, 1, "/hook"))
        self.assertGreaterEqual(note["now"], note["due"])
        self.wait_until_empty()

    def test_health_is_503_while_a_timer_is_overdue(self):
        serve = self.serve(self.hook().to, "--page", "127.0.0.1:0", "--overdue-ms", 500, restore_signals=False)
        self.put("later", in_ms=3_600_000)
        self.put("a <b>", in_ms=5000)
        self.assertEqual(serve.ask("/health"), (200, "ok\n"))
        _, hard = resource.prlimit(serve.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(serve.process.pid, resource.RLIMIT_FSIZE, (1, hard))  # as if the disk were full
        is_overdue = r"\Atimer a <b> is overdue for \d+ s, and nobody is at work on it: the store: "
        wait_for(lambda: re.match(is_overdue, serve.ask("/health")[1]), "the reason")
        for _ in range(20):
            status, why = serve.ask("/health")
            self.assertEqual(status, 503)
            self.assertRegex(why, is_overdue + r"|\Athe store could not: ")  # in a transaction with a claim
        wait_for(lambda: serve.metric("tvec_timers_oldest_overdue_seconds") > 0.5, "the gauge")
        self.assertEqual(serve.ask("/health?prefix=later"), (200, "ok\n"))
        self.assertEqual(serve.ask("/health?prefix=a%20")[0], 503)
        resource.prlimit(serve.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        wait_for(lambda: serve.ask("/health") == (200, "ok\n"), "it is delivered")
        wait_for(lambda: serve.metric("tvec_timers_oldest_overdue_seconds") == 0, "the gauge again")

    def test_an_overwritten_file_is_503_and_stores_nothing(self):
        self.put("old", in_ms=3_600_000)
        file = pathlib.Path(self.store)
        copy = file.read_bytes()
        for _ in range(2):  # on a file that was closed cleanly, and on the copy
            serve = self.serve(self.hook().to, "--page", "127.0.0.1:0")
            self.put("new", "--body", "x" * 3000, in_ms=3_600_000)
            file.write_bytes(copy)
            self.run_tool("put", "lost", "--in-ms", 3_600_000, status=1)
            status, why = serve.ask("/health")
            self.assertEqual(status, 503)
            self.assertIn("overwritten while it was open", why)
            self.assertEqual(file.read_bytes(), copy)
            self.assertEqual(serve.end(), 0)
        self.assertEqual([timer["id"] for timer in self.json_of("list")], ["old"])

    def test_the_hook_of_the_page_takes_a_timer(self):
        said = self.follow("start.md", "A file and a hook", {"timers.db": self.store})
        wait_for(lambda: "due: hello, with the body 'world'\n" in said(), "what the page promises")
        self.wait_until_empty()

    def test_the_commands_of_the_page_look_and_change(self):
        self.put("order-17", in_ms=3_600_000)
        commands = commands_of("operating.md", "Looking into a store, and changing it")
        self.assertEqual(commands.count("tvec-timers "), 10)
        said = self.follow("operating.md", "Looking into a store, and changing it", {"timers.db": self.store})
        wait_for(lambda: len(re.findall(r"(?m)^\d timers?$", said())) == 4, "cancel, revive and purge")
        self.assertEqual([(timer["id"], timer["plan"]) for timer in self.json_of("list")],
                         [("report", "cron 30 7 * * mon | zone Asia/Tokyo")])

    def test_the_page_restores_a_backup(self):
        for name in "shop", "backups":
            (self.folder / name).mkdir()
        self.store, serves = str(self.folder / "shop/timers.db"), []

        def follow(line):
            if line == "systemctl start tvec-timers@shop":
                serves.append(self.serve(self.hook().to))
            elif line == "systemctl stop tvec-timers@shop":
                serves[-1].end()
            else:
                line = line.replace("/var/lib/tvec-timers-shop", str(self.folder / "shop"))
                subprocess.run(line.replace("/var/backups", str(self.folder / "backups")), shell=True, check=True)

        self.put("old", "--body", "x" * 3000, in_ms=3_600_000)
        serves.append(self.serve(self.hook().to))
        *back_up, restore = commands_of("operating.md", "Backup and restore").split("systemctl stop ")[1:]
        self.assertEqual(len(back_up), 1)
        for line in ("systemctl stop " + back_up[0]).splitlines():
            follow(line)
        self.put("new", "--body", "x" * 3000, in_ms=3_600_000)
        serves[-1].kill()  # its log is left
        kept = self.folder / "shop" / "timers.db-wal.old"
        kept.write_bytes(b"a log")
        for line in ("systemctl stop " + restore).splitlines():
            follow(line)
        self.assertEqual(kept.read_bytes(), b"a log")
        self.assertEqual(len(serves), 3)
        self.assertEqual([timer["id"] for timer in self.json_of("list")], ["old"])

    def test_a_body_may_be_empty_or_large(self):
        hook = self.hook()
        self.put("empty")
        self.put("large", "--body", "x" * 100_000)
        self.serve(hook.to)
        wait_for(lambda: len(hook.notes) == 2, "both")
        self.assertEqual(sorted(len(note["body"]) for note in hook.notes), [0, 100_000])
        self.wait_until_empty()

    def test_a_hook_may_be_at_a_unix_socket(self):
        hook = self.hook(path=str(self.folder / "hook"))
        self.put("a")
        self.serve(hook.to)
        [note] = wait_for(lambda: hook.notes, "the delivery")
        self.assertEqual(note["path"], "/hook")

    def test_an_answer_can_ask_for_another_delivery(self):
        past = "Fri, 31 Dec 1999 23:59:59 GMT"
        for later, attempts, answer in [(ms, 1, (200, {}, b'{"again": %d}' % ms)) for ms in (1300, 0)] + [
                (ms, 2, (500, {"Retry-After": value}, b"")) for ms, value in ((2000, 2), (0, "0"), (0, past))]:
            with self.subTest(answer):
                answers = iter([answer])
                hook = self.hook(lambda _: next(answers, (200, {}, b"thanks")))
                self.put("a", "--plan", f"attempts {attempts}")  # a failure uses up one
                serve = self.serve(hook.to)
                first, second = wait_for(lambda: len(hook.notes) == 2 and hook.notes, "two deliveries")
                self.assertGreaterEqual(second["now"] - first["now"], max(later, 1000))
                self.wait_until_empty()
                serve.end()

    def test_a_failure_comes_again_no_sooner_than_asked(self):
        hook = self.hook(lambda _: (500, {"Retry-After": "0"}, b"full"))
        self.put("a", "--plan", "retry fixed 10ms | attempts 2")
        self.serve(hook.to)
        [dead] = wait_for(lambda: self.json_of("dead"), "a dead letter")
        self.assertEqual((dead["reason"], dead["failures"]), ("hook: HTTP 500: full", 2))
        first, second = hook.notes
        self.assertGreaterEqual(second["now"] - first["now"], 1000)

    def test_temporary_refusals_of_a_hook_cost_no_attempt(self):
        answers = {"429": (429, {"Retry-After": 2}, b"full"), "502": (502, {}, b"full"), "503": (503, {"Retry-After": 0}, b"full"),
                   "504": (504, {"Retry-After": "soon"}, b"full")}
        hook = self.hook(lambda note: answers[note["id"].decode()] if refuses else (200, {}, b""))
        refuses = True
        for name in answers:
            self.put(name, "--plan", "attempts 1")
        serve = self.serve(hook.to, "--attempts", 1, "--lease-ms", 3000, "--page", "127.0.0.1:0", "--overdue-ms", 500)
        for name in answers:
            wait_for(lambda: len(hook.of(name.encode())) > 4, "more calls than attempts")
            self.assertRegex(serve.ask("/health?prefix=" + name)[1],
                             rf"\Atimer {name} is overdue for \d+ s, and nobody is at work on it: hook: HTTP {name}\n\Z")
        self.assertEqual({note["attempt"] for note in hook.notes}, {1})
        for name, least in ("429", 2000), ("502", 1000), ("503", 1000), ("504", 1000):
            times = [note["now"] for note in hook.of(name.encode())]
            self.assertGreaterEqual(min(b - a for a, b in zip(times, times[1:])), least)
        refuses = False
        self.wait_until_empty()
        wait_for(lambda: serve.ask("/health") == (200, "ok\n"), "health")

    def test_health_reports_a_hook_that_refuses_everything(self):
        refuses = True
        hook = self.hook(lambda _: (503, {"Retry-After": 1}, b"full") if refuses else (200, {}, b""))
        for name in "a", "b":
            self.put(name)
        serve = self.serve(hook.to, "--in-flight", 2, "--page", "127.0.0.1:0", "--overdue-ms", 500)
        wait_for(lambda: len({note["id"] for note in hook.notes}) == 2, "two are with the hook")
        self.put("order")
        fault = "hook: refuses all 2: HTTP 503\n"
        overdue = r"timer order is overdue for \d+ s, and nobody is at work on it: " + fault
        wait_for(lambda: re.fullmatch(overdue, serve.ask("/health?prefix=order")[1]), "the fault")
        self.assertEqual(serve.ask("/health?prefix=report"), (503, fault))
        self.assertEqual(serve.metric("tvec_timers_sink_up"), 0)
        wait_for(lambda: "tvec-timers: sink: " + fault in serve.said(), "a line of the log")
        refuses = False
        self.wait_until_empty()
        self.assertEqual(serve.ask("/health"), (200, "ok\n"))
        self.assertEqual(serve.metric("tvec_timers_sink_up"), 1)
        wait_for(lambda: "tvec-timers: sink: works again\n" in serve.said(), "another")

    def test_a_hook_that_hangs_up_is_retried_once(self):
        def answer(note):
            if note["id"] == b"bad":
                raise ConnectionError  # hangs up
            time.sleep(0.2)
            return 200, {}, b""
        hook = self.hook(answer)
        serve = self.serve(hook.to, "--page", "127.0.0.1:0")
        for i in range(8):  # at a time, so that as many connections are kept
            self.put(f"good {i}", in_ms=1000)
        wait_for(lambda: serve.metric('tvec_timers_answers_total{answer="done"}') == 8, "the good ones")
        self.put("bad", "--plan", "attempts 1")
        wait_for(lambda: self.json_of("dead"), "a dead letter")
        self.assertEqual(len(hook.of(b"bad")), 2)

    def test_a_timer_refused_alone_uses_up_its_plan(self):
        hook = self.hook(lambda note: (429, {}, b"not you") if note["id"] == b"a" else (200, {}, b"{\"again\": 1000}"))
        self.put("a", "--plan", "retry fixed 10ms | attempts 2")
        self.put("other")
        self.serve(hook.to, "--lease-ms", 1000)
        [dead] = wait_for(lambda: self.json_of("dead"), "a dead letter")
        self.assertEqual((dead["id"], dead["reason"], dead["failures"]), ("a", "hook: HTTP 429: not you", 2))

    def test_a_body_after_204_doubles_no_call(self):
        hook = self.hook(lambda _: (204, {}, b"a body"))
        for i in range(20):
            self.put(f"a{i}", in_ms=1000)
        self.serve(hook.to, "--in-flight", 2)
        self.wait_until_empty()
        self.assertEqual(len(hook.notes), 20)

    def test_an_impossible_delay_in_an_answer_fails_delivery(self):
        hook = self.hook(lambda _: (200, {}, b'{"again": 18446744073709551615}'))
        self.put("a", "--plan", "retry fixed 10ms | attempts 1")
        self.serve(hook.to)
        self.assertIn("no deadline", wait_for(lambda: self.json_of("dead"), "a dead letter")[0]["reason"])

    def test_answers_are_read_as_other_languages_write_them(self):
        answers = {  # status, headers, body, what becomes of the timer
            "float": (200, {}, b'{"again": 60000.0}', "again"),
            "fraction": (200, {}, b'{"again": 59999.5}', "again"),
            "exponent": (200, {}, b'{"again": 6e4}', "again"),
            "mark": (200, {}, b'\xef\xbb\xbf {"again": 60000}', "again"),
            "date": (500, {"Retry-After": email.utils.formatdate(time.time() + 60, usegmt=True)}, b"", "hook: HTTP 500"),
            "ages": (500, {"Retry-After": "1" + "0" * 30}, b"", "hook: HTTP 500"),
            "text": (200, {}, b'{"again": "60000"}', 'hook: "again" is "60000"'),
            "negative": (200, {}, b'{"again": -1}', 'hook: "again" is -1'),
            "null": (200, {}, b'{"again": null}', 'hook: "again" is null'),
            "nested": (200, {}, b'{"again": %s%s}' % (b"[" * 32_000, b"]" * 32_000), 'hook: "again" is array'),
            "cut": (200, {}, b'{"again": 600', "hook: its answer is cut"),
            "long": (200, {}, b'{"again": 60000}'.ljust(65_535), "again"),
            "longer": (200, {}, b'{"again": 60000}'.ljust(65_536), "hook: its answer is an object of 64 KiB"),
            "longest": (200, {}, b'{"ok": true, "detail": "%s"}' % (b"x" * 1_000_000), "hook: its answer is an object of 64 KiB"),
            "late": (200, {}, b" " * 70_000 + b'{"again": 60000}', "hook: its answer is an object of 64 KiB"),
            "encoded": (200, {"Content-Encoding": "gzip"}, gzip.compress(b'{"again": 60000}'), "hook: its answer has the encoding gzip"),
            "soon": (500, {"Retry-After": "soon"}, b"", "Retry-After is neither"),
            "page": (200, {}, b"<html>" + b"x" * 1_000_000, "done"),
            "list": (200, {}, b'[{"again": 60000}]', "done"),
            "other": (200, {}, b'{"ok": true}', "done")}
        hook = self.hook(lambda note: answers[note["id"].decode()][:3])
        for name in answers:
            self.put(name, "--plan", "retry fixed 60s | attempts 5")
        self.serve(hook.to)
        for name, (*_, becomes) in answers.items():
            with self.subTest(name):
                if becomes == "done":
                    wait_for(lambda: hook.of(name.encode()) and not self.timer(name), "it is done")
                    continue
                timer = wait_for(lambda: hook.of(name.encode()) and self.timer(name), "it comes again")
                timer = wait_for(lambda: (t := self.timer(name))["due_ms"] > hook.of(name.encode())[0]["now"] and t,
                                 "it comes later")
                self.assertEqual(timer.get("reason", "")[:len(becomes)], "" if becomes == "again" else becomes)
                if name == "ages":  # the longest delay
                    self.assertGreater(timer["due_ms"] - hook.of(b"ages")[0]["now"], 86_000_000_000)

    def test_a_failure_is_retried_and_keeps_its_reason(self):
        hook = self.hook(lambda _: (500, {}, b"no such <order>\nmore"))
        self.put("a", "--plan", "retry fixed 50ms | attempts 3")
        serve = self.serve(hook.to, "--page", "127.0.0.1:0")
        [dead] = wait_for(lambda: self.json_of("dead"), "a dead letter")
        self.assertEqual((dead["reason"], dead["failures"]), ("hook: HTTP 500: no such <order>", 3))
        self.assertEqual(len(hook.notes), 3)
        self.run_tool("revive", "a")
        wait_for(lambda: len(hook.notes) > 3, "it comes again")

    def test_the_default_plan_is_for_timers_without_one(self):
        hook = self.hook(lambda _: (404, {}, b""))
        self.put("a")
        self.serve(hook.to, "--plan", "retry fixed 20ms | attempts 2")
        wait_for(lambda: self.json_of("dead"), "a dead letter")
        self.assertEqual(len(hook.notes), 2)

    def test_a_stored_rrule_is_listed_and_told(self):
        self.put("report", "--plan", "times 3", in_ms=1_000)
        self.put("other", "--plan", "times 3", in_ms=1_000_000)
        with contextlib.closing(sqlite3.connect(self.store)) as db, db:  # as 0.5.0 has stored it
            db.execute("update timer set plan = ? where id = ?", (b"rrule DTSTART=20260105T090000;FREQ=DAILY", b"report"))
        page = (pathlib.Path(__file__).parents[2] / "docs/upgrading.md").read_text()
        found = []
        for line in re.findall(r"(?m)^    (tvec-timers .*grep .*rrule.*)$", page):
            line = line.replace("tvec-timers", shlex.quote(self.tool)).replace("STORE", shlex.quote(self.store))
            done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=PATIENCE)
            found.append([line.split("\t")[1] for line in done.stdout.splitlines()])
        self.assertEqual(found, [["report"], []])  # `list`, `dead`
        hook = self.hook()
        serve = self.serve(hook.to)
        wait_for(lambda: self.json_of("dead"), "a dead letter")
        self.assertEqual([note["id"] for note in hook.notes], [b"report"])
        [letter] = self.json_of("dead")
        self.assertEqual(letter["plan"], "rrule DTSTART=20260105T090000;FREQ=DAILY")
        said = 'plan: "rrule" is a rule that this version does not have: put the timer again with cron, or with a period'
        self.assertEqual(letter["reason"], said)
        self.assertIn(f"tvec-timers: report: {said}\n", serve.said())
        self.assertEqual(self.run_tool("put", "report", "--replace", "--plan", "times 3", "--in-ms", 1_000_000), "stored\n")
        self.assertEqual(self.json_of("dead"), [])

    def test_a_hook_that_is_away_costs_no_attempt(self):
        hook = self.hook()
        hook.close()
        for i in range(50):
            self.put(f"a{i}", "--plan", "attempts 1")
        serve = self.serve(hook.to, "--attempts", 1, "--lease-ms", 3000, "--page", "127.0.0.1:0")
        wait_for(lambda: "connect" in serve.ask("/health")[1], "/health tells it")
        time.sleep(7)  # some leases
        self.assertEqual(self.json_of("stats")[0]["waiting"], 50)
        back = self.hook(port=hook.port)
        wait_for(lambda: len(back.notes) == 50, "the deliveries")
        self.assertEqual({note["attempt"] for note in back.notes}, {1})
        self.wait_until_empty()
        self.assertEqual(serve.ask("/health"), (200, "ok\n"))

    def test_health_forgets_changed_timers_of_an_absent_hook(self):
        for change in ("cancel",), ("touch", "--in-ms", 3_600_000), ("put", "--replace", "--in-ms", 3_600_000):
            with self.subTest(change[0]):
                hook = self.hook()
                hook.close()
                self.store = str(self.folder / (change[0] + ".db"))
                self.put("a")
                serve = self.serve(hook.to, "--lease-ms", 600_000, "--page", "127.0.0.1:0", "--overdue-ms", 100)
                wait_for(lambda: "timer a is overdue" in serve.ask("/health")[1], "/health tells it")
                wait_for(lambda: serve.metric("tvec_timers_sink_up") == 0, "and the metric")
                self.assertEqual(serve.ask("/health?prefix=b")[0], 503)  # the hook is away for all
                self.run_tool(change[0], "a", *change[1:])
                self.assertEqual(serve.ask("/health"), (200, "ok\n"))
                self.assertEqual(serve.metric("tvec_timers_sink_up"), 1)
                wait_for(lambda: serve.metric("tvec_timers_oldest_overdue_seconds") == 0, "the gauge")
                serve.kill()

    def test_health_names_no_timer_of_another_kind(self):
        hook = self.hanging_hook(lambda _: True)
        for n in range(3):
            self.put(f"mail-{n}")
        serve = self.serve(hook.to, "--in-flight", 2, "--lease-ms", 600_000, "--page", "127.0.0.1:0", "--overdue-ms", 100)
        wait_for(lambda: len(hook.notes) == 2, "two are with the hook")
        self.put("order")
        wait_for(lambda: "timer order is overdue" in serve.ask("/health?prefix=order")[1], "its health")
        self.assertEqual(serve.ask("/health?prefix=report"), (200, "ok\n"))

    def test_health_tells_of_refusals_that_hold_up_others(self):
        released = threading.Event()
        self.addCleanup(released.set)
        hook = self.hook(lambda note: note["id"] == b"hangs" and released.wait(PATIENCE) and None or (503, {}, b"full"))
        for name in "hangs", "full":
            self.put(name)
        serve = self.serve(hook.to, "--in-flight", 2, "--lease-ms", 600_000, "--page", "127.0.0.1:0", "--overdue-ms", 100)
        wait_for(lambda: hook.of(b"hangs") and hook.of(b"full"), "two are with the hook")
        self.put("order")
        why = r"timer order is overdue for \d+ s, and nobody is at work on it: " \
              r"--in-flight are under way before it, 1 of them refused: hook: HTTP 503\n"
        wait_for(lambda: re.fullmatch(why, serve.ask("/health?prefix=order")[1]), "its health")

    def test_health_tells_of_a_hook_that_hangs_up(self):
        def answer(_):
            raise ConnectionError
        for n in range(5):
            self.put(f"up {n}", "--plan", "retry fixed 10ms")
        serve = self.serve(self.hook(answer).to, "--page", "127.0.0.1:0", "--overdue-ms", 100)
        why = r"timer up \d is overdue for \d+ s, and nobody is at work on it: hook: it hung up\n"
        wait_for(lambda: re.fullmatch(why, serve.ask("/health")[1]), "its health")

    def test_a_hook_that_does_not_answer_has_failed(self):
        hook = self.hanging_hook()
        self.put("a", "--plan", "retry fixed 10ms | attempts 1")
        self.serve(hook.to, "--lease-ms", 300)
        [dead] = wait_for(lambda: self.json_of("dead"), "a dead letter")
        self.assertIn("imeout", dead["reason"])

    def test_a_crash_after_a_timeout_blames_no_other(self):
        def answer(note):
            if note["id"] == b"slow":
                released.wait(PATIENCE)
            elif len(hook.of(b"good")) == 1:
                raise ConnectionError  # the hook has ended: "slow" is still with it
            return 200, {}, b""
        released = threading.Event()
        self.addCleanup(released.set)
        hook = self.hook(answer)
        self.put("slow", "--plan", "retry fixed 1h | attempts 9")
        self.serve(hook.to, "--lease-ms", 5000)
        wait_for(lambda: "imeout" in self.run_tool("get", "slow"), "its request has timed out")
        self.put("good", "--plan", "attempts 1")
        wait_for(lambda: self.timer("good") is None, "the other has been delivered")
        self.assertEqual([note["attempt"] for note in hook.of(b"good")], [1, 1])
        self.assertEqual(self.json_of("dead"), [])

    def test_bad_timers_hold_up_no_others(self):
        def answer(note):
            kind = note["id"].split()[0]
            seen = len(goods)
            if kind == b"hangs":
                released.wait()
            elif kind == b"late":  # hangs up when others were answered meanwhile
                wait_for(lambda: len(goods) > seen + 1 or released.is_set(), "another timer")
            elif kind == b"good":
                goods.append(note["id"])
                return 200, {}, b""
            raise ConnectionError  # hangs up
        for number, kinds in (1, ["hangs", "up"]), (1, ["late"]), (2, ["late"]), (10, ["hangs", "late", "up"]):
            with self.subTest(f"{number} of {kinds}"):
                goods, released = [], threading.Event()
                self.addCleanup(released.set)
                hook, self.store = self.hook(answer), str(self.folder / f"{number} {kinds}.db")
                bad = [f"{kind} {n}" for n in range(number) for kind in kinds]
                for name in bad:
                    self.put(name, "--plan", "retry fixed 10ms")
                # A suspect waits for its turn behind all others, so it may be overdue: health tells of the hook here.
                serve = self.serve(hook.to, "--lease-ms", 600_000, "--in-flight", 50, "--page", "127.0.0.1:0",
                                   "--overdue-ms", 86_400_000)
                wait_for(lambda: all(hook.of(name.encode()) for name in bad), "the bad ones are with the hook")
                for n in range(5):
                    self.put(f"good {n}")
                    wait_for(lambda: len(goods) > n, "a good one is with the hook as well")
                    self.assertEqual(serve.ask("/health"), (200, "ok\n"))
                released.set()
                serve.kill()

    def test_the_in_flight_option_limits_requests(self):
        hook = self.hook(lambda _: time.sleep(0.02) or (200, {}, b""))
        for i in range(30):
            self.put(f"a{i}")
        self.serve(hook.to, "--in-flight", 3)
        wait_for(lambda: len(hook.notes) == 30, "all")
        self.assertLessEqual(hook.most_at_once, 3)
        self.assertEqual(len({note["id"] for note in hook.notes}), 30)

    def test_a_sink_that_cannot_be_is_one_line(self):
        for to in "http://example.org/", "http://127.0.0.1.example.org/", "http://127.0.0.1:80@example.org/", "stream:a", \
                "table", "unix:a", "nonsense":
            with self.subTest(to):
                said = self.run_tool("serve", "--to", to, status=1)
                self.assertRegex(said, r"\Atvec-timers: --to [^\n]+\n\Z")
        for to, shown in ("https://127.0.0.1/", "https:..."), ("nonsense", "nonsense"):
            self.assertIn(f"--to {shown}: expected stream:NAME", self.run_tool("serve", "--to", to, status=1))


class Ends(Case):
    def test_nothing_is_lost_when_it_is_killed(self):
        hook = self.hanging_hook()
        for i in range(20):
            self.put(f"a{i}")
        serve = self.serve(hook.to)
        wait_for(lambda: len(hook.notes) == 20, "all are with the hook")
        serve.kill()
        self.serve(hook.to)
        wait_for(lambda: len(hook.notes) == 40, "all come again")
        self.wait_until_empty()
        self.assertEqual({note["attempt"] for note in hook.notes[20:]}, {2})

    def test_sigterm_waits_for_the_hook(self):
        hook = self.hook(lambda _: time.sleep(0.5) or (200, {}, b""))
        self.put("a")
        self.put("later", in_ms=1_000_000)
        serve = self.serve(hook.to)
        wait_for(lambda: hook.notes, "it is with the hook")
        self.assertEqual(serve.end(), 0)
        self.assertEqual([timer["id"] for timer in self.json_of("list")], ["later"])

    def test_sigterm_waits_no_longer_than_it_may(self):
        hook = self.hanging_hook()
        self.put("a")
        serve = self.serve(hook.to, "--drain-ms", 200)
        wait_for(lambda: hook.notes, "it is with the hook")
        self.assertEqual(serve.end(), 1)
        self.assertIn("1 deliveries had no end yet", serve.said())
        self.serve(hook.to)
        wait_for(lambda: len(hook.notes) == 2, "it comes again")

    def test_a_second_sigterm_ends_it_at_once(self):
        hook = self.hanging_hook()
        self.put("a")
        serve = self.serve(hook.to, "--drain-ms", 600_000)
        wait_for(lambda: hook.notes, "it is with the hook")
        serve.signal(signal.SIGTERM)
        time.sleep(0.1)
        self.assertEqual(serve.end(), 1)

    def test_systemd_is_told_when_it_is_ready(self):
        with datagrams(self.folder / "notify") as notify:
            serve = self.start("http://127.0.0.1:1/", environment={"NOTIFY_SOCKET": str(self.folder / "notify")})
            self.assertEqual(notify.recv(100), b"READY=1")
            serve.signal(signal.SIGTERM)
            self.assertEqual(notify.recv(100), b"STOPPING=1")


class Views(Case):
    def test_commands_reach_the_file_while_it_is_served(self):
        hook = self.hook()
        self.serve(hook.to)
        self.assertEqual(self.run_tool("put", "a", "--in-ms", 1_000_000), "stored\n")
        self.assertEqual(self.run_tool("put", "a", status=1), "there_already\n")
        self.assertEqual(self.run_tool("touch", "a", "--in-ms", 2_000_000), "touched\n")
        self.assertIn("\ta\t", self.run_tool("near"))
        self.assertIn("no timer waits", self.run_tool("get", "none", status=1))
        self.assertEqual(self.run_tool("cancel", "--prefix", "a"), "1 timer\n")
        self.assertTrue(self.run_tool("stats").startswith("waiting 0\n"))
        self.run_tool("put", "now")
        wait_for(lambda: hook.notes, "what is put by a command is delivered at once")

    def test_only_its_user_reaches_the_socket(self):
        serve = self.serve("http://127.0.0.1:1/")
        there = os.stat(self.store + ".socket")
        self.assertTrue(stat.S_ISSOCK(there.st_mode))
        self.assertEqual(stat.S_IMODE(there.st_mode), 0o600)
        self.assertEqual(serve.end(), 0)
        self.assertFalse(os.path.exists(self.store + ".socket"))
        self.run_tool("stats")

    def test_a_socket_that_was_left_is_replaced(self):
        self.serve("http://127.0.0.1:1/").kill()
        self.assertTrue(os.path.exists(self.store + ".socket"))
        self.assertTrue(self.run_tool("put", "a", "--in-ms", 1_000_000), "nobody listens there: the file is opened")
        self.serve("http://127.0.0.1:1/")
        self.assertTrue(self.run_tool("stats").startswith("waiting 1\n"))

    def test_a_long_list_passes_the_socket(self):
        self.serve("http://127.0.0.1:1/")
        name = "x" * 240
        self.run_tool("put", name, "--in-ms", 1_000_000, "--body", "b" * 100_000)
        self.assertEqual(len(self.run_tool("get", name)), 100_000 + len(self.run_tool("list")) + 1)

    def test_nonsense_at_the_socket_does_no_harm(self):
        self.serve("http://127.0.0.1:1/")
        for said in b"\xff\xff\xff\xff", b"\x01\x00\x00\x00\xff", b"\x03\x00\x00\x00abc", b"", b"\x01", \
                b"\x10\x00\x00\x00\x81\xa7command\xa5serve":
            with self.subTest(said), socket.socket(socket.AF_UNIX) as s:
                s.connect(self.store + ".socket")
                s.sendall(said)
                s.shutdown(socket.SHUT_WR)
                s.settimeout(PATIENCE)
                while s.recv(1000):
                    pass
        self.assertTrue(self.run_tool("stats").startswith("waiting 0\n"))


class Page(Case):
    def setUp(self):
        super().setUp()
        self.fails = True
        self.posts = self.hook(lambda _: (500, {}, b"<script>alert(1)</script>") if self.fails else (200, {}, b""))
        self.page = self.serve(self.posts.to, "--page", "127.0.0.1:0", "--plan", "retry fixed 10ms | attempts 1")

    def test_health_is_200_while_it_delivers(self):
        self.assertEqual(self.page.ask("/health"), (200, "ok\n"))

    def test_health_is_503_while_it_stops(self):
        self.fails = False
        self.posts.close()
        hang = socket.create_server(("127.0.0.1", self.posts.port))
        self.addCleanup(hang.close)
        self.put("a")
        wait_for(lambda: " 1\n" in re.findall(r"tvec_timers_held \d+\n", self.page.ask("/metrics")[1])[0], "held")
        self.page.signal(signal.SIGTERM)
        self.assertEqual(wait_for(lambda: self.page.ask("/health")[0] == 503 and self.page.ask("/health"), "503"),
                         (503, "it is stopping\n"))

    def test_metrics_are_in_the_format_of_prometheus(self):
        self.put("a")
        wait_for(lambda: self.posts.notes, "a delivery")
        wait_for(lambda: 'tvec_timers_answers_total{answer="failed"} 1\n' in self.page.ask("/metrics")[1], "the count")
        status, text = self.page.ask("/metrics")
        self.assertEqual(status, 200)
        named = set()
        for line in text.splitlines():
            self.assertRegex(line, r'\A(# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [-+.e\dInf]+)\Z')
            if line.startswith("# TYPE"):
                self.assertNotIn(line.split()[2], named)
                named.add(line.split()[2])
            elif not line.startswith("#"):
                name = re.split(r"[{ ]", line)[0]
                self.assertTrue({name, re.sub("_(bucket|sum|count)$", "", name)} & named, line)

    def test_the_page_offers_only_metrics_and_health(self):
        self.put("a", in_ms=1_000_000)
        for path in "/", "/stats", "/near", "/overdue", "/dead", "/purge":
            self.assertEqual(self.page.ask(path), (404, f"there is no {path}\n"))
        self.assertEqual(len(self.json_of("list")), 1)

    def test_the_page_changes_nothing_and_refuses_other_sites(self):
        self.put("a", in_ms=1_000_000)
        port = self.page.address().rstrip("/").rsplit(":", 1)[1]
        for path in "/", "/metrics", "/health":
            self.assertEqual(self.page.ask(path, Host=f"evil.example:{port}")[0], 403)
            for method in "POST", "PUT", "DELETE":
                self.assertEqual(self.page.ask(path, method, "id=a")[0], 405)
        self.assertEqual(len(self.json_of("list")), 1)

    def test_head_is_answered_as_get_without_a_body(self):
        for path in "/health", "/metrics":
            self.assertEqual(self.page.ask(path, "HEAD"), (200, ""))

    def raw(self, request):
        """Sends these bytes to the page, and reads its answer for a second at most: it may wait for more."""
        place = urllib.parse.urlsplit(self.page.address())
        with socket.create_connection((place.hostname, place.port), PATIENCE) as s:
            s.settimeout(1)
            try:
                s.sendall(request)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65_536):
                    pass
            except OSError:
                pass

    def test_no_request_ends_the_service(self):
        for line in b"GET ? HTTP/1.1", b"GET ?a=b HTTP/1.1", b"GET  HTTP/1.1", b"POST ? HTTP/1.0", b"? ? ?":
            self.raw(line + b"\r\n\r\n")
        seed = int(os.environ.get("TVEC_SEED", random.randrange(1 << 30)))
        chance = random.Random(seed)
        host = urllib.parse.urlsplit(self.page.address()).netloc.encode()
        words = [b"GET", b"POST", b"HEAD", b"PUT", b"/", b"?", b"*", b"/dead", b"/purge", b"/health", b"//", b"/%00", b"a",
                 b"HTTP/1.1", b"HTTP/1.0", b"HTTP/9", b"http://" + host + b"/", b"", b"\x00", b"\xff" * 20, b"/" + b"y" * 5_000]
        heads = [b"Host: " + host, b"Host:", b"Content-Length: 5", b"Content-Length: -1", b"Content-Length: 99999999999999999999",
                 b"Transfer-Encoding: chunked", b"Origin: http://" + host, b"Expect: 100-continue", b":", b"X" * 9_000, b"\xfe: \x01"]
        for round in range(1_500):
            request = b" ".join(chance.choice(words) for _ in range(chance.randrange(1, 5))) + b"\r\n"
            request += b"".join(chance.choice(heads) + b"\r\n" for _ in range(chance.randrange(4))) + b"\r\n"
            request += chance.randbytes(chance.randrange(8))
            if chance.random() < 0.3:
                request = request[:chance.randrange(len(request))]
            self.raw(request)
            self.assertIsNone(self.page.process.poll(), f"TVEC_SEED={seed}, round {round}: {request}\n{self.page.said()}")
        self.assertEqual(self.page.ask("/health")[0], 200)

    def half_requests(self, number):
        """Connections to the page and to the socket beside the file that say a part of a request, and more each second."""
        place, all, ends = urllib.parse.urlsplit(self.page.address()), [], threading.Event()
        for _ in range(number):
            web, local = socket.create_connection((place.hostname, place.port), PATIENCE), socket.socket(socket.AF_UNIX)
            all += [web, local]
            local.connect(self.store + ".socket")  # without a timeout: with one, a full queue is an error
            local.settimeout(PATIENCE)
            web.sendall(b"GET /health HTTP/1.1\r\nX: ")
            local.sendall(b"\x10\0\1")

        def go_on():
            while not ends.wait(1):
                for s in all[::2]:
                    with contextlib.suppress(OSError):
                        s.sendall(b"a")
            for s in all:
                s.close()
        thread = threading.Thread(target=go_on)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(ends.set)

    def test_half_requests_keep_nobody_out(self):
        for _ in range(3):
            self.half_requests(70)
            self.assertEqual(self.page.ask("/health"), (200, "ok\n"))
            self.assertTrue(self.run_tool("stats").startswith("waiting 0\n"))

    def cpu(self):
        return sum(map(int, pathlib.Path(f"/proc/{self.page.process.pid}/stat").read_text().rsplit(")")[1].split()[11:13]))

    def test_it_waits_for_descriptors_and_does_not_spin(self):
        pid = self.page.process.pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        most = max(map(int, os.listdir(f"/proc/{pid}/fd"))) + 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, hard))
        self.half_requests(20)
        before = self.cpu()
        time.sleep(1)
        self.assertLess(self.cpu() - before, os.sysconf("SC_CLK_TCK") / 10, "it spins")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
        self.assertEqual(self.page.ask("/health"), (200, "ok\n"))
        self.assertTrue(self.run_tool("stats").startswith("waiting 0\n"))

    def test_it_is_on_this_machine_only(self):
        for address in "0.0.0.0:0", "8000", "localhost", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999":
            with self.subTest(address):
                self.store = str(self.folder / "another.db")
                said = self.run_tool("serve", "--to", self.posts.to, "--page", address, status=1)
                self.assertRegex(said, r"\Atvec-timers: --page [^\n]+\n\Z")

    def test_it_may_be_at_a_unix_socket(self):
        path = self.folder / "page"
        self.store = str(self.folder / "another.db")
        serve = self.serve(self.posts.to, "--page", path)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(path))
            s.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            self.assertRegex(s.recv(1000), rb"\AHTTP/1\.\d 200 ")
        self.store = str(self.folder / "a third.db")
        said = self.run_tool("serve", "--to", self.posts.to, "--page", path, status=1)
        self.assertRegex(said, r"\Atvec-timers: --page [^\n]+ another process listens there[^\n]+\n\Z")
        self.assertEqual(serve.end(), 0)
        self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
