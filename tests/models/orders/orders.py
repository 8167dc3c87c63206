#!/usr/bin/env python3
"""usage: orders.py ORDERS [--all]

Compares the memory orders of the library with the table of README.md, beside this file. Each atomic operation of the
sources has a row, with its orders. An order that the table says a program needs is weakened alone, and that program must
fail. Before that ORDERS runs all programs as they are. With --all, it runs all programs with each of the other orders
weakened, alone and together: none may fail."""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
OPERATION = re.compile(r"\.(load|store|exchange|fetch_and|fetch_or|fetch_add|compare_exchange_(?:weak|strong)|wait)\(")
ORDER = re.compile(r"\b(?:memory_order_)?(relaxed|acquire|release|acq_rel|seq_cst)(?:_order)?\b")
ACTS = {"load": "l", "store": "s", "exchange": "x", "fetch_and": "a", "fetch_or": "o", "fetch_add": "p", "wait": "w"}
EXPLORED = "mailbox_core.cpp", "mailbox_core.hpp", "tsc_clock.hpp"


def operations(path):
    """The operations of a source in their order: lines, name, orders."""
    text = path.read_text()
    for found in OPERATION.finditer(text):
        end, depth = found.end(), 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        is_debugging = text[text.rfind("\n", 0, found.start()) + 1:].lstrip().startswith("assert(")
        if (orders := ORDER.findall(text[found.end():end])) and not is_debugging:
            lines = range(text.count("\n", 0, found.start()) + 1, text.count("\n", 0, end) + 2)
            yield lines, found[1], ", ".join(orders)


def table():
    """The rows of README.md: file, place, name, orders, and what needs them."""
    file = None
    for line in (HERE / "README.md").read_text().splitlines():
        if line.startswith("### "):
            file = line[4:].strip()
        elif line.startswith("| ") and file and not line.startswith("| where"):
            yield file, *(cell.strip() for cell in line.strip("|").split("|"))


def halves(name, orders):
    """What may be weakened of an operation: name, half of an exchange, order instead."""
    success, *failure = orders.split(", ")
    kinds = {"acq_rel": [("acquire", "s", "release"), ("release", "s", "acquire")],
             "relaxed": []}.get(success, [(success, "s", "relaxed")])
    return kinds + [("failure", "f", "relaxed") for order in failure if order != "relaxed"]


def weakened(file, lines, name, half, order):
    act = ACTS.get(name, "c")
    return [word for line in lines for word in ("--weaken", f"{pathlib.Path(file).name}:{line}:{act}:{half}:{order}")]


def compare():
    """Ends if the table is not of these sources. Returns its orders: row, program or reason, options that weaken."""
    rows, found = list(table()), []
    for path in sorted(p for folder in ("include", "src") for p in (ROOT / folder).rglob("*.?pp")):
        file = str(path.relative_to(ROOT))
        mine = [row for row in rows if row[0] == file]
        for (lines, name, orders), row in zip(have := list(operations(path)), mine):
            if (name, orders) != row[2:4]:
                sys.exit(f"orders: {file}:{lines[0]} is {name} ({orders}), the table has {row[1]}: {row[2]} ({row[3]})")
            needs = dict(entry.split(": ", 1) for entry in row[4].split("; ") if ": " in entry)
            for kind, half, order in halves(name, orders):
                if kind not in needs:
                    sys.exit(f"orders: {file}:{lines[0]}: the table does not say what needs {kind} of {name}")
                found.append((f"{file}:{lines[0]} {name}, {kind}", needs[kind],
                              weakened(file, lines, name, half, order) if path.name in EXPLORED else None))
        if len(have) != len(mine):
            sys.exit(f"orders: {file} has {len(have)} atomic operations, the table {len(mine)} rows")
    return found


def main(program, *options):
    def run(*words):
        return subprocess.run([program, *words], stdout=subprocess.PIPE, text=True)

    found = compare()
    names = set(run("--list").stdout.splitlines())
    as_it_is = run()
    print(as_it_is.stdout)
    failed = ["a program, as it is"] if as_it_is.returncode else []
    kept = [(row, weaker) for row, needs, weaker in found if weaker and needs not in names]
    for row, needs, weaker in found:
        if weaker and needs in names:
            if (said := run(needs, *weaker)).returncode != 1:
                failed.append(f"{row}: {needs} holds without it")
            print(f"{row}: {' '.join(said.stdout.splitlines()[:2])}")
    for row, weaker in kept + [("all of them", sum((w for _, w in kept), []))] if "--all" in options else []:
        if (said := run(*weaker)).returncode:
            failed.append(f"{row}: is needed")
            print(row, said.stdout)
    sys.exit("orders: " + "; ".join(failed) if failed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
