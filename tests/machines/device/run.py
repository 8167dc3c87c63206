#!/usr/bin/env python3
"""usage: run.py [--renew]

Runs the commands of docs/c.md#small-devices as they stand there. Builds examples/device and bench/device without an
operating system, for the machines of qemu that are named below, runs both there, and compares sizes and instructions with bench/results/device*.csv: none may be more than 2 % above. The
example has to say what it says on this machine. --renew writes the files. What this machine has no tools for is skipped."""

import csv
import functools
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = ROOT / "build-portability/device"
CORE = [f"src/core/{name}.cpp" for name in ("agenda", "timer_wheel", "wheel_number")]
WHEEL = CORE + [f"src/c/{name}.cpp" for name in ("inlines", "wheel")]  # as docs/c.md names them
ALONE = ["-Os", "-DNDEBUG", "-ffunction-sections", "-fdata-sections", "-Iinclude", "-Wall", "-Wextra", "-Wconversion"]
CXX = ["-std=c++20", "-fno-exceptions", "-fno-rtti"]
TINY = ["-DTVEC_TINY_WHEEL", "-Dtvec=tvec_tiny"]
STRUCTURES = {  # beside the counting program
    "tvec": ["bench/device/wheel.c", *WHEEL],
    "sorted list": ["bench/device/sorted_list.c"],
    "hashed wheel": ["bench/device/hashed_wheel.c"],
}
EXAMPLE = ["examples/device/device.c", "examples/device/board.c", *WHEEL]
LONG = "tests/machines/device/long_callback.c"
SEMIHOSTING = ["-nographic", "-semihosting-config", "enable=on,target=native"]

MACHINES = {  # the compiler's prefix, its options, the place of flash and RAM, and an emulator
    "Cortex-M3": ("arm-none-eabi-", ["-mcpu=cortex-m3", "-mthumb"], (0, 0x20000000), ["qemu-system-arm", "-M", "mps2-an385"]),
    "Cortex-M0": ("arm-none-eabi-", ["-mcpu=cortex-m0", "-mthumb"], (0, 0x20000000), ["qemu-system-arm", "-M", "microbit"]),
    "RV32IMAC": ("riscv64-unknown-elf-", ["-march=rv32imac", "-mabi=ilp32", "--specs=picolibc.specs"], (0x80000000, 0x80100000),
                 ["qemu-system-riscv32", "-M", "virt", "-bios", "none"]),
}


def run(command, **how):
    done = subprocess.run([str(word) for word in command], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=600, check=False, **how)
    if done.returncode != 0:
        sys.exit(f"device: FAILED, with status {done.returncode}: {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def of_the_wheel(prefix):
    """Options for RISC-V, which the page names. Debian's compiler has no C++ headers. The wheel needs those without a
    library, which that for ARM has."""
    if not prefix.startswith("riscv"):
        return []
    said = run(["arm-none-eabi-g++", "-xc++", "-E", "-v", "/dev/null"], stderr=subprocess.STDOUT)
    folders = re.findall(r"^ (/.*/c\+\+/.*)$", said, re.M)[:2]
    return ["-msave-restore", *(word for folder in folders for word in ("-isystem", folder))]


@functools.cache
def compiled(prefix, options, source, suffix=""):
    """The object of a source: in C11, or in C++ as a wheel alone is compiled."""
    name = re.sub(r"\W+", "-", " ".join([prefix, source, *options[-1:], *options[:1]]))
    made = BUILD / f"{name}.o"
    if source.endswith(".cpp"):
        run([f"{prefix}g++{suffix}", *options, *ALONE, *TINY, *CXX, *of_the_wheel(prefix), "-c", source, "-o", made])
    else:
        run([f"{prefix}gcc{suffix}", *options, *ALONE, *TINY[:1], "-std=c11", "-c", source, "-o", made])
    return made


def program(machine, name, sources, timers=1, ram="16K"):
    """Links it, and returns its path. The map says what is in it."""
    prefix, options, (flash, ram_at), _ = MACHINES[machine]
    linked = BUILD / re.sub(r"\W+", "-", f"{machine}-{name}-{timers}")
    objects = [compiled(prefix, (*options, *([] if source in WHEEL else ["-ffreestanding", f"-DTIMERS={timers}"])), source)
               for source in [*sources, "tests/machines/device/start.c"]]
    placed = [f"-Wl,--defsym,{name}={value}" for name, value in (("FLASH", flash), ("RAM", ram_at), ("RAM_SIZE", ram))]
    run([prefix + "gcc", *options, *objects, "-nostartfiles", *placed, "-T", HERE / "device.ld", "-Wl,--gc-sections",
         f"-Wl,-Map={linked}.map", "-o", linked])
    return linked


def size_of(linked, ignored):
    """The bytes of code and constants, and of RAM, of all objects of a map but the ignored ones: compiler's library included."""
    text = pathlib.Path(f"{linked}.map").read_text().split("Linker script and memory map")[1]
    flash = ram = 0
    for section, size, file in re.findall(r"^ (\.\S+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S+)$", text, re.M):
        if any(name in file for name in ignored):
            continue
        if re.match(r"\.(text|rodata|srodata|data|sdata)", section):
            flash += int(size, 16)
        if re.match(r"\.(data|sdata|bss|sbss)", section):
            ram += int(size, 16)
    return flash, ram


def emulated(machine, linked, *options):
    *_, emulator = MACHINES[machine]
    return run([*emulator, *options, *SEMIHOSTING, "-kernel", linked], stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL).strip()


def sizes(machine):
    for name, sources in STRUCTURES.items():
        few, more = (size_of(program(machine, name, [*sources, "bench/device/cost.c"], timers), ("device-cost-c", "device-start-c"))
                     for timers in (1, 2))
        timer = more[1] - few[1]
        yield {"structure": f"{machine}: {name}", "code_bytes": few[0], "RAM_bytes": few[1] - timer, "timer_bytes": timer}


def costs(machine):
    for timers in (10, 100, 400):
        for name, sources in STRUCTURES.items():
            linked = program(machine, name, [*sources, "bench/device/cost.c"], timers, "64K")
            counted = (int(word, 16) for word in emulated(machine, linked, "-icount", "shift=0").split())
            yield {"timers": timers, "structure": name} | dict(zip(("arm", "push_back", "cancel_and_arm", "fire"), counted))


def said_on_linux(prefix="", suffix="", *emulator, sources=EXAMPLE, options=()):
    """What the example, or another program, says on a machine with an operating system."""
    linked = BUILD / f"{prefix}example"
    objects = [compiled(prefix, () if source in WHEEL else options, source, suffix) for source in sources]
    run([f"{prefix}gcc{suffix}", *objects, "-Wl,--gc-sections", "-o", linked])
    return run([*emulator, linked]).strip()


def play(machine, said, expected):
    if said != expected:
        sys.exit(f"device: FAILED, {machine} says {said!r}, and this machine {expected!r}")


def as_the_page_says():
    """Runs the commands of the page. The last one is the device."""
    page = (ROOT / "docs/c.md").read_text().split("\n## Small devices\n")[1].split("\n## ")[0]
    commands = "\n".join(re.findall(r"^    (.*)$", re.sub(r"^```c$.*?^```$", "", page, flags=re.M | re.S), re.M))
    place = BUILD / "page"
    place.mkdir(exist_ok=True)
    for folder in ("src", "include", "examples", "tests"):
        if not (place / folder).exists():
            (place / folder).symlink_to(ROOT / folder)
    said = run(["bash", "-ec", f"cd '{place}'\n{commands}"], stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL).strip()
    if commands.count("-none-eabi-") != 2 or not said.endswith(": OK") or "\n" in said:
        sys.exit(f"device: FAILED, the commands of docs/c.md say {said!r}")


def by_systick(core, name, sources, *options, shift=5):
    """What a program says by the code for a core, on the emulated Cortex-M3, as the page builds it."""
    linked = BUILD / f"{name}-{core}"
    run(["arm-none-eabi-gcc", f"-mcpu={core}", "-mthumb", "-std=c11", *ALONE, *TINY[:1], "-DBOARD_HERTZ=25000000",
         "-DBOARD_LAST_COUNT=0xFFFFFF", "-DBOARD_SHIFT=13", *options, "-Iexamples/device", *sources, "examples/device/cortex_m.c",
         HERE / "start.c", HERE / "mps2.c", "-nostartfiles", "-T", HERE / "device.ld", "-Wl,--gc-sections", "-o", linked])
    return emulated("Cortex-M3", linked, "-icount", f"shift={shift},sleep=off")


def counts_lost(core):
    """What lost.c says, the counts that an alarm costs: the same if they are given back, parts of a count too, and if the
    other clock is faster by as much as oscillators differ."""
    said = by_systick(core, "lost", ["examples/device/lost.c"])
    for option in (f"-DBOARD_LOST={said[-5:]}", "-DFASTER=100"):
        again = by_systick(core, "lost", ["examples/device/lost.c"], option)
        if any(not re.fullmatch(r"BOARD_LOST \d\d\.\d\d", text) for text in (said, again)) or abs(float(again[-5:]) - float(said[-5:])) > 0.02:
            sys.exit(f"device: FAILED, lost.c says {said!r}, and with {option} {again!r}")
    return said[-5:]


def lost_as_the_page_says():
    """What the page says of lost.c. More than is given in the commands, or by default, makes a counter fast."""
    page = " ".join((ROOT / "docs/c.md").read_text().split())
    m3, m0 = counts_lost("cortex-m3"), counts_lost("cortex-m0")
    said = f"these are {m3} counts, and {m0} with the code of a Cortex-M0"
    on_page = float(re.search(r"-DBOARD_LOST=(\S+)", page)[1])
    if said not in page or on_page > float(m3) - 0.49:  # as the page advises
        sys.exit(f"device: FAILED, docs/c.md does not say {said!r}, or {on_page} there is too much")
    if not re.search(r"^#define BOARD_LOST 0$", (ROOT / "examples/device/board.h").read_text(), re.M):
        sys.exit("device: FAILED, board.h gives back counts that an alarm at another clock may not cost")


def long_callbacks(*said):
    """A callback that takes longer than a round of the counter, by the functions of the example."""
    if any(text != "long callback: OK" for text in said):
        sys.exit(f"device: FAILED, long_callback.c says {said!r}")


def late_turns(said):
    """The instructions of the longest turns: none more than the page says."""
    page = " ".join((ROOT / "docs/c.md").read_text().split())
    bounds = re.search(r"up to ([\d ]+) instructions of a Cortex-M3 beside the callbacks, or ([\d ]+) if .* moved: ([\d ]+) with 60 timers, .* fire: ([\d ]+) with 60 timers", page)
    if not bounds or any(int(found) > 1.02 * int(bound.replace(" ", "")) for found, bound in zip(said.split(), bounds.groups(), strict=True)):
        sys.exit(f"device: FAILED, late turns take {said!r} instructions, and docs/c.md says {bounds and bounds.groups()}")


def is_here(machine, *tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        print(f"device: {machine}: SKIPPED, no {missing[0]} here")
    return not missing


def compare(path, rows):
    """Ends if a figure is more than 2 % above the stored one."""
    with path.open(encoding="utf-8") as file:
        stored = {(row.pop("structure"), row.pop("timers", "")): row for row in csv.DictReader(file)}
    for row in rows:
        key = row.pop("structure"), str(row.pop("timers", ""))
        if key not in stored or stored[key].keys() != row.keys():
            sys.exit(f"device: FAILED, {path.name} has no row {key}: run {sys.argv[0]} --renew")
        for name, value in row.items():
            if value > 1.02 * int(stored[key][name]):
                sys.exit(f"device: FAILED, {name} of {', '.join(key)} is {value}, and was {stored[key][name]}")


def main(renew=None):
    BUILD.mkdir(parents=True, exist_ok=True)
    expected = said_on_linux()
    if not expected.endswith(": OK"):
        sys.exit(f"device: FAILED here: {expected}")
    found = []
    long_callbacks(said_on_linux(sources=[LONG, *EXAMPLE[1:]], options=("-Iexamples/device", "-DBOARD_LAST_COUNT=0xFFFF")))
    if is_here("docs/c.md", "arm-none-eabi-g++", "qemu-system-arm"):
        as_the_page_says()
        lost_as_the_page_says()
        prefix, options, *_ = MACHINES["Cortex-M3"]
        wheel = [compiled(prefix, tuple(options), source) for source in WHEEL]
        long_callbacks(by_systick("cortex-m3", "long", [LONG, *wheel]))
        late_turns(by_systick("cortex-m3", "late", [HERE / "late_turns.c", *wheel]))
        said = by_systick("cortex-m3", "slow", [HERE / "slow_processor.c", *wheel], "-DBOARD_LOST=68.29", shift=7)
        if said != "slow processor: OK":
            sys.exit(f"device: FAILED, slow_processor.c says {said!r}")
    if is_here("armhf", "arm-linux-gnueabihf-g++-12", "qemu-arm-static"):
        play("armhf", said_on_linux("arm-linux-gnueabihf-", "-12", "qemu-arm-static", "-L", "/usr/arm-linux-gnueabihf"), expected)
    for machine, (prefix, _, _, (emulator, *_)) in MACHINES.items():
        if is_here(machine, prefix + "gcc", "arm-none-eabi-g++", emulator):
            play(machine, emulated(machine, program(machine, "example", EXAMPLE)), expected)
            found.append(machine)
    measured = {"device_sizes": [row for machine in found for row in sizes(machine)],
                "device_costs": list(costs("Cortex-M3")) if "Cortex-M3" in found else []}
    for name, rows in measured.items():
        path = ROOT / f"bench/results/{name}.csv"
        if renew and rows:
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, rows[0], lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
        else:
            compare(path, rows)
    print(f"device: OK, {', '.join(found) or 'this machine alone'}: {expected}")


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--renew"]):
        sys.exit(__doc__)
    main(*sys.argv[1:])
