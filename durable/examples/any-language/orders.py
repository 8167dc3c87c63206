#!/usr/bin/python3
"""Orders that are closed if nobody pays in time, on durable timers in PostgreSQL. `tvec-timers serve --to table` is
punctual, and this program works.

usage: orders.py setup | place ID [SECONDS] | pay ID | work

The database is that of libpq: PGHOST, PGDATABASE, PGUSER. An order has to be paid within 30 minutes, or SECONDS.
"""

import select
import sys

import psycopg2


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
    with db, db.cursor() as c:
        c.execute("update orders set state = 'paid' where id = %s and state = 'placed'", [order])
        c.execute("select tvec.cancel('close ' || %s)", [order])
# [place]


# [work]
def close_due_orders(db):
    """One transaction: if this process dies in it, another worker gets the same deliveries."""
    with db, db.cursor() as c:
        c.execute("select convert_from(id, 'UTF8'), attempt from tvec.next(10)")
        deliveries = c.fetchall()
        for timer, attempt in deliveries:
            order = timer.removeprefix("close ")
            c.execute("update orders set state = 'closed' where id = %s and state = 'placed'", [order])
            if c.rowcount == 1:
                print(f"closed {order}", flush=True)
            c.execute("select tvec.done(%s, %s)", [timer, attempt])
    return len(deliveries)


def work(db):
    with db, db.cursor() as c:
        c.execute("listen tvec_ready")
    while True:
        while close_due_orders(db) > 0:
            pass
        select.select([db], [], [], 5)  # until there is a delivery; at times it looks without being told
        db.poll()
        db.notifies.clear()
# [work]


if __name__ == "__main__":
    COMMANDS = {"setup": setup, "place": place, "pay": pay, "work": work}
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]](psycopg2.connect(""), *sys.argv[2:])
