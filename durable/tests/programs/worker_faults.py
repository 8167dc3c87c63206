#!/usr/bin/python3
"""Has workers of the pages, in Python and Node, close orders from a PostgreSQL database, does them harm, and audits.

usage: worker_faults.py TVEC_TIMERS EXAMPLES HARM [--rounds N | --time SECONDS]

Two processes of `tvec-timers serve` deliver to the workers. Customers pay at the deadline: their payments and the
workers want the same two rows. The harm, again and again:
  pays          nothing else
  kills         a worker is killed with -9, and another takes its place
  serve-kills   a process that delivers is killed, and another takes its place
  cuts          all sessions are ended
  server-kills  the server ends as in a crash, and is started again
  conflicts     some statements fail to serialize, and the database is serializable and read-only by default
  poison        some orders cannot be closed, some end the session that tries to, and some ids are no UTF-8
Then the workers finish what is left. Each order is paid, or closed and not before its deadline. No payment was
refused while the sessions lived. The dead letters are the orders that cannot be closed. Ends with 77 where
there is no PostgreSQL or no python3-psycopg2.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import harm
import postgres_server
from children import PATIENCE
from postgres_faults import CONFLICTS

HARMS = ("pays", "kills", "serve-kills", "cuts", "server-kills", "conflicts", "poison")
UNHARMED = ("pays", "conflicts", "poison")  # a good order needs one attempt; the others may hit one order thrice in a row
SECONDS = 0.5  # until an order is to be paid
WORKERS = 3
CUSTOMERS = 12

# An order that is placed is noted with the time that its deadline counts from, and one that is closed with the time of
# that. Some cannot be closed.
NOTES = """
create table notes (id text, state text, at timestamptz);
create function note() returns trigger language plpgsql as $$
begin
  if new.state = 'closed' and new.id like 'bad%' then raise 'cannot close %', new.id; end if;
  if new.state = 'closed' and new.id like 'fatal%' then perform pg_terminate_backend(pg_backend_pid()); end if;
  insert into notes values (new.id, new.state, case new.state when 'placed' then now() else clock_timestamp() end);
  return new;
end $$;
create trigger note before insert or update on orders for each row execute function note()
"""


class Shop:
    """A server, processes that deliver, workers and customers."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.server = postgres_server.Server(folder, "server", options=["deadlock_timeout=50ms", "max_connections=60"])
        self.store = "postgres:" + self.server.conninfo
        self.environment = {**os.environ, "PGHOST": str(self.server.data), "PGUSER": "postgres", "PGDATABASE": "postgres"}
        os.environ.update(self.environment)
        self.tool("install")
        sys.path.insert(0, str(options.examples))
        import orders
        self.orders = orders
        self.programs = [["/usr/bin/python3", options.examples / "orders.py", "work"]]
        if shutil.which("node") and not subprocess.run(["node", "-e", "require('pg')"], capture_output=True).returncode:
            self.programs.append(["node", options.examples / "orders.js", "work"])
        self.orders.setup(self.connect())
        self.server.say(NOTES)
        if options.harm == "conflicts":
            self.server.say(CONFLICTS.replace("0.005", "0.05"))
            self.server.say("alter database postgres set default_transaction_isolation = serializable")
            self.server.say("alter database postgres set default_transaction_read_only = on")
        self.workers = [self.start_worker(n) for n in range(WORKERS)]
        self.serves = [self.start_serve() for _ in range(2)]
        self.placed, self.refused, self.ends = {}, [], False
        self.lock, self.number, self.untaken = threading.Lock(), 0, 0
        self.customers = [threading.Thread(target=self.buy) for _ in range(CUSTOMERS)]
        for customer in self.customers:
            customer.start()

    def tool(self, *words):
        return subprocess.run([self.options.program, "--store", self.store, *words], check=True, capture_output=True,
                              text=True, timeout=PATIENCE).stdout

    def start(self, *words, stdout=subprocess.DEVNULL):
        log = open(self.folder / "log", "a")
        return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, words)], env=self.environment,
                                stdin=subprocess.DEVNULL, stdout=stdout, stderr=log)

    def start_worker(self, n):
        return self.start(*self.programs[n % len(self.programs)])

    def start_serve(self):
        """It is ready: one that cannot open its store when it starts would end."""
        serve = self.start(self.options.program, "--store", self.store, "serve", "--to", "table", "--lease-ms", 1000,
                           "--attempts", 2 if self.options.harm in UNHARMED else 6, stdout=subprocess.PIPE)
        serve.stdout.readline()
        return serve

    def connect(self):
        db = self.orders.psycopg2.connect("")
        db.set_session(readonly=False, isolation_level="READ COMMITTED")
        return db

    def buy(self):
        """Places orders, and pays some of them at about their deadline, as long as the shop is open."""
        while not self.ends:
            with self.lock:
                self.number += 1
                order = self.name(self.number)
            try:
                db = self.connect()
                self.orders.place(db, order, SECONDS)
                self.placed[order] = True
                time.sleep(max(0, SECONDS + random.uniform(-0.01, 0.02)))
                if random.random() < 0.7 and order.startswith("o"):
                    self.orders.pay(db, order)
                db.close()
            except self.orders.psycopg2.Error as fault:
                if self.options.harm not in ("cuts", "server-kills", "conflicts"):
                    self.refused.append(f"{order}: {fault}")
                time.sleep(0.05)

    def name(self, number):
        kinds = {3: "bad", 60: "fatal"} if self.options.harm == "poison" else {}
        return kinds.get(number, "o") + str(number)

    def kills(self):
        self.replace(self.workers, self.start_worker)

    def serve_kills(self):
        self.replace(self.serves, lambda _: self.start_serve())

    def replace(self, processes, start):
        which = random.randrange(len(processes))
        processes[which].kill()
        processes[which].wait()
        processes[which] = start(which)

    def cuts(self):
        self.server.say("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
                        "and backend_type = 'client backend'")

    def server_kills(self):
        self.server.kill()
        time.sleep(random.uniform(0, 0.3))
        self.server.start()

    def pays(self):
        pass

    conflicts = pays

    def poison(self):
        self.untaken += 1
        if self.untaken <= 200:  # they hold places, of which there are 1000
            self.server.say(f"select tvec.put('\\xff00{self.number:04x}'::bytea, now())")
        self.server.say(f"select tvec.put('close \\351 {self.number}'::bytea, now())")

    def do(self):
        time.sleep(random.uniform(0.3, 1))
        getattr(self, self.options.harm.replace("-", "_"))()
        for process in self.workers + self.serves:
            if process.poll() is not None:
                harm.fail(f"a process ended by itself: {process.args[3:]}: {process.returncode}\n"
                          + (self.folder / "log").read_text()[-1000:])

    def finish(self):
        """Waits until the workers are done with all that they can do."""
        self.ends = True
        for customer in self.customers:
            customer.join()
        if self.options.harm == "conflicts":
            self.server.say("begin read write; drop trigger conflict on tvec.timer; commit")
        if self.options.harm == "poison":  # no worker of the pages takes what does not begin with 'close '
            self.server.say("select tvec.cancel(id) from tvec.timer where substring(id from 1 for 2) = '\\xff00'")
        ends = time.monotonic() + 3 * PATIENCE
        while json.loads(self.tool("stats", "--json"))["waiting"] != 0:
            if time.monotonic() > ends:
                harm.fail(f"these are left: {self.tool('list')}\n" + (self.folder / 'log').read_text()[-1000:])
            time.sleep(0.1)
        for process in self.workers + self.serves:
            process.kill()
            process.wait()

    def rows(self, sql):
        return [line.split("|") for line in self.server.say(sql).splitlines()]

    def faults(self):
        """Yields what is wrong, in words."""
        yield from self.refused
        dead = {line["id"]: line["reason"] for line in map(json.loads, self.tool("dead", "--json", "--limit", "1000000").splitlines())
                if "id" in line}
        states = dict(self.rows("select id, state from orders"))
        for order in self.placed.keys() - states.keys():
            yield f"{order} is lost"
        for order, state in states.items():
            is_dead = f"close {order}" in dead
            if (state == "placed") != order.startswith(("bad", "fatal")) or is_dead != (state == "placed"):
                yield f"{order} is {state}, and its timer {dead.get(f'close {order}', 'is not dead')}"
            if is_dead and order.startswith("bad") and "cannot close" not in dead[f"close {order}"]:
                yield f"{order} is dead because of: {dead[f'close {order}']}"
        for [order] in self.rows(f"select p.id from notes p join notes c using (id) where p.state = 'placed' and "
                                 f"c.state = 'closed' and c.at < p.at + interval '{SECONDS} s'"):
            yield f"{order} was closed early"
        for [order] in self.rows("select id from notes where state <> 'placed' group by id having count(*) > 1"):
            yield f"{order} was ended twice"
        if "closed" not in states.values() or "paid" not in states.values():
            yield "nothing happened"
        self.summary = f"{len(states)} orders, {len(dead)} dead"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda name: str(pathlib.Path(name).resolve()), help="tvec-timers")
    parser.add_argument("examples", type=lambda name: pathlib.Path(name).resolve(), help="the folder of orders.py")
    parser.add_argument("harm", choices=HARMS)
    parser.add_argument("--rounds", type=int, default=6, help="how often (6)")
    parser.add_argument("--time", type=float, help="seconds, instead of a number of rounds")
    options = parser.parse_args()
    try:
        import psycopg2  # noqa: F401
    except ImportError:
        harm.skip("there is no python3-psycopg2")
    if not postgres_server.is_there():
        harm.skip("there is no PostgreSQL")
    with tempfile.TemporaryDirectory(prefix="tvec-workers-") as name:
        shop, rounds, begun = Shop(options, pathlib.Path(name)), 0, time.monotonic()
        try:
            while rounds < options.rounds if options.time is None else time.monotonic() < begun + options.time:
                rounds += 1
                shop.do()
            shop.finish()
            faults = list(shop.faults())
        finally:
            shop.ends = True
            shop.server.kill()
    print(f"{rounds} {options.harm}: {shop.summary}", flush=True)
    for fault in faults[:10]:
        print(f"  {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
