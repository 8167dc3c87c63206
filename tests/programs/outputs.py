#!/usr/bin/env python3
"""Runs each program of examples/ and bench/ where what it writes cannot arrive: it must say so.

usage: outputs.py BUILD_FOLDER
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from children import Server, programs, run

PROGRAMS = programs(sys.argv[1])
FOLDER = tempfile.TemporaryDirectory(prefix="tvec-outputs-")
STORE = ["--store", f"{FOLDER.name}/timers.db"]
RECORDING = pathlib.Path(__file__).parent.parent.parent / "bench/recordings/echo_server.tvec"

# Options with which each prints something soon. A program that is not listed has no options.
OPTIONS = {
    "coroutine_server": ["--seconds", "1"],
    "cycles": ["--timers", "100", "--batches", "2"],
    "deadline_client": ["--seconds", "1", "--callers", "10"],
    "drivers": ["--seconds", "0.1"],
    "durable": ["--rows", "many", "--sides", "tvec", "--stored", "1", "--seconds", "1"],
    "echo_server": ["--seconds", "1"],
    "game_loop": ["--simulated", "--seconds", "2"],
    "instructions": ["--list"],
    "kernel_timers": ["--timers", "100", "--repetitions", "1"],
    "load_client": ["--seconds", "1", "--connections", "1"],
    "operations": ["--sizes", "1000", "--repetitions", "1", "--rows", "cancel"],
    "orders": [*STORE, "--book", f"{FOLDER.name}/orders", "--seconds", "1"],
    "orders_in_transactions": [*STORE, "--seconds", "1"],
    "remote": ["--batch", "100", "--rounds", "2"],
    "replay": [RECORDING, "--repetitions", "1"],
    "server_day": ["--seconds", "10", "--messages", "100", "--connections", "10"],
    "sharded_server": ["--seconds", "1", "--shards", "2"],
    "tvec-timers": [*STORE, "put", "a", "--in-ms", "60000", "--replace"],
}

SILENT = {"first_test", "from_netty", "which_arm"}  # if all is well


class Outputs(unittest.TestCase):
    # Programs that write a file, and the option for it.
    WRITERS = [("drivers", "--csv"), ("remote", "--csv"), ("operations", "--csv"), ("operations", "--json"),
               ("operations", "--structures"), ("kernel_timers", "--csv"),
               ("echo_server", "--port-file"), ("echo_server", "--record"),
               ("sharded_server", "--port-file"), ("coroutine_server", "--port-file")]

    def assert_fails_in_one_line(self, name, *options, says="cannot write", **more):
        done = run(PROGRAMS[name], *options, **more)
        said = [line for line in done.stderr.splitlines() if line.startswith(f"{name}: ")]
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn(says, said[0])

    def writers(self):
        return [(name, option) for name, option in self.WRITERS if name in PROGRAMS]

    def options_of(self, name):
        """With which a program prints something, and a server if it needs one."""
        if name != "load_client":
            return OPTIONS.get(name, [])
        server = self.enterContext(Server(PROGRAMS["echo_server"]))
        return [*OPTIONS[name], "--port", server.port]

    def test_standard_output_that_is_full_is_an_error_of_every_program(self):
        talkative = PROGRAMS.keys() - SILENT
        self.assertTrue(talkative)
        for name in talkative:
            with self.subTest(name), open("/dev/full", "w", encoding="utf-8") as full:
                self.assert_fails_in_one_line(name, *self.options_of(name), stdout=full)

    def test_the_silent_ones_print_nothing(self):
        for name in PROGRAMS.keys() & SILENT:
            with self.subTest(name):
                self.assertEqual(run(PROGRAMS[name], stdout=subprocess.PIPE).stdout, "")

    def test_help_that_does_not_arrive_is_an_error(self):
        for name in PROGRAMS.keys() & OPTIONS.keys():
            with self.subTest(name), open("/dev/full", "w", encoding="utf-8") as full:
                self.assert_fails_in_one_line(name, "--help", stdout=full)


    def test_a_file_that_is_full_is_an_error(self):
        for name, option in self.writers():
            with self.subTest(f"{name} {option}"):
                self.assert_fails_in_one_line(name, *OPTIONS[name], option, "/dev/full",
                                              stdout=subprocess.DEVNULL)

    def test_a_file_that_cannot_be_is_refused_before_the_work(self):
        endless = {"operations": ["--repetitions", "1000"], "drivers": ["--seconds", "600"],
                   "kernel_timers": ["--repetitions", "1000"], "remote": ["--rounds", "1000000"]}
        for name, option in self.writers():
            with self.subTest(f"{name} {option}"):
                self.assert_fails_in_one_line(
                    name, *endless.get(name, ["--seconds", "86400"]), option,
                    "/no/such/folder/file", stdout=subprocess.DEVNULL)

    def test_a_recording_without_room_for_its_header_is_refused_before_the_work(self):
        if "echo_server" in PROGRAMS:
            self.assert_fails_in_one_line("echo_server", "--seconds", "86400", "--record",
                                          "/dev/full", stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
