#!/usr/bin/env python3
"""Asks scripts and programs for what they cannot do: each says so in one line, and does nothing else.

usage: refusals.py SOURCE_FOLDER BUILD_FOLDER
"""

import os
import pathlib
import subprocess
import sys
import unittest

from children import Server, programs, run

SOURCE, PROGRAMS = pathlib.Path(sys.argv[1]), programs(sys.argv[2])
NOTHING_BUILT = {**os.environ, "BUILD_DIR": "/no/such"}

# Script, arguments, exit status, a part of the line.
SCRIPTS = [
    ("examples/server/run-under-load", ["--seconds=x"], 2, "--seconds"),
    ("examples/server/run-under-load", ["--seconds=2"], 1, "no /no/such/examples/server/echo_server"),
    ("scripts/checks/fuzz", ["--time", "1.5"], 2, "--time takes"),
    ("scripts/checks/consumers", ["--some"], 2, "no option"),
    ("scripts/build/install", ["--prefix", "here"], 1, "a path from the root"),
    ("scripts/build/install", ["--prefix", "/a b"], 1, "a blank"),
    ("scripts/build/install", ["--prefix", "/dev/null/x"], 1, "is no folder"),
    ("scripts/build/install", ["--remove", "--prefix", "/no/such"], 1, "nothing is known"),
    ("scripts/build/amalgamate", ["/no/such/file"], 1, "No such file"),
    ("scripts/bootstrap", ["no_such"], 2, "no group"),
    ("integrations/run", ["no_such"], 2, "no program"),
]

# Program, options, exit status: of each kind of option one.
OPTIONS = [
    ("drivers", ["--seconds", "nan"], 2), ("load_client", ["--port", "1", "--silent", "x"], 2), ("first", ["--help"], 2),
    ("drivers", ["--seconds", "600", "--csv", "/no/such/file"], 1),
    ("c_first", ["x"], 2), ("operations", ["--csv", "/no/such/file"], 1),
]

# Programs of each kind that print something soon.
TALKATIVE = {"clocks": ["--timers", "100", "--batches", "2"], "echo_server": ["--seconds", "1"], "first": [], "c_first": [],
             "game_loop": ["--simulated", "--seconds", "2"], "operations": ["--help"], "start": []}


class Refusals(unittest.TestCase):
    def assert_one_line(self, done, status, name, part=""):
        said = [line for line in done.stderr.splitlines() if part in line and (name in line or part)]
        self.assertEqual((done.returncode, done.stdout or "", len(said)), (status, "", 1), done)

    def test_scripts(self):
        for script, arguments, status, part in SCRIPTS:
            with self.subTest(f"{script} {arguments}"):
                done = run(SOURCE / script, *arguments, stdout=subprocess.PIPE, env=NOTHING_BUILT)
                done.stdout = ""
                self.assert_one_line(done, status, script, part)

    def test_options_of_programs(self):
        for name, options, status in OPTIONS:
            with self.subTest(f"{name} {options}"):
                if name in PROGRAMS:
                    self.assert_one_line(run(PROGRAMS[name], *options, stdout=subprocess.PIPE), status, f"{name}: ")

    def test_output_that_does_not_arrive(self):
        for name in TALKATIVE.keys() & PROGRAMS.keys():
            with self.subTest(name), open("/dev/full", "w", encoding="utf-8") as full:
                self.assert_one_line(run(PROGRAMS[name], *TALKATIVE[name], stdout=full), 1, f"{name}: ", "cannot write")

    def test_output_of_a_client_that_does_not_arrive(self):
        if {"load_client", "echo_server"} <= PROGRAMS.keys():
            server = self.enterContext(Server(PROGRAMS["echo_server"]))
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = run(PROGRAMS["load_client"], "--seconds", "1", "--connections", "1", "--port", server.port, stdout=full)
            self.assert_one_line(done, 1, "load_client: ", "cannot write")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
