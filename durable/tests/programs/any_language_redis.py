#!/usr/bin/python3
"""Uses durable timers on a Redis server from Python, by the functions of using.md alone.

usage: any_language_redis.py TO_BE_KILLED PAGE
"""

import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import redis
except ImportError:
    print("python3-redis is not installed")
    sys.exit(77)

from redis_server import Server

PROGRAM, PAGE = sys.argv[1:3]
LATEST = 253402300799999


def formula_of_the_page():
    """Runs the Python of the page. Returns the function that it defines."""
    text = pathlib.Path(PAGE).read_text(encoding="utf-8")
    part = text[text.index("\n## Redis"):]
    names = {}
    exec(re.search(r"```python\n(.*?)```", part, re.S)[1], names)  # the page of this repository
    return names["shard_tag"]


class AnyLanguage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tvec-durable-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.server = Server(self.folder, "server")
        self.addCleanup(self.server.kill)
        self.link = redis.Redis(unix_socket_path=str(self.server.socket))
        self.addCleanup(self.link.close)
        self.run_process().wait(30)  # opens the set, finds no timer and ends

    def run_process(self, **more):
        """Starts a process in C++ that owns the shards, and ends once the set is empty."""
        words = [PROGRAM, f"redis:{self.server.socket}", self.folder / "log", "1", "--finish"]
        process = subprocess.Popen(list(map(str, words)), env=dict(os.environ, **more))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def call(self, name, *words, key="tvec"):
        answer = self.link.execute_command("FCALL", "tvec_" + name, 1, key, *words)
        return answer.decode() if isinstance(answer, bytes) else answer

    def find(self, timer):
        answer = self.call("find", timer)
        return answer and dict(zip((name.decode() for name in answer[::2]), answer[1::2]))

    def refusal(self, name, *words, key="tvec"):
        with self.assertRaises(redis.ResponseError) as caught:
            self.call(name, *words, key=key)
        return str(caught.exception)

    def delivered(self, timer, attempt):
        """Waits until the process in C++ has delivered that attempt."""
        for _ in range(2000):
            log = self.folder / "log"
            if log.exists() and f"F {timer} {attempt} " in log.read_text():
                return
            time.sleep(0.01)
        self.fail(f"{timer} was not delivered")

    def now(self):
        seconds, microseconds = self.link.time()
        return seconds * 1000 + microseconds // 1000

    def test_a_timer_is_put_found_touched_and_cancelled(self):
        self.assertEqual(self.call("put", "a", LATEST, b"\0body\xff"), "stored")
        self.assertEqual(self.call("put", "a", 1, ""), "there_already")
        self.assertEqual(self.call("put", "b", 5, "", "every", 1000, "plan", "p", "existing", "keep"), "stored")
        self.assertEqual(self.find("a"), {
            "id": b"a", "due": LATEST, "every": 0, "attempt": 0, "ended": 0, "spent": 0, "body": b"\0body\xff",
            "plan": b"", "history": b"", "verdict": b""})
        self.assertEqual(self.find("b")["every"], 1000)
        self.assertEqual(self.find("b")["plan"], b"p")
        self.assertEqual(self.call("touch", "a", 7), "touched")
        self.assertEqual(self.find("a")["due"], 7)
        self.assertEqual(self.call("cancel", "a"), "cancelled")
        self.assertEqual(self.call("cancel", "a"), "unknown_id")
        self.assertEqual(self.call("touch", "a", 7), "unknown_id")
        self.assertIsNone(self.find("a"))

    def test_a_put_reports_whether_it_replaced_a_timer(self):
        self.call("put", "a", 1000, "")
        for how, due, answer in [("sooner", 1000, "there_already"), ("sooner", 999, "stored"),
                                 ("later", 999, "there_already"), ("later", 1000, "stored"),
                                 ("keep", 1, "there_already"), ("replace", 1, "stored")]:
            with self.subTest(how, due=due):
                self.assertEqual(self.call("put", "a", due, how, "existing", how), answer)
                self.assertEqual(self.find("a")["body"] == how.encode(), answer == "stored")

    def test_a_plan_supplies_a_missing_deadline(self):
        before = self.now()
        self.assertEqual(self.call("put", "a", "", "", "plan", "at noon"), "stored")
        timer = self.find("a")
        self.assertEqual(timer["verdict"], b"first")
        self.assertTrue(before <= timer["due"] <= self.now())
        self.call("touch", "a", 9)
        self.assertEqual(self.find("a")["verdict"], b"")

    def test_cpp_delivers_timers_that_python_puts_and_ends(self):
        soon = self.now() + 300
        for timer in "done", "again", "failed", "gone":
            self.call("put", timer, soon, "bbbb")
        process = self.run_process(TVEC_LEAVES_ENDS="1")
        for timer in "done", "again", "failed", "gone":
            self.delivered(timer, 1)
        for timer in "done", "again", "failed", "gone":
            self.assertEqual(self.call("extend", timer, 1, 60000), "ok")
        self.assertEqual(self.call("cancel", "gone"), "had_begun")
        self.assertEqual(self.call("done", "done", 1), "ok")
        self.assertEqual(self.call("done", "done", 1), "stale")
        self.assertEqual(self.call("extend", "done", 1, 1), "stale")
        self.assertEqual(self.call("again", "again", 2, 1), "stale")
        self.assertEqual(self.call("again", "again", 1, self.now() + 100), "ok")
        self.assertEqual(self.call("failed", "failed", 1, "no room"), "ok")
        self.assertEqual(self.call("failed", "failed", 1, "no room"), "stale")
        self.delivered("again", 2)
        self.assertEqual(self.call("done", "again", 2), "ok")
        self.call("put", "late", self.now() + 100, "bbbb")
        attempt = self.find("late")["ended"] + 1
        self.delivered("late", attempt)
        self.assertEqual(self.call("done", "late", attempt), "ok")
        self.assertIn(self.call("cancel", "failed"), ["cancelled", "had_begun"])
        self.assertEqual(process.wait(30), 0)

    def test_a_plan_retries_failures_reported_by_python(self):
        self.assertEqual(self.call("put", "a", "", "bbbb", "plan", "retry fixed 100ms|attempts 3"), "stored")
        process = self.run_process(TVEC_LEAVES_ENDS="1")
        for attempt in 2, 4, 6:  # a claim that applies the plan takes an attempt as well
            self.delivered("a", attempt)
            self.assertEqual(self.call("extend", "a", attempt, 60000), "ok")
            self.assertEqual(self.call("failed", "a", attempt, "no room"), "ok")
        self.assertEqual(process.wait(30), 0)
        self.assertEqual(self.call("put", "a", 1, ""), "dead")

    def test_a_failure_is_noted_for_the_plan(self):
        self.call("put", "a", self.now(), "bbbb")
        process = self.run_process(TVEC_LEAVES_ENDS="1")
        self.delivered("a", 1)
        self.call("extend", "a", 1, 60000)
        process.kill()
        process.wait()
        self.assertEqual(self.call("failed", "a", 1, b"no\0room" + b"x" * 1000), "ok")
        self.assertEqual(self.find("a")["verdict"], b"failed no\0room" + b"x" * 493)
        self.assertEqual((self.find("a")["attempt"], self.find("a")["ended"]), (1, 1))

    def test_errors_of_calls_name_the_expected_arguments(self):
        usage = "expected KEY id due body [every MS] [existing keep|replace|sooner|later] [plan TEXT]"
        milliseconds = f"expected a whole number from 0 to {LATEST}, milliseconds since 1970"
        opened = "so a process, or tvec-timers install, has to open the set once"
        tag = formula_of_the_page()("tvec", 6, b"a")
        other = "{tvec:0}" if tag != "{tvec:0}" else "{tvec:1}"
        for error, key, *words in [
                (f"1 keys and 2 arguments: {usage}", "tvec", "put", "a", 1),
                ("1 keys and 0 arguments: expected KEY id", "tvec", "cancel"),
                ("1 keys and 2 arguments: expected KEY id", "tvec", "find", "a", "b"),
                ("1 keys and 1 arguments: expected KEY id due", "tvec", "touch", "a"),
                ("1 keys and 1 arguments: expected KEY id attempt", "tvec", "done", "a"),
                ("1 keys and 2 arguments: expected KEY id attempt due", "tvec", "again", "a", 1),
                ("1 keys and 2 arguments: expected KEY id attempt reason", "tvec", "failed", "a", 1),
                ("1 keys and 2 arguments: expected KEY id attempt lease_ms", "tvec", "extend", "a", 1),
                ("id has 0 bytes: expected 1 to 255", "tvec", "put", "", 1, ""),
                ("id has 256 bytes: expected 1 to 255", "tvec", "find", "a" * 256),
                ("body has 1048577 bytes: expected 0 to 1048576", "tvec", "put", "a", 1, "b" * 1048577),
                (f"due is 'x?y': {milliseconds}", "tvec", "put", "a", "x\ny", ""),
                (f"due is '{'1' * 40}': {milliseconds}", "tvec", "put", "a", "1" * 50, ""),
                (f"due is '{LATEST + 1}': {milliseconds}", "tvec", "touch", "a", LATEST + 1),
                (f"due is '-1': {milliseconds}", "tvec", "again", "a", 1, -1),
                ("due is empty: expected milliseconds since 1970, or a plan", "tvec", "put", "a", "", ""),
                ("due is empty: expected a deadline for existing sooner",
                 "tvec", "put", "a", "", "", "plan", "p", "existing", "sooner"),
                (f"every is '1.5': expected a whole number from 0 to {LATEST}, milliseconds",
                 "tvec", "put", "a", 1, "", "every", 1.5),
                (f"every is '{LATEST}': expected a beat before the end of the year 9999",
                 "tvec", "put", "a", 1, "", "every", LATEST),
                ("existing is 'any': expected keep, replace, sooner or later",
                 "tvec", "put", "a", 1, "", "existing", "any"),
                ("plan has 1001 bytes: expected 0 to 1000", "tvec", "put", "a", 1, "", "plan", "p" * 1001),
                ("option 'after': expected every, existing or plan", "tvec", "put", "a", 1, "", "after", 1),
                ("option every has no value: expected one behind it", "tvec", "put", "a", 1, "", "every"),
                ("attempt is '0': expected a whole number from 1 to 4294967295", "tvec", "done", "a", 0),
                ("lease_ms is '0': expected a whole number from 1 to 86400000000, milliseconds",
                 "tvec", "extend", "a", 1, 0),
                ("there is no set 'other': expected one that a process, or tvec-timers install, has opened",
                 "other", "find", "a"),
                ("KEY is 't{': expected the name of the set, or the tag of a shard such as {tvec:5}", "t{", "find", "a"),
                ("KEY is '': expected the name of the set, or the tag of a shard such as {tvec:5}", "", "find", "a"),
                (f"KEY is '{other}', and the id is in shard {tag[6:-1]} of 6: expected {tag}", other, "find", "a"),
                (f"shard {{tvec:6}} is of version none: expected 8, {opened}", "{tvec:6}", "find", "a")]:
            with self.subTest(error):
                self.assertEqual(self.refusal(*words, key=key), "tvec: " + error)
        self.link.hset(tag + ":own", "v", 3)
        self.assertEqual(self.refusal("find", "a"), f"tvec: shard {tag} is of version 3: expected 8, {opened}")
        self.link.set("{tvec:6}:own", "something else")
        self.assertIn("WRONGTYPE", self.refusal("find", "a", key="{tvec:6}"))
        with self.assertRaisesRegex(redis.ResponseError, "2 keys and 1 arguments: expected KEY id"):
            self.link.execute_command("FCALL", "tvec_find", 2, "tvec", "tvec", "a")
        self.assertEqual(self.link.keys("{tvec:*}:timer"), [])

    def test_the_documented_formula_finds_each_timers_shard(self):
        shard_tag, numbers = formula_of_the_page(), random.Random(1)
        for _ in range(300):
            timer = numbers.randbytes(numbers.randint(1, 40))
            tag = shard_tag("tvec", int(self.link.hget("{tvec}:meta", "shards")), timer)
            self.assertEqual(self.call("put", timer, 1, "", key=tag), "stored")
            self.assertEqual(self.call("cancel", timer), "cancelled")

    def test_the_functions_tell_their_version(self):
        self.assertEqual(self.link.execute_command("FCALL", "tvec_version", 0), 8)
        self.assertEqual(self.link.execute_command("FCALL_RO", "tvec_find", 1, "tvec", "a"), None)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
