#!/usr/bin/env python3
"""Asks tvec-timers for all that it can do, and for what it cannot.

usage: durable_tool.py TVEC_TIMERS PAGE
"""

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import unittest

import postgres_server
from children import PATIENCE
from redis_server import Server

KEPT_SHARDS = "tvec-timers: the timers there keep their 3 shards: expected a new set for --shards 5\n"
TOOL, PAGE = (str(pathlib.Path(name).resolve()) for name in sys.argv[1:3])  # some tests run it elsewhere


class Tool(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tvec-durable-")
        self.addCleanup(folder.cleanup)
        self.store = pathlib.Path(folder.name) / "timers.db"

    def run_tool(self, *words, status=0):
        done = subprocess.run([TOOL, "--store", self.store, *map(str, words)], capture_output=True,
                              text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, status, done)
        self.stderr = done.stderr
        if status != 0 and not done.stdout:
            self.assertRegex(done.stderr, r"\Atvec-timers: [^\n]+\n\Z")
        return done.stdout

    def make_store(self):
        self.run_tool("put", "first", "--in-ms", 1000000)
        self.run_tool("cancel", "first")

    def test_the_man_page_names_every_option_and_command(self):
        said = subprocess.run([TOOL, "--help"], capture_output=True, text=True, timeout=PATIENCE).stdout
        page = pathlib.Path(PAGE).read_text().replace("\\-", "-")
        options = set(re.findall(r"--[a-z-]+", said))
        self.assertEqual(options, set(re.findall(r"--[a-z-]+", page)))
        for command in re.search(r"\{([a-z,]+)\}", said)[1].split(","):
            self.assertRegex(page, rf"(?m)^\.B[RI]* {command}\b")

    def test_the_manual_names_each_operation_on_a_timer(self):
        header = pathlib.Path(PAGE).parents[1] / "include/tvec/durable/store.hpp"
        names = re.findall(r' name = "(\w+)"', header.read_text())
        self.assertIn("cancel", names)
        for name in names:
            self.assertRegex(pathlib.Path(PAGE).read_text(), rf"\.BI {name} ")

    def test_stored_timers_are_listed_and_shown(self):
        self.assertEqual(self.run_tool("put", "b", "--due-ms", 4102444800000, "--body", "text\n"), "stored\n")
        self.run_tool("put", "a", "--due-ms", 4102444799999, "--every-ms", 60000)
        lines = self.run_tool("list").splitlines()
        self.assertEqual(lines[0], "2099-12-31T23:59:59.999Z\ta\tevery 60000 ms\tattempt 0\t0 bytes")
        self.assertEqual(len(lines), 2)
        self.assertEqual(len(self.run_tool("list", "--limit", 1).splitlines()), 1)
        self.assertTrue(self.run_tool("get", "b").endswith("\t5 bytes\ntext\\x0a\n"))
        self.assertEqual(self.run_tool("stats"), "waiting 2\ndead 0\nnext 2099-12-31T23:59:59.999Z\n")

    def test_a_second_put_needs_to_replace(self):
        self.run_tool("put", "a", "--in-ms", 1000000)
        self.assertEqual(self.run_tool("put", "a", status=1), "there_already\n")
        self.assertEqual(self.run_tool("put", "a", "--replace"), "stored\n")

    def test_a_cancelled_timer_is_gone(self):
        self.run_tool("put", "a", "--in-ms", 1000000)
        self.assertEqual(self.run_tool("cancel", "a"), "cancelled\n")
        self.assertEqual(self.run_tool("cancel", "a", status=1), "unknown_id\n")
        self.run_tool("get", "a", status=1)

    def test_the_dead_are_listed_and_put_back(self):
        self.make_dead("a")
        self.assertIn("\ta\tattempt 5\t", self.run_tool("dead"))
        self.assertEqual(self.run_tool("revive", "a", "--in-ms", 1000000), "revived\n")
        self.assertEqual(self.run_tool("revive", "a", status=1), "unknown_id\n")
        self.assertEqual(self.run_tool("stats").splitlines()[:2], ["waiting 1", "dead 0"])

    def make_dead(self, *ids):
        self.make_store()
        with sqlite3.connect(self.store) as db:
            db.executemany("insert into dead(id, due, body, every, attempt, ended)"
                           " values(cast(? as blob), 0, x'', 0, 5, 2)", ((i,) for i in ids))
        db.close()

    def test_all_of_a_prefix_are_changed(self):
        self.make_dead("a/1", "a/2", "b/1")
        self.assertEqual(self.run_tool("revive", "--prefix", "a/", "--in-ms", 1000000), "2 timers\n")
        self.assertEqual(len(self.run_tool("list", "--prefix", "a/").splitlines()), 2)
        self.assertEqual(self.run_tool("list", "--prefix", "b/"), "")
        self.assertEqual(self.run_tool("purge", "--prefix", "b/"), "1 timer\n")
        self.assertEqual(self.run_tool("cancel", "--prefix", "a/"), "2 timers\n")
        self.assertEqual(self.run_tool("stats").splitlines()[:2], ["waiting 0", "dead 0"])

    def test_a_purge_by_prefix_exceeds_one_page(self):
        self.make_dead(*(f"a/{i}" for i in range(2500)))
        self.assertEqual(self.run_tool("purge", "--prefix", "a/"), "2500 timers\n")

    def test_a_purge_of_all_takes_every_dead_letter(self):
        self.make_dead("a", "b")
        self.run_tool("put", "c", "--in-ms", 1000000)
        for words in (["cancel"], ["purge", "a"], ["purge", "--prefix", "a"]):
            self.run_tool(*words, "--all", status=2)
        self.assertEqual(self.run_tool("purge", "--all"), "2 timers\n")
        self.assertEqual(self.run_tool("stats").splitlines()[:2], ["waiting 1", "dead 0"])

    def test_the_version_is_printed(self):
        said = subprocess.run([TOOL, "--version"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertRegex(said.stdout, r"\Atvec-timers \d+\.\d+\.\d+\n\Z")
        self.assertEqual((said.returncode, said.stderr), (0, ""))

    def test_a_purge_takes_no_timer_that_waits(self):
        self.make_dead("a")
        self.run_tool("put", "b", "--in-ms", 1000000)
        self.assertEqual(self.run_tool("purge", "b", status=1), "waits\n")
        self.assertEqual(self.run_tool("purge", "a"), "purged\n")
        self.assertEqual(self.run_tool("stats").splitlines()[:2], ["waiting 1", "dead 0"])

    def test_near_and_overdue_are_both_sides_of_now(self):
        self.run_tool("put", "old", "--due-ms", 1000)
        self.run_tool("put", "new", "--in-ms", 1000000)
        self.assertIn("\told\t", self.run_tool("overdue"))
        self.assertNotIn("\tnew\t", self.run_tool("overdue"))
        self.assertIn("\tnew\t", self.run_tool("near"))
        self.assertNotIn("\told\t", self.run_tool("near"))
        self.assertIn("overdue old since 1970-01-01T00:00:01.000Z\n", self.run_tool("stats"))

    def test_a_touch_moves_the_deadline(self):
        self.run_tool("put", "a", "--in-ms", 1000000, "--body", "b")
        self.assertEqual(self.run_tool("touch", "a", "--due-ms", 4102444800000), "touched\n")
        self.assertTrue(self.run_tool("get", "a").startswith("2100-01-01T00:00:00.000Z\t"))
        self.assertEqual(self.run_tool("touch", "none", status=1), "unknown_id\n")

    def json_of(self, *words, status=0):
        return [json.loads(line) for line in self.run_tool(*words, "--json", status=status).splitlines()]

    def test_json_has_stable_names(self):
        self.make_dead("dead")
        self.assertEqual(self.json_of("put", "a", "--due-ms", 4102444800000, "--body", "ü"), [{"result": "stored"}])
        self.assertEqual(self.json_of("put", "a", status=1), [{"result": "there_already"}])
        timer = {"id": "a", "due": "2100-01-01T00:00:00.000Z", "due_ms": 4102444800000, "every_ms": 0,
                 "attempts": 0, "body_bytes": 2}
        self.assertEqual(self.json_of("list"), [timer])
        self.assertEqual(self.json_of("get", "a"), [{**timer, "body": "ü"}])
        self.assertEqual(self.json_of("stats"), [{"waiting": 1, "dead": 1, "damaged": 0, "overdue_ms": 0,
                                                  "next_due_ms": 4102444800000, "broken_connections": {}}])
        self.assertEqual(self.json_of("dead")[0]["reason"], "")
        self.assertEqual(self.json_of("cancel", "a"), [{"result": "cancelled"}])
        self.assertEqual(self.json_of("purge", "--prefix", "d"), [{"changed": 1, "unknown": 0}])

    def test_a_plan_is_read_before_it_is_stored(self):
        self.assertEqual(self.run_tool("put", "a", "--plan", "retry fixed 30s | attempts 5"), "stored\n")
        self.assertEqual(self.json_of("get", "a")[0]["plan"], "retry fixed 30s | attempts 5")
        self.assertIn("\t0 bytes\tplan retry fixed 30s | attempts 5\n", self.run_tool("list"))
        self.assertEqual(self.run_tool("put", "b", "--plan", "retry sometimes", status=1), "")
        self.assertEqual(self.run_tool("get", "b", status=1), "")

    def test_a_rule_decides_the_first_deadline(self):
        self.make_store()
        done = subprocess.run([TOOL, "--store", self.store, "put", "a", "--plan", "cron 30 9 * * *"], text=True,
                              capture_output=True, timeout=PATIENCE)
        if "calendar" in done.stderr:
            self.skipTest("built without cctz")
        self.assertEqual(done.stdout, "stored\n")
        self.assertTrue(self.json_of("get", "a")[0]["due"].endswith("T09:30:00.000Z"))
        self.run_tool("put", "b", "--plan", "cron 30 9 * * *", "--due-ms", 4102444800000)
        self.assertEqual(self.json_of("get", "b")[0]["due_ms"], 4102444800000)
        for words in [["--plan", "cron 0 0 9 5 1 * 2020"],
                      ["--plan", "cron 0 9 * * * | until 2020-01-01"],
                      ["--plan", "cron 0 9 * * *", "--every-ms", 5]]:
            with self.subTest(words):
                self.assertEqual(self.run_tool("put", "c", *words, status=1), "")

    def test_next_shows_ten_times_of_a_rule(self):
        def next_of(*words):
            return subprocess.run([TOOL, "next", *words], capture_output=True, text=True, timeout=30)
        said = next_of("cron 0 9 1 1 * | zone Europe/Berlin")
        if "calendar" in said.stderr:
            self.skipTest("built without cctz")
        times = said.stdout.splitlines()
        self.assertEqual([time[4:] for time in times], ["-01-01T08:00:00.000Z"] * 10)
        self.assertEqual([int(time[:4]) - int(times[0][:4]) for time in times], list(range(10)))
        [last] = next_of("cron 0 0 31 12 * | until 9999-12-31T00:00:00Z | times 3", "--json").stdout.splitlines()[9:]
        self.assertEqual(json.loads(last).keys(), {"due", "due_ms"})
        self.assertLess(len(next_of("cron 0 0 0 1 1 * 2100-2102").stdout.splitlines()), 10)
        for plan, words in (("retry fixed 1s", "expected a rule"), ("cron x", "expected five fields"),
                            ("cron 0 0 0 1 1 mon-sun 2001", "still to come")):
            refused = next_of(plan)
            self.assertEqual((refused.returncode, refused.stdout), (1, ""))
            self.assertRegex(refused.stderr, rf"\Atvec-timers: next {plan}: .*{words}.*\n\Z")
        self.assertEqual(next_of("").returncode, 2)
        self.assertEqual(subprocess.run([TOOL, "stats"], capture_output=True, timeout=30).returncode, 2)

    def test_binary_ids_are_base64_in_json(self):
        for length in range(1, 7):
            odd = bytes(range(0x80, 0x80 + length)) + b"\xff"
            self.run_tool("put", os.fsdecode(odd), "--in-ms", 1000000)
            [timer] = self.json_of("list")
            self.assertEqual(base64.b64decode(timer["id_base64"], validate=True), odd)
            self.run_tool("cancel", os.fsdecode(odd))

    def test_more_than_a_page_is_listed(self):
        self.make_store()
        with sqlite3.connect(self.store) as db:
            db.executemany("insert into timer(id, due, body) values(cast(? as blob), 1, x'')",
                           ((str(i),) for i in range(2500)))
        db.close()
        self.assertEqual(len(set(self.run_tool("list", "--limit", 5000).splitlines())), 2500)

    def test_only_put_makes_a_store(self):
        for words in [["stats"], ["list"], ["dead"], ["get", "a"], ["cancel", "a"], ["revive", "a"],
                      ["install"]]:
            with self.subTest(words):
                self.store.unlink(missing_ok=True)
                self.assertEqual(self.run_tool(*words, status=1), "")
                self.assertFalse(self.store.exists())
                self.store.touch()
                self.assertEqual(self.run_tool(*words, status=1), "")
                self.assertEqual(self.store.stat().st_size, 0)
        self.run_tool("put", "a")
        self.run_tool("stats")

    def test_a_store_without_a_name_is_a_mistake(self):
        self.store = ""
        self.assertEqual(self.run_tool("stats", status=1), "")
        self.assertEqual(self.run_tool("put", "a", status=1), "")

    def test_redis_is_a_mistake_in_builds_without_it(self):
        if "redis:" in self.run_tool("--help"):
            self.skipTest("built with hiredis")
        self.store = "redis:127.0.0.1:1"
        self.assertEqual(self.run_tool("stats", status=1), "")
        self.assertEqual(self.run_tool("put", "a", status=1), "")
        self.assertFalse(pathlib.Path(self.store).exists())

    def test_an_unknown_kind_of_server_is_no_file(self):
        for self.store in "rediss:127.0.0.1:1", "redis-cluster:a", "sqlite:a", "redis", "rediss", "postgres", "postgresql":
            self.assertEqual(self.run_tool("put", "a", status=1), "")
            self.assertFalse(pathlib.Path(self.store).exists())

    def test_a_file_has_no_functions(self):
        self.make_store()
        self.assertEqual(self.run_tool("install", status=1), "")

    def test_a_store_that_is_open_is_refused(self):
        self.make_store()
        with open(self.store, "rb+") as owner:
            # struct flock: the byte that sqlite_store locks, by an open file description.
            fcntl.fcntl(owner, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0x40000200, 1, 0))
            self.assertEqual(self.run_tool("stats", status=1), "")
        self.run_tool("stats")

    def test_damaged_timers_are_counted(self):
        self.run_tool("put", "a", "--body", "x" * 5000)
        self.assertNotIn("damaged", self.run_tool("stats"))
        with sqlite3.connect(self.store) as db:
            db.execute("insert into dead(id, due, body, every, attempt, ended, spent, apart)"
                       " select id, due, body, every, attempt, ended, spent, apart from timer")
            db.executescript("delete from timer; delete from body")
        db.close()
        self.assertEqual(self.run_tool("stats"), "waiting 0\ndead 0\ndamaged 1\nnext none\n")

    def test_a_period_ends_before_the_last_deadline(self):
        self.assertEqual(self.run_tool("put", "a", "--due-ms", 253402300799999, "--every-ms", 1, status=1), "")

    def test_a_body_without_a_value_is_empty(self):
        for words in ["a", "--body="], ["--body=", "b"], ["--body=", "--", "c"], ["d", "--body", ""]:
            self.assertEqual(self.run_tool("put", "--in-ms", 60_000, *words), "stored\n")
        for name in "abcd":
            self.assertTrue(self.run_tool("get", name).endswith("\t0 bytes\n\n"))

    def test_mistakes_are_one_line(self):
        for words in [["get"], ["list", "a"], ["nonsense"], ["put", "a", "--in-ms", "x"],
                      ["put", "a" * 256], ["cancel"], ["cancel", "a", "--prefix", "a"], ["get", "a", "--prefix", "a"],
                      ["serve"], ["stats", "--to", "table"], ["put", "a", "--in-ms", 1, "--due-ms", 1]]:
            with self.subTest(words):
                self.run_tool(*words, status=2)

    def test_a_file_of_something_else_is_one_line(self):
        self.store.write_text("x" * 5000)
        self.run_tool("list", status=1)
        self.assertEqual(self.store.read_text(), "x" * 5000)

    @unittest.skipUnless(shutil.which("redis-server"), "there is no redis-server")
    def test_it_works_on_a_redis_server_as_well(self):
        if "redis:" not in self.run_tool("--help"):
            self.skipTest("built without hiredis")
        server = Server(self.store.parent, "server")
        self.addCleanup(server.kill)
        self.store = f"redis:{server.socket}"
        self.assertEqual(self.run_tool("put", "a", "--due-ms", 4102444800000, "--body", "b"), "stored\n")
        self.assertTrue(self.run_tool("get", "a").endswith("\t1 bytes\nb\n"))
        self.assertEqual(self.run_tool("stats"), "waiting 1\ndead 0\nnext 2100-01-01T00:00:00.000Z\n")
        self.assertEqual(self.run_tool("put", "b", "--wait-replicas", 1, status=1), "unknown\n")  # there is none
        self.assertEqual(self.run_tool("cancel", "a"), "cancelled\n")
        self.assertNotIn("tvec_put", server.say("FUNCTION", "FLUSH") + server.say("FUNCTION", "LIST"))
        server.say("FLUSHALL")
        for number in 3, 5:
            self.assertEqual(self.run_tool("install", "--shards", number), "functions of version 8, 3 shards\n")
            self.assertEqual(self.stderr, "" if number == 3 else KEPT_SHARDS)
        self.assertEqual(server.say("FCALL", "tvec_version", 0), "8\n")
        self.assertEqual(server.say("HGET", "{tvec}:meta", "shards"), "3\n")
        for self.store in "redis:localhost:70000", "redis:[::1", "redis:::1]:6379", "redis:", f"redis::{server.port}", f"redis://127.0.0.1:{server.port}", \
                f"redis:u:p@127.0.0.1:{server.port}", f"redis:@127.0.0.1:{server.port}", f"rediss:{server.socket}":
            done = subprocess.run([TOOL, "--store", self.store, "list"], capture_output=True, text=True, timeout=PATIENCE)
            self.assertRegex(done.stderr, rf"\Atvec-timers: rediss?:[^ ]*: expected [^\n]+\n\Z")
        server.say("CONFIG", "SET", "bind", "127.0.0.1 -::1")
        hosts = ["[127.0.0.1]"]
        with contextlib.suppress(OSError):  # there may be no IPv6
            socket.create_connection(("::1", server.port)).close()
            hosts += ["[::1]", "::1"]
        for host in hosts:
            self.store = f"redis:{host}:{server.port}"
            self.assertEqual(self.run_tool("put", "in brackets"), "stored\n")
            self.assertEqual(self.run_tool("cancel", "in brackets"), "cancelled\n")

    def test_a_bare_kind_of_server_is_no_file(self):
        for store in "redis", "rediss", "valkey", "postgres", "postgresql", "sqlite":
            done = subprocess.run([TOOL, "--store", store, "put", "a"], capture_output=True, text=True, timeout=PATIENCE,
                                  cwd=self.store.parent)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"\Atvec-timers: the store: expected a file[^\n]* is meant by ./NAME\n\Z")
            self.assertFalse((self.store.parent / store).exists())

    def test_no_message_shows_a_password(self):
        places = ("//:geheim@[::1", "//u:geheim@127.0.0.1:1/0", "u:geheim@127.0.0.1:1", "u:geheim:1", "u:geheim", ":geheim@h",
                  "//:geheim", "geheim@h")
        stores = (*(kind + place for kind in ("redis:", "rediss:") for place in places), "rediss://:geheim@h:1", "mysql://u:geheim@h/d", "redis//:geheim@h",
                  *("postgresql:" + place for place in places), "postgresql://u:ge/geheim@h/d", "postgres://u:geheim",
                  "postgresql://u:1/geheim@h/d", "postgresql://u:ge@geheim@127.0.0.1:1/d", "postgresql://u:geheim@h:x/d",
                  "postgresql://u:%zzgeheim@h/d", "postgres:geheim", "postgres:host=h password='geheim",
                  "postgres:host=h passwort=geheim", "postgres:password=a geheim", "postgres:password=a geheim=b",
                  "postgress:host=h password=geheim", "postgres:port=1,geheim")
        commands = ["--store", "stats"], ["--store", "install"], ["--store", "put", "a"], ["--stroe", "stats"], \
            ["--store", "serve", "--to", "table"], ["--store", "serve", "--to", "stream:due"]
        tries = [[option, store, *words] for store in stores for option, *words in commands]
        tries += [["--store", str(self.store), "serve", "--to", kind + place] for place in places
                  for kind in ("stream:", "redis:", "http:", "unix:")]
        tries += [["--store=postgres:host=h", "password=geheim", "stats"]]
        for words in tries:
            with self.subTest(words):
                done = subprocess.run([TOOL, *words], capture_output=True, text=True, timeout=PATIENCE, cwd=self.store.parent)
                self.assertIn(done.returncode, (1, 2))
                self.assertRegex(done.stderr, r"\Atvec-timers: [^\n]+\n\Z")
                self.assertNotIn("geheim", done.stdout + done.stderr)

    @unittest.skipUnless(postgres_server.is_there(), "there is no PostgreSQL server")
    def test_passwords_stay_out_of_the_process_list(self):
        if "postgres:" not in self.run_tool("--help"):
            self.skipTest("built without libpq")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            place = f"127.0.0.1:{silent.getsockname()[1]}"
            for store in (f"postgres:host=127.0.0.1 port={place.split(':')[1]} password=geheim", f"postgresql://u:geheim@{place}/d",
                          f"--store=postgresql://u:geheim@{place}/d"):
                words = [store] if store.startswith("--") else ["--store", store]
                tool = subprocess.Popen([TOOL, *words, "stats"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.addCleanup(lambda tool=tool: (tool.kill(), tool.wait()))
                silent.accept()[0].close()  # it has read its arguments
                self.assertNotIn(b"geheim", pathlib.Path(f"/proc/{tool.pid}/cmdline").read_bytes())

    def test_it_installs_itself_in_postgresql_and_works_there(self):
        if "postgres:" not in self.run_tool("--help"):
            self.skipTest("built without libpq")
        server = postgres_server.Server(self.store.parent, "postgres")
        self.addCleanup(server.kill)
        self.store = f"postgres:{server.conninfo}"
        self.assertEqual(self.run_tool("stats", status=1), "")
        for number in 3, 5:
            self.assertEqual(self.run_tool("install", "--shards", number), "installed\n")
            self.assertEqual(self.stderr, "" if number == 3 else KEPT_SHARDS)
        self.assertEqual(server.say("select count(*) from tvec.shard"), "3")
        self.assertEqual(self.run_tool("put", "a", "--due-ms", 4102444800000, "--body", "b"), "stored\n")
        self.assertEqual(self.run_tool("stats"), "waiting 1\ndead 0\nnext 2100-01-01T00:00:00.000Z\n")
        self.store = f"postgresql:///postgres?host={server.data}&user=postgres"
        self.assertEqual(self.run_tool("cancel", "a"), "cancelled\n")
        server.say('create database "we@home"')  # an `@` of a name is %40
        self.store = f"postgresql:///we%40home?host={server.data}&user=postgres"
        self.assertEqual(self.run_tool("install"), "installed\n")
        self.assertEqual(self.run_tool("put", "a"), "stored\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
