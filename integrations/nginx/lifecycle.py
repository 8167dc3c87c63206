#!/usr/bin/env python3
"""Looks whether an nginx ends what it has to end: idle connections, old workers, itself.

usage: lifecycle.py NGINX
"""

import contextlib
import signal
import socket
import sys
import time
import unittest

from server import Nginx, PATIENCE, wait_until

MANY = 100


def ask(path):
    """A request, as bytes."""
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


class Lifecycle(unittest.TestCase):
    def start(self, **more):
        return self.enterContext(Nginx(sys.argv[1], **more))

    def connect(self, server):
        return self.enterContext(socket.create_connection(("127.0.0.1", server.port), PATIENCE))

    def ask_hello(self, talk):
        talk.sendall(ask("/hello"))
        said = b""
        while not said.endswith(b"hello\n"):
            some = talk.recv(4096)
            self.assertTrue(some, "closed instead of an answer")
            said += some

    def is_closed(self, talk, patience=PATIENCE):
        """Waits; whether it was closed, and nothing said before."""
        talk.settimeout(patience)
        try:
            return talk.recv(4096) == b""
        except TimeoutError:
            return False

    def closed_of_many(self, server, requests):
        """How many of as many connections are closed after they fell silent."""
        talks = [self.connect(server) for _ in range(MANY)]
        for _ in range(requests):
            for talk in talks:
                self.ask_hello(talk)
        end = time.monotonic() + PATIENCE
        return sum(self.is_closed(talk, max(0.01, end - time.monotonic())) for talk in talks)

    def test_silent_connections_in_reused_memory_are_closed(self):
        server = self.start(http="keepalive_timeout 500ms; client_header_timeout 500ms;")
        for requests in (0, 1, 5):
            self.assertEqual(self.closed_of_many(server, requests), MANY)

    def test_closed_connections_leave_no_timer_to_their_heirs(self):
        server = self.start(http="keepalive_timeout 1s; client_header_timeout 1s;")
        for requests in (0, 1):
            with contextlib.ExitStack() as talks:
                for _ in range(MANY):
                    talk = talks.enter_context(self.connect(server))
                    for _ in range(requests):
                        self.ask_hello(talk)
        self.assertEqual(self.closed_of_many(server, 2), MANY)

    def test_a_reload_ends_the_old_worker(self):
        server = self.start(http="keepalive_timeout 60s;")
        idle = self.connect(server)
        self.ask_hello(idle)
        old = server.workers()
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: (now := server.workers()) and not set(now) & set(old), "another worker")
        self.assertTrue(self.is_closed(idle))
        self.ask_hello(self.connect(server))

    def test_a_graceful_quit_ignores_cancelable_timers(self):
        """The request is told to wait by a timer; so is the log, which would be written later."""
        server = self.start(
            http="limit_req_zone all zone=all:1m rate=1r/s;",
            server="location /slow { limit_req zone=all burst=5; empty_gif; } "
                   "access_log access.log combined buffer=64k flush=10m;")
        self.ask_hello(self.connect(server))
        talks = [self.connect(server) for _ in range(2)]
        for talk in talks:
            talk.sendall(ask("/slow"))
        self.assertIn(b"200 OK", talks[0].recv(4096))
        server.process.send_signal(signal.SIGQUIT)
        self.assertIn(b"200 OK", talks[1].recv(4096))
        self.assertEqual(server.process.wait(PATIENCE), 0)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip().splitlines()[-1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
