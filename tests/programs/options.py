#!/usr/bin/env python3
"""Asks programs for what they cannot do: each refuses in one line, and before any work.

usage: options.py BUILD_FOLDER
"""

import subprocess
import sys
import unittest

from children import programs, run

PROGRAMS = programs(sys.argv[1])


class Refused(unittest.TestCase):
    def assert_refused(self, name, *options, status=2):
        """Nothing is printed but one line about what is wrong."""
        if name not in PROGRAMS:
            return
        with self.subTest(f"{name} {options}"):
            done = run(PROGRAMS[name], *options, stdout=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stdout), (status, ""), done)
            self.assertRegex(done.stderr, rf"\A{name}: [^\n]+\n\Z")

    def test_numbers_that_are_none(self):
        for text in ["nan", "-nan", "NaN", "inf", "-inf", "x", ""]:
            for name, option in [("deadline_client", "--drop"), ("deadline_client", "--delay"),
                                 ("drivers", "--seconds")]:
                self.assert_refused(name, option, text)
            for option in ["--silent", "--half-open"]:
                self.assert_refused("load_client", "--port", 1, option, text)

    def test_arguments_of_programs_without_options(self):
        for name in PROGRAMS.keys() & {"first", "from_netty", "manual_time", "pool", "start",
                                       "testing", "ticks", "which_arm", "workers", "loop_epoll", "loop_epoll_timeout",
                                       "c_first", "c_epoll_server"}:
            for argument in ["--help", "--seconds", "x", ""]:
                self.assert_refused(name, argument)

    def test_what_is_required_shows_no_default(self):
        if "load_client" in PROGRAMS:
            done = run(PROGRAMS["load_client"], "--help", stdout=subprocess.PIPE)
            self.assertRegex(done.stdout, r"--port [^=\n]+ REQUIRED")

    def test_measurements_of_others_that_cannot_be_read(self):
        for file in ["/no/such/file", "/", "/dev/null", __file__]:
            self.assert_refused("operations", "--repetitions", 1000, "--also", file, status=1)

    def test_rows_that_are_none(self):
        if "operations" in PROGRAMS:
            done = run(PROGRAMS["operations"], "--sizes", 1000, "--rows", "nonsense",
                       stdout=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done)
            self.assertRegex(done.stderr, r"\noperations: no row's name [^\n]+\n\Z")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
