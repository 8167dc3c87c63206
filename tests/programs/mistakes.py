#!/usr/bin/env python3
"""Compiles mistakes, and looks whether the compiler says early what to write instead.

usage: mistakes.py [--show] COMPILER FOLDER [ARGUMENT...]

Each program of FOLDER begins with what has to come of it:

    // says: SENTENCE            it is refused in these words
    // g++ says: SENTENCE        the same, where compilers have words of their own
    // lines: N                  among the first N lines, or
    // legal: REASON             it is no mistake, and not refused
    // defined: NAME             is defined from the beginning

And each public header in C++ is compiled as C++17, which is a mistake, too.
COMPILER is g++ or clang++, and ARGUMENTs are for it, -I with the headers first. What a program includes from liburing is
skipped where that is not. --show prints what it says, and after how many lines.
"""

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
END = "here the program ends"


class Compiler:
    """One that has the common headers precompiled: they are most of the work."""

    def __init__(self, name, folder, arguments):
        self.name = name
        self.headers = pathlib.Path(arguments[0].removeprefix("-I"))
        common = folder / name / "common.hpp"
        common.parent.mkdir()
        common.write_text(COMMON)
        precompiled = common.with_suffix(".hpp.pch" if name == "clang++" else ".hpp.gch")
        self.bare = [name, *FLAGS, *arguments]
        once = ["-fpch-instantiate-templates"] if name == "clang++" else []  # and not in each program
        subprocess.run([*self.bare, *once, "-x", "c++-header", common, "-o", precompiled], check=True)
        self.command = [*self.bare, "-include", common]
        uring = common.with_name("uring.cpp")
        uring.write_text("#include <liburing.h>\n")
        self.has_uring = self.says(uring)[0]

    def can(self, program):
        """Whether there is what the program includes."""
        return self.has_uring or "tvec/uring" not in program.read_text()

    def for_program(self, program):
        defined = re.search(r"^// defined: (\w+)$", program.read_text(), re.MULTILINE)
        return [*self.bare, f"-D{defined[1]}"] if defined else self.command

    def says(self, program):
        """Whether it takes the program, and its lines."""
        return run([*self.for_program(program), "-fsyntax-only", program])

    def takes_all(self, programs):
        """Whether it takes them as one; if not, one may be what cannot be beside others, or in a namespace."""
        text = "".join(f'namespace of_{n} {{\n#line 1 "{p}"\n{p.read_text()}\n}}\n' for n, p in enumerate(programs))
        are_alike = all(self.for_program(p) == self.command for p in programs) and "#define" not in text
        return are_alike and run([*self.command, "-fsyntax-only", "-x", "c++", "-"], text)[0]

    def first_lines(self, program):
        """The lines with which all that it says begins, if the program has an error before its end, or none.

        g++ instantiates what templates of the headers are used there in each program, after its end. That is nine
        tenths of its work, and left out where an error behind the program would be the second and is the last.
        """
        if self.name != "g++":
            return []
        text = f'#line 1 "{program}"\n{program.read_text()}\nstatic_assert(false, "{END}");\n'
        _, lines = run([*self.for_program(program), "-fmax-errors=1", "-fsyntax-only", "-x", "c++", "-"], text)
        return [] if any(END in line for line in lines) else lines


def run(command, text=""):
    """Whether a compiler takes a text, and its lines, but for those that lead to a header."""
    done = subprocess.run(command, input=text, text=True, capture_output=True, env=os.environ | {"LC_ALL": "C"})
    lines = [line for line in done.stderr.splitlines() if not re.match(r"In file included from| +from ", line)]
    return done.returncode == 0, lines


def wanted(program, compiler):
    """What a program's first lines say: the sentence, or None if it is legal, and the bound."""
    head = dict(re.findall(r"^// ([a-z+ ]+): (.+)$", program.read_text(), re.MULTILINE))
    if "legal" in head:
        return None, 0
    return head.get(f"{compiler.name} says") or head["says"], int(head["lines"])


def found_after(sentence, lines):
    """How many lines it takes to have read the sentence, or None."""
    return next((n for n, line in enumerate(lines, 1) if sentence in line), None)


def fault_of_legal(program, compiler):
    """What is wrong if a compiler refuses a program that is no mistake, or ""."""
    taken, lines = compiler.says(program)
    return "" if taken else "\n".join([f"{compiler.name} {program.stem}: refused", *lines[:20]])


def fault(program, compiler, show):
    """What is wrong with what a compiler says of a mistake, or ""."""
    sentence, most = wanted(program, compiler)
    if not show and found_after(sentence, compiler.first_lines(program)[:most]):
        return ""
    taken, lines = compiler.says(program)
    title = f"{compiler.name} {program.stem}"
    after = found_after(sentence, lines)
    if show:
        print("\n".join([f"{title}: {after} of {len(lines)}", *lines[:after or 20], ""]))
    if not taken and after is not None and after <= most:
        return ""
    why = "taken" if taken else f"not in the first {most} lines (but {after}): {sentence}"
    return "\n".join([f"{title}: {why}", *lines[:20]])


def fault_of_older_standard(header, compiler):
    """What is wrong with what a compiler says first of a header that it takes for C++17, or "".

    clang++ reads on after that, and finds no other headers here, which take it long.
    """
    _, lines = run([compiler.name, "-std=c++17", "-nostdinc", "-fsyntax-only", "-x", "c++", "-I", compiler.headers,
                    "-include", header, os.devnull])
    if "error: " in (lines or [""])[0] and "tvec needs C++20: compile with -std=c++20" in lines[0] and len(lines) < 9:
        return ""
    return "\n".join([f"{compiler.name} -std=c++17 {header}: not told in the first line, alone", *lines[:20]])


def public_headers(compiler):
    """Those in C++ but the one for the preprocessor, which any standard can read."""
    for header in sorted(compiler.headers.glob("tvec/**/*.hpp")):
        if "detail" not in header.parts and header.name != "version.hpp":
            yield header


def main(arguments):
    show = arguments[0] == "--show"
    name, where, *others = arguments[show:]
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        compiler = Compiler(name, pathlib.Path(folder), others)
        programs = [p for p in sorted(pathlib.Path(where).glob("*.cpp")) if compiler.can(p)]
        legal = [p for p in programs if wanted(p, compiler)[0] is None]
        mistakes = [p for p in programs if p not in legal]
        headers = list(public_headers(compiler))
        refused = [] if compiler.takes_all(legal) else legal
        said = [*pool.map(lambda p: fault_of_legal(p, compiler), refused),
                *pool.map(lambda p: fault(p, compiler, show), mistakes),
                *pool.map(lambda h: fault_of_older_standard(h, compiler), headers)]
        faults = [f for f in said if f]
    compiled = len(programs) + len(headers)
    print("\n\n".join([*faults, f"mistakes: {compiled} compiled, {len(faults)} not as they should"]))
    return 1 if faults or not programs or not headers else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
