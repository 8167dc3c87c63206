#!/usr/bin/env python3
"""Asks the scripts for what they cannot do: each says so in a line, and before it has done anything.

usage: scripts.py SOURCE_FOLDER
"""

import json
import os
import pathlib
import re
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
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, folder / name)
        return folder


class Run(Scripts):
    def start(self, *options):
        """Where there are no programs, so that it ends when it has read its options."""
        return self.refused(SOURCE / "servers/run-under-load", *options,
                            env={**os.environ, "BUILD_DIR": "/no/such"})

    def test_one_server_is_asked_for_and_not_two(self):
        for options in [["--coroutines", "--shards", "2"], ["--shards", "2", "--coroutines"]]:
            self.assert_says(self.start(*options), "run: --coroutines and --shards are two servers")

    def test_a_value_may_follow_an_equals_sign(self):
        for options, server in [(["--seconds=2", "--coroutines"], "coroutine_server"),
                                (["--shards=2", "--idle-ms=5"], "sharded_server")]:
            self.assert_says(self.start(*options), f"run: no /no/such/servers/{server}", status=1)

    def test_a_value_that_is_none_is_refused_however_it_is_given(self):
        for options in [["--seconds=x"], ["--seconds="], ["--seconds", "x"], ["--seconds"],
                        ["--seconds=1=2"], ["--nothing=1"]]:
            self.assert_says(self.start(*options), "run: (no option )?'?--")


class RunDurable(Scripts):
    def test_a_value_that_is_none_is_refused_however_it_is_given(self):
        for options in [["--seconds=x"], ["--kills", "0"], ["--rate"], ["--nothing=1"]]:
            self.assert_says(self.refused(SOURCE / "durable/examples/run-orders", *options), "run-durable: (no option )?'?--")

    def test_it_says_what_it_does_before_it_does_it(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "durable/examples").mkdir(parents=True)
        orders = folder / "durable/examples/orders"
        orders.write_text('#!/bin/sh\ncase "$*" in *--finish*) echo finished ;; *) exec sleep 60 ;; esac\n')
        orders.chmod(0o755)
        done = self.refused(SOURCE / "durable/examples/run-orders", "--seconds=1", "--kills=1",
                            env={**os.environ, "BUILD_DIR": str(folder), "STORE": "sqlite"})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertRegex(done.stdout, r"\Arun-durable: orders are placed.*\nrun-durable: kill 1 of 1, .*\n"
                                      r"run-durable: the last process finishes.*\nfinished\n\Z")

    def test_a_store_that_is_none_is_refused(self):
        self.assert_says(self.refused(SOURCE / "durable/examples/run-orders", "--seconds=1", env={**os.environ, "STORE": "none"}),
                         "run-durable: STORE is sqlite or redis")


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
        folder = self.copy("scripts/checks/fuzz", "Makefile")
        for time in self.TIMES:
            self.assert_says(self.refused(folder / "scripts/checks/fuzz", "--time", time), "fuzz: --time takes")
            done = self.refused("make", "-C", folder, "fuzz", f"TIME={time}")
            self.assertEqual(done.returncode, 2, done)
            self.assertRegex(done.stderr, r"(?m)^fuzz: --time takes")
        self.assert_says(self.refused(folder / "scripts/checks/fuzz", "--time"), "fuzz: --time takes")


class Made(Scripts):
    """By the front door, in a project that has tvec's options and next to nothing to build."""

    def setUp(self):
        self.folder = self.copy("Makefile", "meson_options.txt", "scripts/build/configure", "scripts/build/install", "scripts/build/ninja")
        self.folder.chmod(0o755)
        (self.folder / "scripts/bootstrap").write_text("#!/bin/sh\n")
        (self.folder / "scripts/bootstrap").chmod(0o755)
        (self.folder / "meson.build").write_text(
            "project('small')\ninstall_data('meson.build', install_dir: 'share/small')\n")
        self.prefix = self.folder / "prefix"

    def make(self, *words, **more):
        return self.refused("make", "-C", self.folder, *words, env={"PATH": os.environ["PATH"]}, **more)

    def made(self, *words, **more):
        done = self.make(*words, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def assert_makes_say(self, done, line):
        """One line and make's own, which says where it was."""
        self.assertEqual(done.returncode, 2, done)
        self.assertRegex(done.stderr, rf"\A{line}\nmake: [^\n]*\n\Z")

    def option(self, name, build="build"):
        done = self.refused("meson", "introspect", "--buildoptions", self.folder / build)
        return next(option["value"] for option in json.loads(done.stdout) if option["name"] == name)


class Configure(Made):
    def test_what_is_asked_for_is_in_force_in_a_folder_that_is_configured_otherwise(self):
        self.made("configure")
        self.assertIn("configuring build, c++", self.made("configure", "SETUP=-Dprobes=auto -Dbench=auto"))
        self.assertEqual((self.option("probes"), self.option("bench")), ("auto", "auto"))
        self.assertIn("configuring build, g++", self.made("configure", "SETUP=-Dbench=auto", "CXX=g++"))
        self.assertEqual((self.option("probes"), self.option("bench")), ("disabled", "auto"))
        self.assertIn("configuring", self.made("configure", "SETUP=-Dbench=auto", "CXX=g++", "CXXFLAGS=-g1"))
        self.assertNotIn("configur", self.made("configure", "SETUP=-Dbench=auto", "CXX=g++", "CXXFLAGS=-g1"))

    def test_a_folder_stays_as_it_is_if_nothing_is_asked_for_and_that_is_said(self):
        self.made("configure", "SETUP=-Dprobes=auto", "CXX=g++")
        self.assertIn("build is configured with CXX=g++ -Dprobes=auto\n", self.made("configure"))
        self.assertEqual(self.option("probes"), "auto")

    def test_what_cannot_be_is_refused_and_leaves_no_folder_that_seems_to_be_configured(self):
        self.made("configure")
        for _ in range(2):
            self.assert_makes_say(self.make("configure", "SETUP=-Dnonsense=1"),
                                  'configure: build: Unknown options: "nonsense"')
        self.assertIn("configuring build", self.made("configure"))


class Hooks(Made):
    def test_it_says_what_it_has_set(self):
        if not shutil.which("git"):
            self.skipTest("no git here")
        self.assertEqual(self.refused("git", "init", "--quiet", self.folder).returncode, 0)
        self.assertIn("core.hooksPath is scripts/hooks", self.made("hooks"))
        self.assertEqual(self.refused("git", "-C", self.folder, "config", "core.hooksPath").stdout, "scripts/hooks\n")


class Subjects(Scripts):
    HOOK = SOURCE / "scripts/hooks/commit-msg"

    def judged(self, subject):
        message = self.copy() / "message"
        message.write_text(f"# a comment of git\n{subject}\n\nThe reason; in any words.\n", encoding="utf-8")
        return self.refused(self.HOOK, message)

    def test_an_imperative_of_at_most_72_columns_is_accepted(self):
        for subject in ["Arm timers", "Put " + "x" * 68, "Merge branch 'x'"]:
            self.assertEqual(self.judged(subject).returncode, 0, subject)

    def test_other_subjects_are_refused_with_the_reason(self):
        for subject, reason in [("Put " + "x" * 69, "73 columns"), ("Arm timers; cancel them", "a semicolon"),
                                ("arm timers", "imperative"), ("Armed timers", "imperative"), ("The timers", "imperative")]:
            self.assert_says(self.judged(subject), reason, status=1)


class Install(Made):
    def install(self, *words, **more):
        return self.make("install", f"PREFIX={self.prefix}", *words, **more)

    def installed(self):
        return {str(path.relative_to(self.prefix)) for path in self.prefix.rglob("*") if path.is_file()}

    def test_nothing_is_left_of_what_was_asked_for_last_time(self):
        self.install("SETUP=-Dprobes=auto --datadir=other")
        self.assertEqual(self.option("probes", "build-install"), "auto")
        (self.folder / "meson.build").write_text(
            "project('small')\ninstall_data('meson.build', install_dir: 'share/new')\n")
        self.install()
        self.assertEqual(self.option("probes", "build-install"), "disabled")
        self.assertEqual(self.installed(), {"share/new/meson.build"})

    def test_what_was_installed_is_removed_and_nothing_else(self):
        self.install()
        other = self.prefix / "share/others"
        other.write_text("")
        self.made("uninstall", f"PREFIX={self.prefix}")
        self.assertEqual(self.installed(), {"share/others"})
        self.assertEqual(list((self.prefix / "share").iterdir()), [other])
        self.assert_makes_say(self.make("uninstall", f"PREFIX={self.prefix}"),
                              f"install: nothing is known here of an installation in {self.prefix}")

    def test_staged_it_is_where_it_was_staged(self):
        self.made("install", "PREFIX=/p", "DESTDIR=stage")
        staged = self.folder / "stage/p/share/small/meson.build"
        self.assertTrue(staged.is_file())
        self.made("uninstall", "PREFIX=/p", "DESTDIR=stage")
        self.assertFalse((self.folder / "stage").exists())

    def test_a_prefix_that_cannot_be_is_refused_before_anything_is_built(self):
        for prefix, why in [("", "the prefix has to be a path from the root, not ''"),
                            ("here", "the prefix has to be a path from the root, not 'here'"),
                            ("/a b", "the prefix '/a b' has a blank, .*"),
                            ("/dev/null/x", "/dev/null is no folder")]:
            self.assert_makes_say(self.make("install", f"PREFIX={prefix}"), f"install: {why}")
        self.assertFalse((self.folder / "build-install").exists())

    def test_without_permission_it_says_where(self):
        self.prefix.mkdir(mode=0o555)
        somebody = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}
        self.assert_makes_say(self.install(**somebody),
                              f"install: no permission to write into {self.prefix}; .*")

    def test_nothing_is_left_of_build_folders(self):
        self.made("configure")
        self.install()
        self.made("clean")
        self.assertEqual(list(self.folder.glob("build*")), [])


class Release(Scripts):
    def test_where_there_are_no_commits_there_is_no_release(self):
        self.assert_says(self.refused(self.copy("scripts/build/dist") / "scripts/build/dist"), "dist: .* no clone", status=1)

    def test_what_is_unpacked_is_formatted(self):
        if not shutil.which("clang-format"):
            self.skipTest("no clang-format here")
        folder = self.copy("scripts/check", ".clang-format")
        (folder / "src").mkdir()
        (folder / "src/a.cpp").write_text("int  a ;\n")
        self.assertEqual(self.refused(folder / "scripts/check", "formatted").returncode, 0)
        self.assertEqual((folder / "src/a.cpp").read_text(), "int a;\n")


class Site(Scripts):
    """Pages that link to each other, and one fault at a time."""

    FILES = {"index.html": '<h1 id="top"></h1><a href="other.html#there">x</a><a href="#top">x</a><img src="a.svg">',
             "other.html": '<a name="there"></a><a href="https://elsewhere.example/">x</a>', "a.svg": "",
             "menudata.js": '{text:"x",url:"other.html"}', "search/sections.js": 'x([\n["a", "b", "other.html#there", "c"]\n])'}

    def look(self, **changed):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "search").mkdir()
        for name, text in (self.FILES | changed).items():
            (folder / name).write_text(text, encoding="utf-8")
        return self.refused(SOURCE / "scripts/pages/site-links", folder)

    def test_links_that_lead_somewhere_are_fine(self):
        done = self.look()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_link_that_leads_nowhere_is_found(self):
        for name, here, nowhere in [("index.html", "other.html", "gone.html"), ("index.html", "l#there", "l#gone"),
                                    ("index.html", '"#top', '"#gone'), ("index.html", "a.svg", "gone.svg"),
                                    ("menudata.js", "other", "gone"), ("search/sections.js", "#there", "#gone")]:
            done = self.look(**{name: self.FILES[name].replace(here, nowhere)})
            self.assert_says(done, f"site-links: {name}: there is no ", status=1)

    def test_a_folder_without_pages_is_none_of_a_site(self):
        self.assert_says(self.refused(SOURCE / "scripts/pages/site-links", "/no/such"), "no pages", status=1)


class Guides(Scripts):
    def test_no_comment_stands_behind_words_since_doxygen_drops_the_blank_after_it(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.assertEqual(self.refused(SOURCE / "scripts/pages/doxygen-guides", folder).returncode, 0)
        for guide in folder.glob("*.md"):
            for line in guide.read_text(encoding="utf-8").split("\n"):
                self.assertNotRegex(re.sub("`[^`]*`", "code", line), r"\S.*<!--", guide.name)


class Paths(Scripts):
    def test_the_single_header_cannot_be_where_there_is_no_folder(self):
        amalgamate = SOURCE / "scripts/build/amalgamate"
        for options in [["/no/such/file"], [os.devnull, "--depfile", "/no/such/file"]]:
            self.assert_says(self.refused(amalgamate, *options), "/no/such/file: No such file", status=1)
        self.assertEqual(self.refused(amalgamate, "--depfile", os.devnull).returncode, 2)

    def test_the_single_header_is_not_made_of_what_is_missing(self):
        folder = self.copy("scripts/build/amalgamate", "LICENSE")
        self.assert_says(self.refused(folder / "scripts/build/amalgamate"), r"\.hpp: No such file", status=1)

    def test_pages_are_read_where_git_knows_them(self):
        folder = self.copy("scripts/pages/page-links", "scripts/pages/markdown.py")
        self.assert_says(self.refused(folder / "scripts/pages/page-links", env={**os.environ, "GIT_DIR": "/no"}),
                         "not a git repository", status=1)

    def test_links_to_what_is_missing_or_has_no_headings(self):
        folder = self.copy("scripts/pages/page-links", "scripts/pages/markdown.py")
        if not shutil.which("git"):
            self.skipTest("no git here")
        self.assertEqual(self.refused("git", "init", "--quiet", folder).returncode, 0)
        for link in ["gone.md", "gone.md#x", "scripts#x", "/#x", "page.md#x"]:
            (folder / "page.md").write_text(f"[a link]({link})\n", encoding="utf-8")
            self.assert_says(self.refused(folder / "scripts/pages/page-links"), "page.md:1: ", status=1)

    def test_each_test_is_named_where_tests_are_described(self):
        folder = self.copy("scripts/pages/page-links", "scripts/pages/markdown.py")
        if not shutil.which("git"):
            self.skipTest("no git here")
        self.assertEqual(self.refused("git", "init", "--quiet", folder).returncode, 0)
        for path, text in [("docs/testing.md", "`one`"), ("tests/core/one.cpp", ""), ("tests/programs/part.py", "")]:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        self.assertEqual(self.refused(folder / "scripts/pages/page-links").returncode, 0)
        for path in "tests/core/two.cpp", "durable/tests/three.cpp":
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).touch()
            self.assert_says(self.refused(folder / "scripts/pages/page-links"), f"does not name {path}", status=1)
            (folder / path).unlink()

    def test_each_term_of_the_glossary_is_in_the_code(self):
        folder = self.copy("scripts/pages/page-links", "scripts/pages/markdown.py")
        if not shutil.which("git"):
            self.skipTest("no git here")
        self.assertEqual(self.refused("git", "init", "--quiet", folder).returncode, 0)
        (folder / "docs").mkdir()
        (folder / "src").mkdir()
        (folder / "src/one.cpp").write_text("int root_slots;", encoding="utf-8")
        for term, fault in [("root", ""), ("twig", "docs/glossary.md:1: no code has the word 'twig'")]:
            (folder / "docs/glossary.md").write_text(f"| {term} | What it is. |\n", encoding="utf-8")
            done = self.refused(folder / "scripts/pages/page-links")
            self.assertEqual((done.returncode, done.stderr.strip()), (1 if fault else 0, fault))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
