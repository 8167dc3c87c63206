#!/usr/bin/env python3
"""Asks the scripts for what they cannot do: each says so in a line, and before it has done anything.

usage: scripts.py SOURCE_FOLDER
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from children import run

SOURCE = pathlib.Path(sys.argv[1])


class Scripts(unittest.TestCase):
    def assert_says(self, done, line, status=2):
        """It has printed this alone."""
        self.assertEqual((done.returncode, done.stdout), (status, ""), done)
        self.assertRegex(done.stderr, rf"\A[^\n]*{line}[^\n]*\n\Z")

    def refused(self, *command, **more):
        return run(*command, stdout=subprocess.PIPE, **more)

    def copy(self, *names):
        """A tree of which only these files are there."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(SOURCE / name, folder / name)
        return folder


class Run(Scripts):
    def start(self, *options):
        """Where there are no programs, so that it ends when it has read its options."""
        return self.refused(SOURCE / "scripts/run", *options,
                            env={**os.environ, "BUILD_DIR": "/no/such"})

    def test_one_server_is_asked_for_and_not_two(self):
        for options in [["--coroutines", "--shards", "2"], ["--shards", "2", "--coroutines"]]:
            self.assert_says(self.start(*options), "run: --coroutines and --shards are two servers")

    def test_a_value_may_follow_an_equals_sign(self):
        for options, server in [(["--seconds=2", "--coroutines"], "coroutine_server"),
                                (["--shards=2", "--idle-ms=5"], "sharded_server")]:
            self.assert_says(self.start(*options), f"run: no /no/such/examples/{server}", status=1)

    def test_a_value_that_is_none_is_refused_however_it_is_given(self):
        for options in [["--seconds=x"], ["--seconds="], ["--seconds", "x"], ["--seconds"],
                        ["--seconds=1=2"], ["--nothing=1"]]:
            self.assert_says(self.start(*options), "run: (no option )?'?--")


class Integrations(Scripts):
    def test_a_program_that_is_not_there_is_refused(self):
        self.assert_says(self.refused(SOURCE / "integrations/run", "no_such"),
                         "integrations: no program 'no_such': there are ")

    def test_a_program_whose_source_cannot_be_had_is_skipped_with_the_reason(self):
        for program in (SOURCE / "integrations").glob("*/run"):
            name = program.parent.name
            folder = self.copy("integrations/support.sh")
            shutil.copytree(program.parent, folder / "integrations" / name)
            (folder / "apt-get").write_text("#!/bin/sh\necho E: no network; exit 100\n")
            (folder / "apt-get").chmod(0o755)
            done = self.refused(folder / "integrations" / name / "run",
                                env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
            self.assertEqual((done.returncode, done.stdout), (77, ""), done)
            self.assertRegex(done.stderr, r"E: no network\nskipped: the source package of .*\n\Z")

    def compare(self, measured):
        return self.refused("sh", "-c", 'printf "$1" | "$0"', SOURCE / "integrations/compare", measured)

    def test_figures_are_compared_by_their_medians(self):
        measured = "stock a 10\nstock a 300\nstock a 20\ntvec a 5\nstock b 0\ntvec b 1\n"
        done = self.compare(measured)
        self.assertEqual([row.split() for row in done.stdout.splitlines()],
                         [["stock", "tvec", "ratio"], ["a", "20", "5", "0.25"], ["b", "0", "1", "-"]])

    def test_a_figure_that_one_has_not_measured_is_missed(self):
        for measured, line in [("stock a 1\n", "compare: a: tvec has measured nothing"),
                               ("tvec a 1\n", "compare: a: stock has measured nothing")]:
            self.assert_says(self.compare(measured), line, status=1)


class Fuzz(Scripts):
    TIMES = ["abc", "-1", "0", "", "1.5", "1 2"]

    def test_a_time_that_is_none_is_refused_before_anything_is_installed_or_built(self):
        folder = self.copy("scripts/fuzz", "Makefile")
        for time in self.TIMES:
            self.assert_says(self.refused(folder / "scripts/fuzz", "--time", time), "fuzz: --time takes")
            done = self.refused("make", "-C", folder, "fuzz", f"TIME={time}")
            self.assertEqual(done.returncode, 2, done)
            self.assertRegex(done.stderr, r"(?m)^fuzz: --time takes")
        self.assert_says(self.refused(folder / "scripts/fuzz", "--time"), "fuzz: --time takes")


class Site(Scripts):
    """Pages that link to each other, and one fault at a time."""

    FILES = {"index.html": '<h1 id="top"></h1><a href="other.html#there">x</a><a href="#top">x</a><img src="a.svg">',
             "other.html": '<a name="there"></a><a href="https://elsewhere.example/">x</a>', "a.svg": "",
             "menudata.js": '{text:"x",url:"other.html"}', "search/all_0.js": "['x',['x',['../other.html#there',1,'']]]"}

    def look(self, **changed):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "search").mkdir()
        for name, text in (self.FILES | changed).items():
            (folder / name).write_text(text, encoding="utf-8")
        return self.refused(SOURCE / "scripts/site-links", folder)

    def test_links_that_lead_somewhere_are_fine(self):
        done = self.look()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_link_that_leads_nowhere_is_found(self):
        for name, here, nowhere in [("index.html", "other.html", "gone.html"), ("index.html", "l#there", "l#gone"),
                                    ("index.html", '"#top', '"#gone'), ("index.html", "a.svg", "gone.svg"),
                                    ("menudata.js", "other", "gone"), ("search/all_0.js", "#there", "#gone")]:
            done = self.look(**{name: self.FILES[name].replace(here, nowhere)})
            self.assert_says(done, f"site-links: {name}: there is no ", status=1)

    def test_a_folder_without_pages_is_none_of_a_site(self):
        self.assert_says(self.refused(SOURCE / "scripts/site-links", "/no/such"), "no pages", status=1)


class Paths(Scripts):
    def test_the_single_header_cannot_be_where_there_is_no_folder(self):
        amalgamate = SOURCE / "scripts/amalgamate"
        for options in [["/no/such/file"], [os.devnull, "--depfile", "/no/such/file"]]:
            self.assert_says(self.refused(amalgamate, *options), "/no/such/file: No such file", status=1)
        self.assertEqual(self.refused(amalgamate, "--depfile", os.devnull).returncode, 2)

    def test_the_single_header_is_not_made_of_what_is_missing(self):
        folder = self.copy("scripts/amalgamate", "LICENSE")
        self.assert_says(self.refused(folder / "scripts/amalgamate"), "tvec.hpp: No such file", status=1)

    def test_pages_are_read_where_git_knows_them(self):
        folder = self.copy("scripts/links", "scripts/markdown.py")
        self.assert_says(self.refused(folder / "scripts/links", env={**os.environ, "GIT_DIR": "/no"}),
                         "not a git repository", status=1)

    def test_links_to_what_is_missing_or_has_no_headings(self):
        folder = self.copy("scripts/links", "scripts/markdown.py")
        if not shutil.which("git"):
            self.skipTest("no git here")
        self.assertEqual(self.refused("git", "init", "--quiet", folder).returncode, 0)
        for link in ["gone.md", "gone.md#x", "scripts#x", "/#x", "page.md#x"]:
            (folder / "page.md").write_text(f"[a link]({link})\n", encoding="utf-8")
            self.assert_says(self.refused(folder / "scripts/links"), "page.md:1: ", status=1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
