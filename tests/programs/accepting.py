#!/usr/bin/env python3
"""Lets servers run out of descriptors: whoever waits is accepted as soon as another has gone.

usage: accepting.py FOLDER, where the programs are
"""

import contextlib
import os
import pathlib
import re
import resource
import sys
import unittest

from children import Client, Server

FOLDER = pathlib.Path(sys.argv[1])

# How to count the seconds that a server has seen.
LINES = r"(?m)^ *\d+ s +\d+ open"
FIRES = r"timers +(\d+) fires"


def seconds_of(said):
    fires = re.search(FIRES, said)
    return int(fires[1]) if fires else len(re.findall(LINES, said))


class Accepting(unittest.TestCase):
    TIMES = 20
    LIMIT = 96  # descriptors of a server: as few as it starts with

    def few(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.LIMIT, self.LIMIT))

    def check(self, *command):
        with Server(*command, "--connections", 1, "--seconds", 86_400, "--idle-ms", 86_400_000,
                    preexec_fn=self.few) as server, contextlib.ExitStack() as stack:
            left = self.LIMIT - len(os.listdir(f"/proc/{server.process.pid}/fd"))
            served = [stack.enter_context(Client(server.port)) for _ in range(left)]
            for client in served:
                self.assertTrue(client.is_echoed())
            for _ in range(self.TIMES):
                waiting = stack.enter_context(Client(server.port))
                waiting.say()
                self.assertIsNone(waiting.hears(within=0.05))
                served.pop(0).close()
                self.assertEqual(waiting.hears(), b"x")
                served.append(waiting)
            status, said = server.end()
            self.assertEqual(status, 0, said)
            # If it looked again once a second, it would have taken as many seconds.
            self.assertLess(seconds_of(said), self.TIMES, said)

    def test_as_soon_as_a_client_has_gone(self):
        for command in [["echo_server"], ["echo_server", "--plain-accept"], ["coroutine_server"]]:
            with self.subTest(" ".join(str(word) for word in command)):
                self.check(FOLDER / command[0], *command[1:])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
