#!/usr/bin/python3
"""Measures workers of the pages on PostgreSQL: prints CSV lines of the row `lateness`, as durable/bench/durable does.

usage: workers.py TVEC_TIMERS FOLDER [SECONDS]

`tvec-timers serve --to table` delivers 20 timers a second to four workers of durable/examples/any-language. The server
has its data and its socket in FOLDER. Settings are its own: JIT is on by default.
"""

import os
import pathlib
import subprocess
import sys
import threading
import time

import psycopg2

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples/any-language"))
import tvec_worker  # noqa: E402

WORKERS, RATE = 4, 20


def ticks(pid, fields=slice(11, 13)):
    return sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[fields]))


def cpu(server, *pids):
    """Processor time in seconds of a server, with children that have ended, and of these processes."""
    children = subprocess.run(["pgrep", "-P", str(server)], capture_output=True, text=True).stdout.split()
    hz = os.sysconf("SC_CLK_TCK")
    return (ticks(server, slice(11, 15)) + sum(map(ticks, children))) / hz, sum(map(ticks, pids)) / hz


def main(tool, folder, seconds=15):
    conninfo, late = f"host={folder} user=postgres dbname=postgres", []
    subprocess.run([tool, "--store", "postgres:" + conninfo, "install"], check=True, stdout=subprocess.DEVNULL)
    serve = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", tool, "--store", "postgres:" + conninfo, "serve", "--to", "table"],
                             stdout=subprocess.DEVNULL)
    try:
        for _ in range(WORKERS):
            threading.Thread(target=tvec_worker.work, daemon=True, args=[
                lambda: psycopg2.connect(conninfo), lambda c, timer: late.append(time.time() - timer.due.timestamp())]).start()
        time.sleep(2)
        with psycopg2.connect(conninfo) as db, db.cursor() as c:
            c.execute("select count(tvec.put('t' || g, now() + interval '2 s' + g * interval '1 s' / %s)) from generate_series(1, %s) g",
                      [RATE, RATE * int(seconds)])
        time.sleep(2)
        server = int(pathlib.Path(folder, "postmaster.pid").read_text().split()[0])
        before, begun = cpu(server, serve.pid, os.getpid()), time.monotonic()
        time.sleep(int(seconds))
        took = time.monotonic() - begun
        used = [(now - then) / took * 100 for now, then in zip(cpu(server, serve.pid, os.getpid()), before)]
        while len(late) < RATE * int(seconds):
            time.sleep(0.1)
    finally:
        serve.terminate()  # it gives back what it owns, for the next run
        serve.wait()
    late.sort()
    for figure, unit, value in ("p50", "ms", late[len(late) // 2] * 1000), ("p99", "ms", late[len(late) * 99 // 100] * 1000), \
            ("server", "% of a core", used[0]), ("client", "% of a core", used[1]):
        print(f"lateness,PostgreSQL,{WORKERS} workers in Python at {RATE} a second,{figure},{unit},{value:.6g}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
