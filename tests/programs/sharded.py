#!/usr/bin/env python3
"""Runs the sharded server, and breaks it: whatever fails first is said in one line, and ends it. And what
is meant for one client reaches no other.

usage: sharded.py SHARDED_SERVER [SANITIZER]

Programs with a sanitizer end by themselves when there is no memory: then nothing is taken from them.
"""

import resource
import subprocess
import sys
import unittest

from children import PATIENCE, Client, Server, run

SERVER = sys.argv[1]
SANITIZED = sys.argv[2:] not in ([], ["none"])


def limited(kind, bytes_):
    return lambda: resource.setrlimit(kind, (bytes_, bytes_))


class Failing(unittest.TestCase):
    def assert_one_line(self, text):
        self.assertRegex(text, r"\Asharded_server: [^\n]+\n\Z")

    def test_an_error_at_the_start_is_one_line(self):
        done = run(SERVER, "--shards", 4, "--seconds", 600, "--port-file", "/no/such/folder/port")
        self.assertEqual(done.returncode, 1)
        self.assert_one_line(done.stderr)

    @unittest.skipIf(SANITIZED, "a sanitizer needs the memory")
    def test_a_thread_that_cannot_be_had_is_one_line(self):
        done = run(SERVER, "--shards", 64, "--seconds", 600,
                   preexec_fn=limited(resource.RLIMIT_AS, 300 << 20))
        self.assertEqual(done.returncode, 1)
        self.assert_one_line(done.stderr)

    @unittest.skipIf(SANITIZED, "a sanitizer ends the program")
    def test_a_shard_that_fails_ends_all(self):
        for messages in ["auto", "queue"]:
            with self.subTest(messages):
                self.take_the_memory(messages)

    def take_the_memory(self, messages):
        """One client after the other, until the shard of one has no memory left."""
        with Server(SERVER, "--shards", 3, "--seconds", 600, "--idle-ms", 600_000,
                    "--messages", messages, stderr=subprocess.PIPE) as server:
            resource.prlimit(server.process.pid, resource.RLIMIT_DATA, (0, 0))
            clients, served = 0, True
            while served and clients < 900:
                served = self.enterContext(Client(server.port)).is_echoed()
                clients += 1
            self.assertFalse(served)
            _, said = server.process.communicate(timeout=PATIENCE)
            self.assertEqual(server.process.returncode, 1)
            self.assert_one_line(said)


class Leases(unittest.TestCase):
    def test_an_answer_for_a_connection_that_is_gone_reaches_no_other(self):
        # So fast that one comes to be where another was, before its lease is over.
        for messages in ["auto", "queue"]:
            with self.subTest(messages), Server(
                    SERVER, "--shards", 2, "--seconds", 600, "--idle-ms", 600_000, "--lease-ms", 2,
                    "--messages", messages) as server:
                clients = [Client(server.port) for _ in range(50)]
                for i in range(1000):
                    clients[i % 50].close()
                    clients[i % 50] = Client(server.port)
                    self.assertTrue(clients[i % 50].is_echoed())
                for client in clients:
                    client.close()
                status, said = server.end()
                self.assertEqual(status, 0, said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
