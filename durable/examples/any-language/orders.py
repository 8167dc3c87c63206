#!/usr/bin/python3
"""Orders that are closed if nobody pays in time, on durable timers in PostgreSQL. `tvec-timers serve --to table` is
punctual, and this program works.

usage: orders.py setup | place ID [SECONDS] | pay ID | work

The database is that of libpq: PGHOST, PGDATABASE, PGUSER. An order has to be paid within 30 minutes, or SECONDS.
"""

import sys

import psycopg2

import tvec_worker


def setup(db):
    with db, db.cursor() as c:
        c.execute("create table if not exists orders (id text primary key, state text not null)")


# [place]
def place(db, order, seconds=30 * 60):
    """The order and its timer are there together, or neither is."""
    with db, db.cursor() as c:
        c.execute("insert into orders values (%s, 'placed')", [order])
        c.execute("select tvec.put('close ' || %s, now() + %s * interval '1 second')", [order, seconds])


def pay(db, order):
    """The timer comes before the order, as in a worker: whoever is second waits, and neither has what the other wants."""
    with db, db.cursor() as c:
        c.execute("select tvec.cancel('close ' || %s)", [order])
        c.execute("update orders set state = 'paid' where id = %s and state = 'placed'", [order])
# [place]


# [work]
def close(c, timer):
    """Closes an order, if it was not paid. The end of the delivery is in the same transaction."""
    order = timer.id.decode().removeprefix("close ")
    c.execute("update orders set state = 'closed' where id = %s and state = 'placed'", [order])
    if c.rowcount == 1:
        print(f"closed {order}", flush=True)


def work():
    tvec_worker.work(lambda: psycopg2.connect(""), close, prefix="close ")
# [work]


def close_due_orders(db):
    return tvec_worker.work_off(db, close)


if __name__ == "__main__":
    COMMANDS = {"setup": setup, "place": place, "pay": pay}
    if sys.argv[1:] == ["work"]:
        work()
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]](psycopg2.connect(""), *sys.argv[2:])
