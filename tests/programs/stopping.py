#!/usr/bin/env python3
"""Stops servers and clients for seconds, and looks whom they blame for it.

usage: stopping.py FOLDER, where the programs are
"""

import contextlib
import pathlib
import signal
import sys
import time
import unittest

from children import Child, Client, Server

FOLDER = pathlib.Path(sys.argv[1])
LONG = 86_400  # seconds: ended before

SERVERS = {
    "wait": ["echo_server"],
    "timeout": ["echo_server", "--driver", "timeout"],
    "timerfd": ["echo_server", "--driver", "timerfd"],
    "coroutines": ["coroutine_server"],
}


def server(kind, *options):
    program, *more = SERVERS[kind]
    return Server(FOLDER / program, "--seconds", LONG, "--connections", 100, *more, *options)


def talkers(port, *options):
    """Clients that talk every fifth of a second or so."""
    return Child(FOLDER / "load_client", "--port", port, "--seconds", 8, "--connections", 100,
                 "--think-ms", 200, "--silent", 0, "--half-open", 0, *options)


def stop(programs, seconds):
    for program in programs:
        program.send(signal.SIGSTOP)
    time.sleep(seconds)
    for program in programs:
        program.send(signal.SIGCONT)


class Stopping(unittest.TestCase):
    def test_a_server_that_was_stopped_closes_nobody_who_talks(self):
        with contextlib.ExitStack() as stack:
            servers = {kind: stack.enter_context(server(kind, "--idle-ms", 2000)) for kind in SERVERS}
            clients = {kind: stack.enter_context(talkers(s.port)) for kind, s in servers.items()}
            time.sleep(2)  # they arrive within a second
            stop(servers.values(), 3)
            for kind, client in clients.items():
                with self.subTest(kind):
                    status, said = client.wait()
                    self.assertEqual(status, 0, said)
                    self.assertIn(", 0 talking", said)
                    status, said = servers[kind].end()
                    self.assertEqual(status, 0, said)
                    self.assertRegex(said, r"stalls +[1-9]")

    def stopped(self, stack, *options):
        """Servers of some kinds, each with a client that has been served; then all are stopped too long."""
        servers = [stack.enter_context(server(kind, "--idle-ms", 2000, *options))
                   for kind in ["wait", "coroutines"]]
        clients = [stack.enter_context(Client(s.port)) for s in servers]
        for client in clients:
            self.assertTrue(client.is_echoed())
        stop(servers, 3)
        return zip(servers, clients)

    def test_who_was_to_be_closed_meanwhile_may_still_speak(self):
        with contextlib.ExitStack() as stack:
            for s, client in self.stopped(stack, "--grace-ms", 30_000):
                with Client(s.port) as other:  # when it is served, the server's timers have run
                    for _ in range(10):
                        self.assertTrue(other.is_echoed())
                self.assertTrue(client.is_echoed())

    def test_who_goes_on_being_silent_is_closed(self):
        with contextlib.ExitStack() as stack:
            for _, client in self.stopped(stack, "--grace-ms", 1):
                self.assertEqual(client.hears(), b"")

    def test_clients_that_were_stopped_do_not_blame_the_server(self):
        with server("wait", "--idle-ms", 60_000) as s, talkers(s.port, "--reply-ms", 1000) as client:
            time.sleep(2)
            stop([client], 2)
            status, said = client.wait()
            self.assertEqual(status, 0, said)
            self.assertIn(" 0 too late", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
