#!/usr/bin/env python3
"""Crowds a server whose idle timeouts shrink: silent clients make room, and clients that talk stay.

usage: crowding.py FOLDER, where the programs are
"""

import contextlib
import pathlib
import re
import resource
import sys
import time
import unittest

from children import Client, Server

FOLDER = pathlib.Path(sys.argv[1])
ROOM = 32  # connections of the server
LIMIT = ROOM + 64  # its descriptors
TALKERS = 12
CROWD = 150  # silent clients, one after the other
AGES = 3_600_000


class Crowding(unittest.TestCase):
    def server(self, *options):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        return Server(FOLDER / "echo_server", "--connections", ROOM, "--seconds", 86_400, "--idle-ms", AGES, *options,
                      preexec_fn=few)

    def closes(self, said):
        return int(re.search(r"idle closes +(\d+)", said)[1])

    def test_silent_clients_make_room_and_who_talks_stays(self):
        with self.server("--least-idle-ms", 1_000) as server, contextlib.ExitStack() as stack:
            talkers = [stack.enter_context(Client(server.port)) for _ in range(TALKERS)]
            for _ in range(CROWD):
                self.assertTrue(stack.enter_context(Client(server.port)).is_echoed(), "a client found no room")
                for talker in talkers:
                    self.assertTrue(talker.is_echoed(), "a client that talks was closed")
            status, said = server.end()
            self.assertEqual(status, 0, said)
            self.assertGreaterEqual(self.closes(said), CROWD + TALKERS - LIMIT, said)

    def test_without_pressure_nobody_is_closed(self):
        with self.server("--least-idle-ms", 50) as server, contextlib.ExitStack() as stack:
            silent = [stack.enter_context(Client(server.port)) for _ in range(ROOM // 2)]
            time.sleep(0.5)
            self.assertTrue(all(client.is_echoed() for client in silent))
            status, said = server.end()
            self.assertEqual((status, self.closes(said)), (0, 0), said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
