"""The project's pages, as far as the checks of them need to understand Markdown."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def files(*patterns):
    """What git knows or would add, by pattern, relative to the root."""
    known = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT, check=False, capture_output=True, text=True)
    if known.returncode != 0:
        finish([f"{ROOT}: {known.stderr.strip()}"])
    return sorted(name for name in set(known.stdout.split("\n")) if name and (ROOT / name).is_file())


def lines_of(page):
    return (ROOT / page).read_text(encoding="utf-8", errors="replace").split("\n")


class Block:
    """Fenced code: its language, its lines, and where the first of them stands."""

    def __init__(self, language, first):
        self.language, self.first, self.lines = language, first, []


def blocks(lines):
    """Yields every fenced block."""
    block = None
    for number, line in enumerate(lines):
        fence = re.fullmatch(r"```(\w*)", line)
        if not fence:
            if block:
                block.lines.append(line)
        elif block:
            yield block
            block = None
        else:
            block = Block(fence[1], number + 1)


def unfenced(lines):
    """Yields the number and text of each line outside fenced blocks."""
    code = {n for b in blocks(lines) for n in range(b.first - 1, b.first + len(b.lines) + 1)}
    return ((number, line) for number, line in enumerate(lines) if number not in code)


def unfenced_by_kind(lines):
    """Yields whether it is code, the number and the text of each line outside fenced blocks. An indented line is code unless
    it goes on with a paragraph."""
    is_code, before = False, ""
    for number, line in unfenced(lines):
        is_code = line.startswith("    ") and (is_code or not before.strip())
        yield is_code, number, line
        before = line


def prose(lines):
    """Yields the number and text of each line that is not code."""
    return ((number, line) for is_code, number, line in unfenced_by_kind(lines) if not is_code)


def indented(lines):
    """Yields the number and text of each line of an indented block."""
    return ((number, line) for is_code, number, line in unfenced_by_kind(lines) if is_code)


def headings(lines):
    """Yields the level and text of each heading."""
    for _, line in prose(lines):
        found = re.fullmatch(r"(#+) +(.*?)\s*", line)
        if found:
            yield len(found[1]), found[2]


def anchor(heading, taken):
    """The anchor that GitHub makes of a heading, where those of the headings before are taken."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
    first = name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
    count = 0
    while name in taken:
        count += 1
        name = f"{first}-{count}"
    return name


def finish(faults):
    """Ends a check: says what is wrong, a line each."""
    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)
