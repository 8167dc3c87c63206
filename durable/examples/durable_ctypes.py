#!/usr/bin/env python3
"""Durable timers from Python. The arguments are where libtvec-durable-c is, and a store: a file, or
redis:HOST:PORT. Without a store it takes a file in a temporary folder. Kill it and start it again: no
timer is lost."""

import ctypes as c
import select
import sys
import tempfile

tvec = c.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libtvec-durable-c.so.0")
tvec.tvec_durable_now.restype = c.c_int64
ACCEPTED, DONE, STORED, KEEP = 0, 0, 2, 0


class Delivery(c.Structure):
    _fields_ = [("id", c.POINTER(c.c_char)), ("id_length", c.c_size_t), ("attempt", c.c_uint32), ("due", c.c_int64),
                ("every", c.c_int64), ("body", c.POINTER(c.c_char)), ("body_length", c.c_size_t)]


class Record(c.Structure):
    _fields_ = [("size", c.c_size_t), ("id", c.c_char_p), ("id_length", c.c_size_t), ("due", c.c_int64),
                ("body", c.c_char_p), ("body_length", c.c_size_t), ("every", c.c_int64), ("plan", c.c_char_p),
                ("plan_length", c.c_size_t)]


Handler = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(Delivery))
Then = c.CFUNCTYPE(None, c.c_void_p, c.c_int)


class Options(c.Structure):
    _fields_ = [("size", c.c_size_t), ("store", c.c_char_p), ("handler", Handler), ("user", c.c_void_p),
                ("claim_lease", c.c_int64), ("attempts", c.c_uint32), ("default_plan", c.c_char_p)]


class Timers:
    """handler(timers, id, attempt, due, body) is called for due timers, and calls done."""

    def __init__(self, store, handler):
        def on_due(_, given):
            d = given.contents
            handler(self, d.id[:d.id_length], d.attempt, d.due, d.body[:d.body_length])

        self.handler = Handler(on_due)  # what the library calls must not be collected
        self.answers = {}
        self.then = Then(lambda number, answer: self.answers.pop(number)(answer))
        self.calls = 0
        self.timers = c.c_void_p()
        text = c.create_string_buffer(300)
        options = Options(c.sizeof(Options), store.encode(), self.handler)
        if tvec.tvec_durable_open(c.byref(self.timers), c.byref(options), text, c.c_size_t(300)) != 0:
            raise OSError(text.value.decode())

    def now(self):
        return tvec.tvec_durable_now(self.timers)

    def put(self, name, due, body, then):
        timer = Record(c.sizeof(Record), name, len(name), due, body, len(body))
        refusal = tvec.tvec_durable_put(self.timers, c.byref(timer), KEEP, self.then, self.awaiting(then))
        if refusal != ACCEPTED:
            raise ValueError(refusal)

    def done(self, name, attempt, then):
        tvec.tvec_durable_done(self.timers, name, c.c_size_t(len(name)), c.c_uint32(attempt), self.then,
                               self.awaiting(then))

    def awaiting(self, then):
        self.calls += 1
        self.answers[self.calls] = then
        return c.c_void_p(self.calls)

    def run(self):
        """Waits for work, and does it. A loop watches the descriptor instead, and calls tvec_durable_run."""
        select.select([tvec.tvec_durable_fd(self.timers)], [], [])
        tvec.tvec_durable_run(self.timers)

    def close(self):
        tvec.tvec_durable_close(self.timers)


def main(store):
    answers, came = [], []

    def on_due(timers, name, attempt, due, body):
        came.append((name, body, timers.now() >= due))
        timers.done(name, attempt, answers.append)

    timers = Timers(store, on_due)
    begin = timers.now()
    for i in range(3):
        timers.put(b"order-%d" % i, begin + 50 * i, b"pay \0 me", answers.append)
        while len(came) == i:
            timers.run()
    while len(answers) < 6:
        timers.run()
    timers.close()
    print("came:", *(name.decode() for name, *_ in came))
    return sorted(answers) != [DONE] * 3 + [STORED] * 3 or came != [(b"order-%d" % i, b"pay \0 me", True) for i in range(3)]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(main(sys.argv[2] if len(sys.argv) > 2 else folder + "/timers.db"))
