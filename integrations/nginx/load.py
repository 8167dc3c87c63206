#!/usr/bin/env python3
"""Loads builds of nginx in turns, with wrk on connections that are kept alive, and prints requests
per second and what part of the worker's time (perf) and instructions (callgrind) goes into timers.
An instruction counts by the source file that it was compiled from, wherever it was inlined. Fails if
the last build's share of instructions is over a fifth of the first's. Worker and wrk have a
processor each; where others want them too, start it with `nice -n -10`.

usage: load.py NAME=NGINX...
"""

import collections
import math
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from server import Nginx, PATIENCE, wait_until

ROUNDS = 3
SECONDS = 5
LOADS = (("/hello", 1000), ("/hello", 4000), ("/proxied", 1000))
HANDLED = {"/hello": 1, "/proxied": 2}  # by nginx for each of wrk's requests: proxied to itself
COUNTED = (("/hello", 1000), ("/proxied", 300))  # by callgrind, which is fifty times as slow
WORKER = "worker_rlimit_nofile 12000; worker_cpu_affinity 01;"  # and wrk on the last processor
HTTP = "keepalive_requests 100000000; keepalive_timeout 75s;"

# nginx's and the shim's; all that is C++ is tvec's.
OF_TIMERS = re.compile(r"(ngx_event_timer\.[ch]|ngx_rbtree\.[ch]|tvec\.h|\.[ch]pp|/c\+\+/.*)$")

Run = collections.namedtuple("Run", "rate cpu share samples")


def load(server, path, connections):
    """Starts wrk on it."""
    return subprocess.Popen(
        ["taskset", "-c", str(os.cpu_count() - 1), "wrk", "-t1", f"-c{connections}",
         f"-d{2 * PATIENCE}s", "--timeout", "60s", f"http://127.0.0.1:{server.port}{path}"],
        stdout=subprocess.PIPE, text=True)


def finish(loading):
    """Ends wrk, which has to be at work still, and to have had nothing but answers."""
    if loading.poll() is not None:
        raise RuntimeError("wrk has ended before what was to be measured")
    loading.send_signal(signal.SIGINT)
    said, _ = loading.communicate()
    if loading.returncode or (fault := re.search("Socket errors.*|Non-2xx.*", said)):
        raise RuntimeError(f"wrk: {fault[0] if not loading.returncode else said}")


def call(*words, **more):
    """What a program prints."""
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, **more).stdout


def cpu_of(worker):
    """Seconds that it has run."""
    said = pathlib.Path(f"/proc/{worker}/stat").read_text(encoding="utf-8")
    fields = said.rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def sample(worker, recorded):
    """Looks where it is, 4000 times a second that it runs, if perf can do so on this machine."""
    sleeping = ["sleep", str(SECONDS)]
    try:
        call("perf", "record", "-q", "-e", "cpu-clock", "-F", "4000", "-p", worker, "-o", recorded,
             "--", *sleeping)
    except (OSError, subprocess.CalledProcessError):
        call(*sleeping)


def share_by_perf(binary, recorded):
    """The share of samples that lie in timers, and how many samples there are: none where perf does
    not work."""
    said = call("perf", "script", "-i", recorded, "-F", "ip") if os.path.exists(recorded) else ""
    counts = collections.Counter(int(word, 16) for word in said.split())
    if not counts:
        return math.nan, 0
    own = [address for address in counts if address < 1 << 40]  # not libraries, not the kernel
    lines = call("addr2line", "-e", binary, input="\n".join(map(hex, own))).splitlines()
    files = [re.sub(r":[\d?]+( \(.*\))?$", "", line) for line in lines]
    of_timers = sum(counts[address] for address, file in zip(own, files) if OF_TIMERS.search(file))
    return of_timers / counts.total(), counts.total()


def run(binary, path, connections):
    """One run under load, sampled while it lasts."""
    with Nginx(binary, main=WORKER, http=HTTP) as server, tempfile.TemporaryDirectory() as folder:
        worker, = wait_until(server.workers, "its worker")
        loading = load(server, path, connections)
        time.sleep(1)
        recorded = f"{folder}/perf.data"
        # Answered when the connections before it have been accepted, which takes long if others
        # have the processors.
        requests, cpu, start = server.requests(), cpu_of(worker), time.monotonic()
        sample(worker, recorded)
        requests = (server.requests() - requests) / HANDLED[path]
        cpu = cpu_of(worker) - cpu
        rate = requests / (time.monotonic() - start)
        finish(loading)
        return Run(rate, cpu / requests * 1e6, *share_by_perf(binary, recorded))


def instructions(binary, path, connections):
    """Instructions for each of wrk's requests, and those of timers, by callgrind: of the event
    loop, when all connections are there."""
    with tempfile.TemporaryDirectory() as folder:
        counted = f"{folder}/callgrind"
        with Nginx(binary, main=WORKER + "master_process off;", http=HTTP,
                   before=["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={counted}",
                           "--toggle-collect=ngx_process_events_and_timers"]) as server:
            loading = load(server, path, connections)
            time.sleep(SECONDS)
            call("callgrind_control", "--zero", str(server.process.pid))
            time.sleep(SECONDS)
            call("callgrind_control", "--dump", str(server.process.pid))
            finish(loading)
        requests = calls_of("ngx_http_process_request", f"{counted}.1") / HANDLED[path]
        return [n / requests for n in instructions_in(f"{counted}.1")]


def calls_of(function, counted):
    """How often it was called."""
    names, called, calls = {}, None, 0
    for line in pathlib.Path(counted).read_text(encoding="utf-8").splitlines():
        if named := re.match(r"(c?)fn=(\(\d+\))(?: (.*))?", line):
            names.setdefault(named[2], named[3])
            called = named[2] if named[1] else None
        elif line.startswith("calls=") and names[called] == function:
            calls += int(line[6:].split()[0])
    return calls


def instructions_in(counted):
    """All, and those of timers."""
    said = call("callgrind_annotate", "--threshold=100", "--auto=no", "--show-percs=no", counted)
    said = re.sub(r"(?<=\d),(?=\d)", "", said)
    total = int(re.search(r"(\d+)\s+PROGRAM TOTALS", said)[1])
    of_files = re.findall(r"^\s*(\d+)\s+([^\s:]+):\S", said, re.MULTILINE)
    return total, sum(int(n) for n, file in of_files if OF_TIMERS.search(file))


def show_loads(builds):
    print(f"Medians of {ROUNDS} runs of {SECONDS} s, the builds in turns:\n")
    print("| load | build | requests/s | µs of CPU a request | timers' share of CPU | samples |")
    print("|---|---|--:|--:|--:|--:|")
    for path, connections in LOADS:
        runs = collections.defaultdict(list)
        for _ in range(ROUNDS):
            for name, binary in builds.items():
                runs[name].append(run(binary, path, connections))
        for name, those in runs.items():
            rate, cpu, share, _ = (statistics.median(column) for column in zip(*those))
            samples = sum(each.samples for each in those)
            print(f"| {path}, {connections} connections | {name} | {rate:.0f} | {cpu:.2f} "
                  f"| {share:.2%} | {samples} |", flush=True)


def show_instructions(builds):
    """Prints them; yields what is wrong."""
    print("\nInstructions of the event loop:\n")
    print("| load | build | a request | of them timers | share |")
    print("|---|---|--:|--:|--:|")
    for path, connections in COUNTED:
        shares = []
        for name, binary in builds.items():
            total, of_timers = instructions(binary, path, connections)
            shares.append(of_timers / total)
            print(f"| {path}, {connections} connections | {name} | {total:.0f} | {of_timers:.0f} "
                  f"| {shares[-1]:.2%} |", flush=True)
        if shares[-1] > shares[0] / 5:
            yield f"load: {path}: {shares[-1]:.2%} is over a fifth of {shares[0]:.2%}"


def main():
    if len(sys.argv) < 2 or not all("=" in word for word in sys.argv[1:]):
        sys.exit(__doc__.strip().splitlines()[-1])
    builds = dict(word.split("=", 1) for word in sys.argv[1:])
    try:
        show_loads(builds)
        faults = list(show_instructions(builds))
    except (OSError, RuntimeError, subprocess.CalledProcessError) as fault:
        sys.exit(f"load: {fault}")
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main()
