#!/usr/bin/env python3
"""Stops an echo server for seconds and takes its descriptors away: it closes nobody who talks, and its books balance.

usage: echo_server.py FOLDER, where the programs are
"""

import contextlib
import os
import pathlib
import resource
import signal
import sys
import time
import unittest

from children import Child, Client, Server

FOLDER = pathlib.Path(sys.argv[1])
DRIVERS = ["wait", "timeout", "timerfd"]


def server(*options, connections=100, **more):
    return Server(FOLDER / "echo_server", "--seconds", 86_400, "--connections", connections, *options, **more)


def stop(programs, seconds):
    for program in programs:
        program.send(signal.SIGSTOP)
    time.sleep(seconds)
    for program in programs:
        program.send(signal.SIGCONT)


class EchoServer(unittest.TestCase):
    def assert_balanced(self, ended):
        """SIGINT ends a server: all timers accounted for, and no connection leaked."""
        status, said = ended
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"books +balanced")
        return said

    def test_a_stopped_server_closes_nobody_who_talks(self):
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(server("--driver", d, "--idle-ms", 2000)) for d in DRIVERS]
            clients = [stack.enter_context(Child(
                FOLDER / "load_client", "--port", s.port, "--seconds", 8, "--connections", 100, "--think-ms", 200,
                "--silent", 0, "--half-open", 0)) for s in servers]
            time.sleep(2)  # they arrive within a second
            stop(servers, 3)
            for driver, s, client in zip(DRIVERS, servers, clients):
                with self.subTest(driver):
                    status, said = client.wait()
                    self.assertEqual(status, 0, said)
                    self.assertIn(", 0 talking", said)
                    self.assertRegex(self.assert_balanced(s.end()), r"stalls +[1-9]")

    def test_a_stall_gives_silent_clients_a_second_chance(self):
        with server("--idle-ms", 2000, "--grace-ms", 30_000) as s, Client(s.port) as client:
            self.assertTrue(client.is_echoed())
            stop([s], 3)
            with Client(s.port) as other:  # when it is served, the server's timers have run
                for _ in range(10):
                    self.assertTrue(other.is_echoed())
            self.assertTrue(client.is_echoed())

    def test_clients_silent_after_their_second_chance_are_closed(self):
        with server("--idle-ms", 2000, "--grace-ms", 1) as s, Client(s.port) as client:
            self.assertTrue(client.is_echoed())
            stop([s], 3)
            self.assertEqual(client.hears(), b"")
            self.assert_balanced(s.end())

    def test_a_client_that_drips_bytes_stays(self):
        """Silence alone closes it. A client that this machine kept silent begins again."""
        with server("--idle-ms", 1000) as s:
            drips, enough = 0, 9
            while drips < enough:
                drips, said, saying = 0, 0, time.monotonic()
                with Client(s.port) as client:
                    while drips < enough and client.is_echoed():
                        drips, said = drips + 1, saying
                        time.sleep(0.4)
                        saying = time.monotonic()
                if drips < enough:
                    self.assertGreater(time.monotonic() - said, 1, f"closed after {drips} bytes")

    def test_a_free_descriptor_accepts_a_waiting_client(self):
        limit = 96  # as few as it starts with

        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

        with server("--idle-ms", 86_400_000, connections=1, preexec_fn=few) as s, contextlib.ExitStack() as stack:
            left = limit - len(os.listdir(f"/proc/{s.process.pid}/fd"))
            served = [stack.enter_context(Client(s.port)) for _ in range(left)]
            self.assertTrue(all(client.is_echoed() for client in served))
            waiting = stack.enter_context(Client(s.port))
            waiting.say()
            self.assertIsNone(waiting.hears(within=0.05))
            served.pop().close()
            self.assertEqual(waiting.hears(), b"x")
            self.assert_balanced(s.end())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
