"""A worker of durable timers in Redis, for `tvec-timers serve --to stream:due`.

    tvec_stream_worker.work(lambda: redis.Redis(), handle)

calls `handle(link, timer)` for each due timer, for ever. The timer has `id`, `attempt`, `due` and `body`, and `link` is
the client, with either protocol. None means done, a timedelta means again after so long, by the clock of this machine,
and an exception means failed, with its text as the reason. A handler that needs longer than the lease calls
`extend(link, timer, 60_000)` in time. A client that decodes answers, or is one of redis.asyncio, is refused by a
TypeError.

`key` is the name of the set of timers, or in a cluster the function from an id to the tag of its shard.
"""

import collections
import datetime
import os
import socket
import sys
import time

import redis

VERSION = "0.6.0"

Timer = collections.namedtuple("Timer", "id attempt due body")
GROUP, LATEST = "workers", 253402300799999  # the last deadline, ms since 1970
EXPECTED = "expected bytes, from one without decode_responses=True that waits for its answers, such as redis.Redis"
# Faults of the connection or the server. That of a cluster is no RedisError, and older clients do not have it.
OF_THE_SERVER = redis.RedisError, OSError, getattr(redis.exceptions, "RedisClusterException", OSError)


def call(link, name, key, timer, *words):
    return link.execute_command("FCALL", name, 1, key(timer.id) if callable(key) else key, timer.id, timer.attempt, *words)


def extend(link, timer, lease_ms=60_000, key="tvec"):
    """Returns false if the timer was cancelled, or another worker has it."""
    return call(link, "tvec_extend", key, timer, lease_ms) == b"ok"


def refuse_unfit(link, key):
    """Asks for what changes nothing, before a delivery is taken."""
    said = call(link, "tvec_extend", key, Timer(b"tvec_stream_worker", 2**32 - 1, None, b""), 1)
    if not isinstance(said, bytes):
        raise TypeError(f"the client answered {said!r:.60}: {EXPECTED}")


def reason_of(fault):
    """The text of an exception, as bytes that can be sent, whatever it is."""
    try:
        return f"{type(fault).__name__}: {fault}".encode("utf-8", "replace")
    except Exception:
        return type(fault).__name__.encode("utf-8", "replace")


def entries_of(answer):
    """Yields the entries of the one stream. With protocol 3 the answer is a dictionary, with a list around them in some
    versions of the client."""
    for _, entries in answer.items() if isinstance(answer, dict) else answer:
        for entry in entries:
            yield from entry if isinstance(entry, list) else [entry]


def timer_of(fields):
    """Returns None for an entry that is no delivery: somebody else has put it into the stream."""
    if "id" in (fields or ()):
        raise TypeError(f"the client answered {fields!r:.60}: {EXPECTED}")
    try:
        due = datetime.datetime.fromtimestamp(int(fields[b"due"]) / 1000, datetime.timezone.utc)
        return Timer(fields[b"id"], int(fields[b"attempt"]), due, fields[b"body"])
    except Exception:
        return None


def deadline_in(delay):
    if not isinstance(delay, datetime.timedelta):
        raise TypeError(f"the handler returned {delay!r:.40}: expected None or a timedelta")
    due = int((time.time() + delay.total_seconds()) * 1000)
    if not 0 <= due <= LATEST:
        raise ValueError(f"the handler returned {delay}: expected a time up to the end of the year 9999")
    return due


def end_of(link, timer, handle):
    """Calls the handler. Whatever it does is the end of this delivery, and of no other."""
    try:
        delay = handle(link, timer)
        return ["tvec_done"] if delay is None else ["tvec_again", deadline_in(delay)]
    except Exception as fault:
        return ["tvec_failed", reason_of(fault)]


def work_off(link, handle, stream, key, me, unended):
    """Takes one delivery, as a worker that dies has cost all that it took an attempt, and ends it. The end is in the
    list `unended` until it is answered: if the connection breaks it is sent again, and the handler is not called again."""
    if not unended:
        for entry, fields in entries_of(link.xreadgroup(GROUP, me, {stream: ">"}, count=1, block=5000)):
            timer = timer_of(fields)
            unended.append((entry, timer, end_of(link, timer, handle) if timer else None))
    for entry, timer, end in list(unended):
        try:
            if timer:
                call(link, end[0], key, timer, *end[1:])
            link.xack(stream, GROUP, entry)
            link.xdel(stream, entry)
        except redis.ResponseError:  # it would be refused again: the delivery comes again when its lease ends
            unended.clear()
            raise
        unended.clear()


def work(connect, handle, stream="due", key="tvec", me=None):
    me, unended, fits = me or f"{socket.gethostname()}:{os.getpid()}", [], False
    while True:
        try:
            link = connect()  # a new one: some clients of a cluster do not recover from a failover
            fits = fits or refuse_unfit(link, key) is None
            while True:
                work_off(link, handle, stream, key, me, unended)
        except OF_THE_SERVER as fault:
            print(f"tvec_stream_worker: {fault}", file=sys.stderr, flush=True)
            time.sleep(1)
