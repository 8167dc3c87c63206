"""A worker of durable timers in PostgreSQL, for `tvec-timers serve --to table`.

    tvec_worker.work(lambda: psycopg2.connect(""), handle)

calls `handle(cursor, timer)` for each due timer, for ever. The timer has `id`, `attempt`, `due` and `body`. What the
handler does with the cursor is committed with the end of the delivery, or not at all. None means done, a timedelta
means again after so long, and an exception means failed, with its text as the reason.

With `outside` no transaction is open when the handler is called, so that it may act elsewhere. It then has a minute,
after which another worker gets the timer. A handler that needs more calls `extend(cursor, timer, "10 minutes")` and
commits. A connection of another package than psycopg2 is refused by a TypeError.
"""

import collections
import datetime
import select
import sys
import time

import psycopg2
from psycopg2.extensions import TransactionRollbackError

VERSION = "0.6.0"

Timer = collections.namedtuple("Timer", "id attempt due body")


def extend(c, timer, lease="1 minute"):
    """Returns false if the timer was cancelled, or another worker has it."""
    c.execute("select 1 where tvec.extend(%s, %s, %s) = 'ok'", [timer.id, timer.attempt, lease])
    return c.rowcount == 1  # rows are what the cursor of the program makes of them


def reason_of(fault):
    """The text of an exception, as PostgreSQL takes it, whatever it is."""
    try:
        return f"{type(fault).__name__}: {fault}".encode("utf-8", "replace").decode().replace("\0", "?")
    except Exception:
        return type(fault).__name__.encode("utf-8", "replace").decode()


def is_answer(fault):
    """Returns true for the server's answer to a mistake. The others are of the connection, for which there are three
    classes."""
    return fault.pgcode and not isinstance(fault, psycopg2.OperationalError)


def end(c, timer, delay):
    if delay is not None and not isinstance(delay, datetime.timedelta):
        raise TypeError(f"the handler returned {delay!r:.40}: expected None or a timedelta")
    how = "done(%s, %s)" if delay is None else "again(%s, %s, clock_timestamp() + %s)"
    c.execute("select tvec." + how, [timer.id, timer.attempt] + [delay] * (delay is not None))


def call(db, timer, handle, outside, is_last_try):
    """One transaction, which locks the timer first, as one that cancels it does: they do not deadlock. Whatever the
    handler does is the end of this delivery, and of no other."""
    with db, db.cursor() as c:
        if not extend(c, timer):
            return
        db.commit() if outside else c.execute("savepoint handler")
        try:
            end(c, timer, handle(c, timer))
        except Exception as fault:
            if isinstance(fault, TransactionRollbackError) and not is_last_try:  # a deadlock, or a serialization failure
                raise
            db.rollback() if outside else c.execute("rollback to savepoint handler")
            c.execute("select tvec.failed(%s, %s, %s)", [timer.id, timer.attempt, reason_of(fault)])


def work_off(db, handle, most=10, prefix="", outside=False, taken=None):
    """Takes timers and calls the handler for each. Returns how many there were. Each worker that takes one and dies
    has cost it an attempt, so the take is committed first. If `taken`, a deque, holds some that were left when a
    connection broke, these come instead: one timer that ends its session must not cost others an attempt."""
    taken = collections.deque() if taken is None else taken
    if not taken:
        with db, db.cursor(cursor_factory=psycopg2.extensions.cursor) as c:
            c.execute("select id, attempt, due, body from tvec.next(%s, %s)", [most, prefix])
            taken.extend(Timer(bytes(name), attempt, due, bytes(body)) for name, attempt, due, body in c)
    number = len(taken)
    while taken:
        timer = taken.popleft()
        for tries_left in reversed(range(10)):
            try:
                call(db, timer, handle, outside, tries_left == 0)
                break
            except TransactionRollbackError:
                if tries_left == 0:
                    raise
            except psycopg2.Error as fault:
                if not is_answer(fault):
                    raise
                with db, db.cursor() as c:  # the commit was refused, by a deferred constraint say
                    c.execute("select tvec.failed(%s, %s, %s)", [timer.id, timer.attempt, reason_of(fault)])
                break
            except (KeyboardInterrupt, SystemExit):  # the rest need not wait for the end of their leases
                with db, db.cursor() as c:
                    for rest in taken:
                        c.execute("select tvec.again(%s, %s, %s)", [rest.id, rest.attempt, rest.due])
                raise
    return number


def work(connect, handle, most=10, prefix="", outside=False):
    taken = collections.deque()
    while True:
        try:
            db = connect()
            if not isinstance(db, psycopg2.extensions.connection):
                raise TypeError(f"connect() returned {db!r:.60}: expected a connection of psycopg2")
            db.set_session(readonly=False)
            with db, db.cursor() as c:
                c.execute("listen tvec_ready")
            while True:
                db.notifies.clear()
                if work_off(db, handle, most, prefix, outside, taken) == 0 and not db.notifies:
                    select.select([db], [], [], 5)  # until there is a delivery, or its notification was lost
                    db.poll()
        except psycopg2.Error as fault:
            if is_answer(fault):
                raise
            print(f"tvec_worker: {fault}".strip(), file=sys.stderr, flush=True)
            time.sleep(1)  # the timer at which it broke comes again
