#!/usr/bin/python3
"""Runs the examples in other languages, and the commands of the page that shows them.

usage: any_language.py TVEC_TIMERS SOURCE_FOLDER
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from serving import PATIENCE, Case, wait_for

try:
    import psycopg2  # noqa: F401
    import postgres_server
    assert postgres_server.is_there()
except (ImportError, AssertionError):
    print("skipped: there is no python3-psycopg2, or no PostgreSQL", file=sys.stderr)
    sys.exit(77)

Case.tool, SOURCES = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()
EXAMPLES = SOURCES / "durable/examples/any-language"
PYTHON, NODE = ["/usr/bin/python3", EXAMPLES / "orders.py"], ["node", EXAMPLES / "orders.js"]


def has_node():
    return shutil.which("node") and subprocess.run(["node", "-e", "require('pg')"], capture_output=True).returncode == 0


class Orders(Case):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tvec-orders-")
        cls.addClassCleanup(folder.cleanup)
        cls.server = postgres_server.Server(pathlib.Path(folder.name), "data")
        cls.addClassCleanup(cls.server.kill)

    def setUp(self):
        super().setUp()
        self.server.say("drop schema if exists tvec cascade; drop schema public cascade; create schema public")
        self.store = "postgres:" + self.server.conninfo
        self.environment = {**os.environ, "PGHOST": str(self.server.data), "PGUSER": "postgres", "PGDATABASE": "postgres"}

    def begin(self, words, **more):
        child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, words)], env=self.environment,
                                 stdin=subprocess.DEVNULL, **more)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def call(self, program, *words):
        subprocess.run([*map(str, program), *map(str, words)], env=self.environment, check=True, timeout=PATIENCE)

    def states(self):
        return dict(line.split("|") for line in self.server.say("select id, state from orders").splitlines())

    def closes_what_is_not_paid(self, program):
        self.run_tool("install")
        self.serve("table", "--lease-ms", 1000)
        self.call(program, "setup")
        workers = [self.begin([*program, "work"]) for _ in range(2)]
        for order in "abcdef":
            self.call(program, "place", order)
        self.call(program, "pay", "a")
        self.assertEqual(self.states(), {"a": "paid", **dict.fromkeys("bcdef", "placed")})
        # Half an hour is over. A worker dies in the middle: it has deliveries in an open transaction.
        self.server.say("create function slowly() returns trigger language plpgsql as"
                        " $$ begin if new.state = 'closed' then perform pg_sleep(0.5); end if; return new; end $$;"
                        " create trigger slowly before update on orders for each row execute function slowly();"
                        " select tvec.touch('close ' || id, now() + interval '1 second') from orders")
        wait_for(lambda: self.server.say("select count(*) from pg_stat_activity where wait_event = 'PgSleep'") != "0",
                 "a worker is in the middle")
        workers[0].kill()
        wait_for(lambda: "placed" not in self.states().values(), "all are closed")
        self.assertEqual(self.states(), {"a": "paid", **dict.fromkeys("bcdef", "closed")})
        self.wait_until_empty()

    def test_unpaid_orders_are_closed_in_python(self):
        self.closes_what_is_not_paid(PYTHON)

    @unittest.skipUnless(has_node(), "there is no node-pg")
    def test_unpaid_orders_are_closed_in_node(self):
        self.closes_what_is_not_paid(NODE)

    def python(self, text):
        """Runs a program that has the functions of orders.py."""
        done = subprocess.run(["/usr/bin/python3", "-c", text], env={**self.environment, "PYTHONPATH": PYTHON[-1].parent},
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_payments_at_the_deadline_cause_no_deadlock(self):
        self.run_tool("install")
        self.serve("table", "--lease-ms", 1000)
        self.call(PYTHON, "setup")
        workers = [self.begin([*PYTHON, "work"]) for _ in range(2)]
        self.python("""
import psycopg2, random, threading, time, orders
def customers(number):
    db = psycopg2.connect("")
    for i in range(60):
        order = f"{number}-{i}"
        orders.place(db, order, 0.05)
        time.sleep(0.05 + random.uniform(-0.004, 0.012))
        orders.pay(db, order)
all = [threading.Thread(target=customers, args=(n,)) for n in range(3)]
failed = []
threading.excepthook = failed.append
for t in all: t.start()
for t in all: t.join()
assert not failed, failed
""")
        wait_for(lambda: "placed" not in self.states().values(), "all are paid or closed")
        self.assertEqual([worker.poll() for worker in workers], [None, None])
        self.assertEqual(self.server.say("select deadlocks from pg_stat_database where datname = 'postgres'"), "0")

    def test_a_failing_order_buries_no_other(self):
        self.run_tool("install")
        self.serve("table", "--lease-ms", 1000, "--plan", "retry fixed 100ms | attempts 3")
        self.call(PYTHON, "setup")
        self.server.say("create function fails() returns trigger language plpgsql as $$ begin"
                        " if new.id = 'poison' and new.state = 'closed' then raise 'never'; end if; return new; end $$;"
                        " create trigger fails before update on orders for each row execute function fails()")
        for order in ["poison", *map(str, range(20))]:
            self.call(PYTHON, "place", order, 0)
        self.server.say("select tvec.put('close \\377'::bytea, now())")  # no UTF-8
        self.begin([*PYTHON, "work"])
        wait_for(lambda: self.states() == {"poison": "placed", **dict.fromkeys(map(str, range(20)), "closed")},
                 "all others are closed")
        dead = wait_for(lambda: len(d := self.json_of("dead")) == 2 and d, "two dead letters")
        reasons = " ".join(sorted(letter["reason"] for letter in dead))
        self.assertIn("never", reasons)
        self.assertIn("utf-8", reasons)

    def test_a_text_id_beside_bytes_stays_text(self):
        self.run_tool("install")
        self.assertEqual(self.python("""
import psycopg2
db = psycopg2.connect("")
with db, db.cursor() as c:
    c.execute("select tvec.put(%s, now() + interval '1 hour', %s)", ["CORP\\\\101", b"\\xff\\x00"])
    c.execute("select tvec.cancel(%s)", ["CORP\\\\101"])
    print(c.fetchone()[0])
"""), "cancelled\n")

    def test_our_functions_run_without_jit(self):
        self.run_tool("install")
        self.assertEqual(self.server.say(
            "select string_agg(proname, ' ') from pg_proc where pronamespace = 'tvec'::regnamespace"
            " and (prosecdef or prolang = (select oid from pg_language where lanname = 'plpgsql'))"
            " and not coalesce(proconfig @> '{jit=off}', false) and proname not in"
            " ('require', 'ms_of')"), "")

    def test_install_refuses_the_schema_of_another_role(self):
        self.server.say("create role mallory login; grant create on database postgres to mallory")
        self.server.say("set role mallory; create schema tvec; create table tvec.timer (id bytea)")
        self.assertRegex(self.run_tool("install", status=1), "(belongs to|has a table of) mallory")
        self.server.say("drop schema tvec cascade; create schema tvec; create table tvec.timer (id bytea);"
                        " alter table tvec.timer owner to mallory")
        self.assertRegex(self.run_tool("install", status=1), "(belongs to|has a table of) mallory")

    def test_a_rolled_back_order_has_no_timer(self):
        self.run_tool("install")
        self.call(PYTHON, "setup")
        self.call(PYTHON, "place", "a", 1)
        failed = subprocess.run([*map(str, PYTHON), "place", "a", "1"], env=self.environment, capture_output=True)
        self.assertNotEqual(failed.returncode, 0)  # the order is there already
        self.assertEqual(self.json_of("stats")[0]["waiting"], 1)

    def test_the_role_of_the_page_may_serve(self):
        self.run_tool("install")
        said = self.follow("operating.md", "PostgreSQL roles", {}, self.environment)
        wait_for(lambda: said().count("GRANT") == 2, "the rights")
        self.store = self.store.replace("user=postgres", "user=tvec-timers-shop")
        self.assertIn("shop", self.store)
        self.serve("table")
        self.put("a")
        wait_for(lambda: self.server.say("select id from tvec.next(1)").strip(), "the delivery")

    def test_commands_of_the_page_do_as_described(self):
        page = {"127.0.0.1:9180": str(self.folder / "page")}  # the port may be taken
        said = self.follow("start.md", "PostgreSQL with Python or Node", page, self.environment)
        wait_for(lambda: "closed book-2\n" in said(), "what the page promises")
        self.assertEqual(self.states(), {"book-1": "paid", "book-2": "closed"})
        time.sleep(0.2)
        self.assertNotIn("closed book-1", said())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
