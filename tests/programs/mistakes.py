#!/usr/bin/env python3
"""Compiles wrong code, and checks that the compiler says early what to write instead.

TABLE has a row for each mistake. All rows are one program, which the compiler answers at once. Rows without an answer are compiled
again, because a compiler that has found errors may leave the end of a program alone. Each public header in C++ is also compiled as
C++17, which is a mistake, too, and so are two macros that do not go with the library.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys

COMMAND = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "-"]
EARLY = 20  # lines of a compiler's answer
SMALL = "TVEC_SMALL_WHEEL goes with -Dtvec=tvec_small: use the flags of pkg-config"
TINY = "TVEC_TINY_WHEEL goes with -Dtvec=tvec_tiny: use the flags of pkg-config"
TAGS = "pointers have tags here: build it with -Dtagged_addresses=true"


@dataclasses.dataclass
class Row:
    """Code of the table, and the words that are expected of a compiler, or None."""

    first: int  # lines in the table
    last: int
    code: str
    words: str | None


def words_of(comment, compiler):
    """The words of a comment for this compiler, or None."""
    if not re.match(r"(g|clang)\+\+: ", comment):
        return comment
    return dict(re.findall(r"(\S+\+\+): (.*?)(?=  \S+\+\+: |$)", comment)).get(compiler)


def program_of(table, compiler, skips, only=None):
    """The rows of the table, or only those that begin on given lines, and a program whose lines are those of the table."""
    rows, lines, pending, section = [], [], [], None
    for number, line in enumerate(table.read_text().splitlines(), 1):
        lines.append("" if section else line)
        if line.startswith("// --- "):
            section = line.removeprefix("// --- ")
        if not section or not line or line.startswith("// ") and not pending:
            continue
        code, mark, comment = line.partition("//")
        pending += [code.strip()]
        if not mark:
            continue
        row = Row(number - len(pending) + 1, number, "\n".join(pending), words_of(comment.strip(), compiler))
        pending = []
        if row.words is None or any(word in row.code for word in skips) or only is not None and row.first not in only:
            continue
        rows.append(row)
        begin, end = ("inline void f() {", "}") if section == "statements" else ("", "")
        body = f"namespace row_{row.first} {{ {begin} {row.code} {end} }}".split("\n")
        lines[row.first - 1:row.last] = body
    return rows, "\n".join([f'#line 1 "{table.name}"', *lines, ""])


def run(command, text=""):
    done = subprocess.run(command, input=text, text=True, capture_output=True, env=os.environ | {"LC_ALL": "C"})
    return [line for line in done.stderr.splitlines() if not re.match(r"In file included from| +from ", line)]


def answers(lines):
    """The answers of a compiler: each is an error, with the lines before it that say where, and its notes."""
    answer, has_error = [], False
    for line in lines:
        says_where = re.search(r": (In|At) |: +(required|recursively required)|: in .constexpr. expansion", line)
        is_error = ": error: " in line or ": fatal error: " in line
        if has_error and (is_error or says_where and "note:" not in line):
            yield answer
            answer, has_error = [], False
        answer.append(line)
        has_error |= is_error
    yield answer


def lines_about(table, rows, said):
    """The lines that a compiler says about each row, by its first line."""
    about = {row.first: [] for row in rows}
    row_at = {n: row.first for row in rows for n in range(row.first, row.last + 1)}
    for answer in answers(said):
        for number in dict.fromkeys(int(n) for n in re.findall(rf"(?:{re.escape(table.name)}:|\brow_)(\d+)", "\n".join(answer))):
            if number in row_at:
                about[row_at[number]] += answer
    return about


def faults_of_rows(table, rows, about, show):
    """Yields what a compiler does not say about the rows."""
    for row in rows:
        lines = about[row.first]
        if show == row.first:
            print("\n".join(lines))
        if row.words == "compiles":
            fault = "is refused" if lines else None
        elif not lines:
            fault = "compiles"
        else:
            fault = None if any(row.words in line for line in lines[:EARLY]) else f"not in the first {EARLY} lines: {row.words}"
        if fault:
            yield "\n".join([f"{table}:{row.first}: {row.code.splitlines()[0]}: {fault}", *lines[:EARLY]])


def fault_of_macro(command, name, words):
    """Yields what a compiler does not say about a program with that macro."""
    lines = run([*command[:-4], f"-D{name}", *command[-4:]], '#include "tvec/tvec.hpp"\n')
    if not any(words in line for line in lines[:EARLY]):
        yield "\n".join([f"-D{name}: not in the first {EARLY} lines: {words}", *lines[:EARLY]])


def fault_of_older_standard(header, compiler, headers):
    """Yields that a header, compiled as C++17, does not ask for C++20 in the first line.

    clang++ reads on after the first error. Without the standard headers it ends early.
    """
    lines = run([compiler, "-std=c++17", "-nostdinc", "-fsyntax-only", "-x", "c++", "-I", headers, "-include", header, os.devnull])
    if "error: " not in (lines or [""])[0] or "tvec needs C++20: compile with -std=c++20" not in lines[0] or len(lines) >= 9:
        yield "\n".join([f"{compiler} -std=c++17 {header}: not told in the first line, alone", *lines[:EARLY]])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", type=int, metavar="LINE", help="print the answer to the row that begins there")
    parser.add_argument("compiler", choices=("g++", "clang++"))
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="for the compiler: first -I with the headers")
    options = parser.parse_args()
    compiler, headers = options.compiler, pathlib.Path(options.arguments[0].removeprefix("-I"))
    unlimited = "-ferror-limit=0" if compiler == "clang++" else "-fmax-errors=0"
    command = [compiler, *options.arguments, unlimited, *COMMAND]
    needs = {"io_uring ": "liburing.h", "asio_guest": "boost/asio/thread_pool.hpp",
             "asio_shared": "boost/asio/thread_pool.hpp"}
    skips = [word for word, header in needs.items() if run(command, f"#if !__has_include(<{header}>)\n#error\n#endif\n")]
    rows, program = program_of(options.table, compiler, skips)
    public = [h for h in sorted(headers.glob("tvec/**/*.hpp")) if "detail" not in h.parts and h.name != "version.hpp"]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        said = pool.submit(run, command, program)
        older = pool.map(lambda h: list(fault_of_older_standard(h, compiler, headers)), public)
        macros = pool.map(lambda m: list(fault_of_macro(command, *m)), [("TVEC_SMALL_WHEEL", SMALL), ("TVEC_TINY_WHEEL", TINY), ("__SANITIZE_HWADDRESS__", TAGS)])
        about = lines_about(options.table, rows, said.result())
        rest, program = program_of(options.table, compiler, skips, {first for first, lines in about.items() if not lines})
        about |= lines_about(options.table, rest, run(command, program))
        faults = [*faults_of_rows(options.table, rows, about, options.show), *sum(older, []), *sum(macros, [])]
    print("\n\n".join([*faults, f"mistakes: {len(rows)} rows and {len(public)} headers, {len(faults)} not as expected"]))
    return 1 if faults or not rows or not public else 0


if __name__ == "__main__":
    sys.exit(main())
