#!/usr/bin/env python3
"""Has wheel_view draw censuses that are whole, damaged, or none.

usage: wheel_view.py WHEEL_VIEW
"""

import contextlib
import importlib.machinery
import importlib.util
import pty
import random
import re
import socket
import subprocess
import sys
import threading
import unittest
import xml.etree.ElementTree

import children
from children import PATIENCE

WHEEL_VIEW = sys.argv[1]

# A whole one, with timers on most levels.
CENSUS = """\
tvec-census 1
now 77000
first_expiry 77001
last_expiry 9000000000
level 0 1 512
slot 77001 3 0
slot 77400 0 2
level 1 256 256
slot 77568 1 5
level 2 16384 128
slot 98304 1000000 1
level 3 1048576 128
level 4 67108864 128
slot 8589934592 1 0
overflow 2 1
"""


class WheelView(unittest.TestCase):
    def view(self, *options, census=""):
        return subprocess.run([WHEEL_VIEW, *options], input=census, capture_output=True, text=True,
                              timeout=PATIENCE)

    def test_empty_wheels_and_last_slots_are_drawn(self):
        census = ("tvec-census 1\nnow 1000\nfirst_expiry none\nlast_expiry none\nnews from later\n"
                  "level 0 1 512\nslot 1511 1 0\nlevel 1 256 128\nslot 33536 0 5\noverflow 1 0\n")
        self.assertEqual(self.view("-", census=census).returncode, 0)
        self.assertEqual(self.view("-", census="tvec-census 1\nnow 0\noverflow 0 0\n").returncode, 0)

    def assert_refused(self, *options, says="", **more):
        seen = self.view(*options, **more)
        self.assertEqual((seen.returncode, seen.stdout), (1, ""), seen)
        self.assertRegex(seen.stderr, rf"\Awheel_view: [^\n]*{says}[^\n]*\n\Z")

    def test_each_fault_is_reported_on_one_line(self):
        self.assertEqual(self.view("-", census=CENSUS).returncode, 0)
        for census in ["", "nonsense\n", "tvec-census 2\n", CENSUS.replace("now 77000", "now x"),
                       CENSUS.replace("level 0 1 512\n", ""), CENSUS.replace("77400 0", "99999 0")]:
            self.assert_refused("-", census=census)
        self.assert_refused("-", census=CENSUS.replace("77400 0 2", "77400 0"), says="line 7 .* missing")
        self.assert_refused("-", census=CENSUS[:-1], says="cut off")
        self.assert_refused("/no/such/file", says="cannot read /no/such/file: No such file")
        self.assert_refused("-", "-o", "/dev/full", census=CENSUS, says="No space left")
        for options in [], ["--port", "0"], ["--port", "65536"], ["-", "--interval", "nan"]:
            self.assertEqual(self.view(*options).returncode, 2)

    def test_terminals_are_shown_blocks_instead_of_pictures(self):
        ours, theirs = pty.openpty()
        with open(ours, "rb", buffering=0) as terminal, open(theirs, "wb", buffering=0) as output:
            seen = subprocess.run([WHEEL_VIEW, "-"], input=CENSUS, stdout=output, stderr=subprocess.PIPE, text=True,
                                  timeout=PATIENCE)
            shown = terminal.read(65_536).decode()
        self.assertEqual(seen.returncode, 0, seen)
        self.assertRegex(seen.stderr, r"\Awheel_view: [^\n]*-o wheel.svg\n\Z")
        self.assertIn("root: 1 tick to a slot", shown)
        self.assertNotIn("<svg", shown)
        self.assertIn("<svg", self.view("-", census=CENSUS).stdout)

    def test_a_full_output_is_reported_on_one_line(self):
        for options in ["-"], ["-", "--watch", "--times", "1"]:
            with open("/dev/full", "w", encoding="utf-8") as full:
                seen = subprocess.run([WHEEL_VIEW, *options], input=CENSUS, stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
            self.assertEqual(seen.returncode, 1, seen)
            self.assertRegex(seen.stderr, r"\Awheel_view: cannot write [^\n]*\n\Z")

    def answering(self, answer):
        """The port of somebody who says this to whoever comes first."""
        listener = self.enterContext(socket.create_server(("127.0.0.1", 0)))

        def serve():
            with contextlib.suppress(OSError), listener.accept()[0] as asker:
                asker.recv(4096)
                asker.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return str(listener.getsockname()[1])

    def test_wrong_answers_are_reported_on_one_line(self):
        port = str(children.free_port())
        self.assert_refused("--port", port, says="Connection refused")
        for answer in [b"", b"what?\r\n\r\n", b"HTTP/1.0 404 No\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n\xff",
                       b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nx"]:
            self.assert_refused("--port", self.answering(answer))


class DamagedCensuses(unittest.TestCase):
    """The program's functions themselves: thousands of censuses, each drawn or refused."""

    NUMBERS = ["", "0", "1", "2", "3", "-1", "0x1", "1e9", "nan", "none", "<b>", "\u0663", "77000",
               "4096", "4097", str(2**63), str(2**64 - 1), str(2**64), "9" * 5000]

    @classmethod
    def setUpClass(cls):
        sys.dont_write_bytecode = True
        loader = importlib.machinery.SourceFileLoader("wheel_view", WHEEL_VIEW)
        cls.program = importlib.util.module_from_spec(
            importlib.util.spec_from_loader("wheel_view", loader))
        sys.modules["wheel_view"] = cls.program
        loader.exec_module(cls.program)

    def draw(self, text):
        """Whether it was drawn; anything but a fault of one line fails the test."""
        try:
            census = self.program.parse(text)
        except self.program.Fault as fault:
            self.assertNotIn("\n", str(fault))
            return False
        xml.etree.ElementTree.fromstring(self.program.Picture(census).draw())
        self.program.terminal_view(census)
        return True

    def test_truncated_censuses_are_refused(self):
        self.assertTrue(self.draw(CENSUS))
        for end in range(len(CENSUS)):
            self.assertFalse(self.draw(CENSUS[:end]), CENSUS[:end])

    def test_a_changed_word_is_drawn_or_refused(self):
        words = re.split("([ \n])", CENSUS)
        for at in range(len(words)):
            for number in self.NUMBERS:
                self.draw("".join([*words[:at], number, *words[at + 1:]]))

    def test_random_lines_and_words_never_crash_it(self):
        random.seed(20)
        drawn = 0
        for _ in range(3000):
            lines = CENSUS.splitlines(keepends=True)
            for _ in range(random.randint(1, 4)):
                at = random.randrange(1, len(lines))
                words = lines[at].split(" ")
                words[random.randrange(len(words))] = random.choice(self.NUMBERS)
                lines[at] = random.choice([" ".join(words), "", lines[at] * 2,
                                           random.choice(lines)])
            drawn += self.draw("".join(lines))
        self.assertGreater(drawn, 100)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
