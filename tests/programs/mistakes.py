#!/usr/bin/env python3
"""Compiles mistakes, and checks that the compiler says early what to write instead.

Each file of FOLDER holds cases, and each case is compiled by itself. The text before the first case belongs
to all cases of the file. A case begins with a marker and what is expected of it:

    // --- NAME
    // says: SENTENCE            the compiler refuses the case in these words
    // g++ says: SENTENCE        the same, where compilers have words of their own, or only one of them refuses the case
    // lines: N                  the sentence is among the first N lines
    // legal: REASON             the case is no mistake: the compiler accepts it
    // defined: NAME             this macro is defined from the beginning

Each public header in C++ is also compiled as C++17, which is a mistake, too. Cases that include a header for liburing are
skipped where that library is missing.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

COMMON = """\
#include <array>
#include <memory>
#include <utility>
#include <vector>
#include "tvec/tvec.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#if __has_include(<liburing.h>)
#include "tvec/drivers/uring_timeout.hpp"
#include "tvec/drivers/uring_wait.hpp"
#endif
"""
FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Werror"]
FROM_INPUT = ["-fsyntax-only", "-x", "c++", "-"]
END = "here the program ends"


class Case:
    """One program, as text whose lines are numbered as in its file."""

    def __init__(self, file, shared, line, part):
        self.name, _, body = part.partition("\n")
        self.title = f"{file.name} {self.name}"
        self.text = f'#line 1 "{file}"\n{shared}#line {line + 1} "{file}"\n{body}'
        comments = re.findall(r"^// ([a-z+ ]+): (.+)$", body, re.MULTILINE)
        self.head = dict(comments)
        if len(self.head) < len(comments):
            sys.exit(f"{file}:{line}: {self.name} has a comment twice: is a marker missing?")

    def concerns(self, compiler):
        """Returns whether something is expected of this compiler."""
        return self.is_legal() or any(who in self.head for who in ("says", f"{compiler.name} says"))

    def is_legal(self):
        return "legal" in self.head

    def sentence(self, compiler):
        return self.head.get(f"{compiler.name} says") or self.head["says"]


def cases_of(file):
    """Yields the cases of a file."""
    shared, *parts = re.split("^// --- ", file.read_text(), flags=re.MULTILINE)
    line = shared.count("\n") + 1
    for part in parts:
        yield Case(file, shared, line, part)
        line += part.count("\n")


class Compiler:
    """A compiler with the common headers precompiled: they are most of the work."""

    def __init__(self, name, folder, arguments):
        self.name = name
        self.headers = pathlib.Path(arguments[0].removeprefix("-I"))
        common = folder / name / "common.hpp"
        common.parent.mkdir()
        common.write_text(COMMON)
        precompiled = common.with_suffix(".hpp.pch" if name == "clang++" else ".hpp.gch")
        self.bare = [name, *FLAGS, *arguments]
        once = ["-fpch-instantiate-templates"] if name == "clang++" else []  # not in each case
        subprocess.run([*self.bare, *once, "-x", "c++-header", common, "-o", precompiled], check=True)
        self.command = [*self.bare, "-include", common]
        self.has_uring = run([*self.bare, *FROM_INPUT], "#include <liburing.h>\n")[0]

    def can(self, case):
        """Returns whether a case is for this compiler, and the libraries that it includes are installed."""
        return case.concerns(self) and (self.has_uring or "tvec/drivers/uring_" not in case.text)

    def command_for(self, case):
        defined = case.head.get("defined")
        return [*self.bare, f"-D{defined}"] if defined else self.command

    def says(self, case):
        """Returns whether the compiler accepts a case, and the lines that it prints."""
        return run([*self.command_for(case), *FROM_INPUT], case.text)

    def accepts_all(self, cases):
        """Returns whether the compiler accepts all cases as one program, each in a namespace. The answer may be no although
        each case is legal: some cannot share a program, or cannot be in a namespace."""
        text = "".join(f"namespace of_{n} {{\n{c.text}\n}}\n" for n, c in enumerate(cases))
        are_alike = all(self.command_for(c) == self.command for c in cases) and "#define" not in text
        return are_alike and run([*self.command, *FROM_INPUT], text)[0]

    def first_lines(self, case):
        """Returns the first lines of the compiler's answer, or none if the first error comes after the case's last line.

        At the end of a program, g++ instantiates the templates that the headers use. That is nine tenths of its work. An
        error behind the case, which is the last error allowed, ends the compilation before that.
        """
        if self.name != "g++":
            return []
        text = f'{case.text}\nstatic_assert(false, "{END}");\n'
        _, lines = run([*self.command_for(case), "-fmax-errors=1", *FROM_INPUT], text)
        return [] if any(END in line for line in lines) else lines


def run(command, text=""):
    """Returns whether a compiler accepts a text, and its lines without those that name the including file."""
    done = subprocess.run(command, input=text, text=True, capture_output=True, env=os.environ | {"LC_ALL": "C"})
    lines = [line for line in done.stderr.splitlines() if not re.match(r"In file included from| +from ", line)]
    return done.returncode == 0, lines


def found_after(sentence, lines):
    """Returns the number of the line with the sentence, counted from 1, or None."""
    return next((n for n, line in enumerate(lines, 1) if sentence in line), None)


def fault_of_legal(case, compiler):
    """Returns the message about a legal case that a compiler refuses, or ""."""
    accepted, lines = compiler.says(case)
    return "" if accepted else "\n".join([f"{compiler.name} {case.title}: refused", *lines[:20]])


def fault(case, compiler, show):
    """Returns the message about a mistake that is accepted, or not refused in the expected words, or ""."""
    sentence, most = case.sentence(compiler), int(case.head["lines"])
    if not show and found_after(sentence, compiler.first_lines(case)[:most]):
        return ""
    accepted, lines = compiler.says(case)
    title = f"{compiler.name} {case.title}"
    after = found_after(sentence, lines)
    if show:
        print("\n".join([f"{title}: {after} of {len(lines)}", *lines[:after or 20], ""]))
    if not accepted and after is not None and after <= most:
        return ""
    why = "accepted" if accepted else f"not in the first {most} lines (but {after}): {sentence}"
    return "\n".join([f"{title}: {why}", *lines[:20]])


def fault_of_older_standard(header, compiler):
    """Returns the message about a header that, compiled as C++17, does not ask for C++20 in the first line, or "".

    clang++ reads on after the first error. Without the standard headers it ends early.
    """
    _, lines = run([compiler.name, "-std=c++17", "-nostdinc", "-fsyntax-only", "-x", "c++", "-I", compiler.headers,
                    "-include", header, os.devnull])
    if "error: " in (lines or [""])[0] and "tvec needs C++20: compile with -std=c++20" in lines[0] and len(lines) < 9:
        return ""
    return "\n".join([f"{compiler.name} -std=c++17 {header}: not told in the first line, alone", *lines[:20]])


def public_headers(compiler):
    """Yields the public headers in C++, except `version.hpp`, which any standard can compile."""
    for header in sorted(compiler.headers.glob("tvec/**/*.hpp")):
        if "detail" not in header.parts and header.name != "version.hpp":
            yield header


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print the answers, up to the expected sentence")
    parser.add_argument("--only", metavar="NAME", help="compile this case, and no header")
    parser.add_argument("compiler", choices=("g++", "clang++"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="for the compiler: first -I with the headers")
    options = parser.parse_args()
    cases = [c for file in sorted(options.folder.glob("*.cpp")) for c in cases_of(file)]
    if options.only:
        cases = [c for c in cases if c.name == options.only]
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        compiler = Compiler(options.compiler, pathlib.Path(folder), options.arguments)
        cases = [c for c in cases if compiler.can(c)]
        legal = [c for c in cases if c.is_legal()]
        mistakes = [c for c in cases if not c.is_legal()]
        headers = [] if options.only else list(public_headers(compiler))
        refused = [] if compiler.accepts_all(legal) else legal
        said = [*pool.map(lambda c: fault_of_legal(c, compiler), refused),
                *pool.map(lambda c: fault(c, compiler, options.show), mistakes),
                *pool.map(lambda h: fault_of_older_standard(h, compiler), headers)]
        faults = [f for f in said if f]
    compiled = len(cases) + len(headers)
    print("\n\n".join([*faults, f"mistakes: {compiled} compiled, {len(faults)} not as expected"]))
    return 1 if faults or not cases or not (headers or options.only) else 0


if __name__ == "__main__":
    sys.exit(main())
