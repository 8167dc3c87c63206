#!/usr/bin/env python3
"""Measures a server as it is and with the module, in turns, and prints tables.

usage: measure.py MODULE [--keys N] [--lags FILE] [TABLE...]
  --keys N     the most volatile keys (default: 1000000); fewer are faster
  --lags FILE  writes what lag.gp draws
  TABLE        lag, memory, throughput, idle, storm (default: all)"""

import argparse
import pathlib
import statistics
import subprocess
import time

from server import Server

PROBES = 1000
LIMIT = 60  # seconds for a cell of the table of lags
ROUNDS = 3
BUILDS = ("stock", "module")
FILL = """for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
    redis.call('SET', string.format('bg:%013d', i), 'v', ARGV[3], tonumber(ARGV[4]) + i % tonumber(ARGV[5])) end"""


def fill(client, count, unit="EX", deadline=3600, spread=1):
    """Sets keys with names of 16 bytes."""
    for first in range(0, count, 20000):
        client("EVAL", FILL, 0, first, min(count, first + 20000) - 1, unit, deadline, spread)


def row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def head(*cells):
    row(*cells)
    print("|---" + "|--:" * (len(cells) - 1) + "|")


def quantile(values, q):
    return sorted(values)[min(int(q * len(values)), len(values) - 1)]


# --- lag ------------------------------------------------------------------------------------------


def lags(server, spread_ms):
    """The lags of the events of keys that are all due at one time, or spread over some time; as many
    as came."""
    events = server.connect()
    events("SUBSCRIBE", "__keyevent@0__:expired")
    first = int(time.time() * 1000) + 1000
    deadlines = [first + i * spread_ms // PROBES for i in range(PROBES)]
    server.client.pipeline([("SET", f"probe:{i:04}", "v", "PXAT", at)
                            for i, at in enumerate(deadlines)])
    assert time.time() * 1000 < first, "the probes were set too late"
    came, rest = [], b""
    end = deadlines[-1] / 1000 + LIMIT
    while len(came) < PROBES and (left := end - time.time()) > 0:
        events.socket.settimeout(left)
        try:
            rest += events.socket.recv(1 << 16)
        except TimeoutError:
            break
        now = time.time() * 1000
        *whole, rest = rest.split(b"\r\n")
        came += [now - deadlines[int(word[6:])] for word in whole if word.startswith(b"probe:")]
    events.close()
    assert not came or min(came) > 0, f"early by {-min(came):.1f} ms"
    return came


def shown_lags(came):
    if len(came) < PROBES:
        return [f"> {LIMIT} s, {len(came)} of {PROBES} came"] + ["-"] * 2
    return [f"{quantile(came, q):.1f}" for q in (0.5, 0.99, 1)]


def lags_beside(module, count, spread_ms):
    with Server(module) as server:
        fill(server.client, count)
        return lags(server, spread_ms)


def drawn_lags(who, column, came):
    """A line for lag.gp: the median and p99, and how many came."""
    shown = (quantile(came, q) if len(came) == PROBES else LIMIT * 1000 for q in (0.5, 0.99))
    return " ".join([who, str(column), *(f"{lag:.1f}" for lag in shown), str(len(came))])


def measure_lag(module, keys, drawing=None):
    counts = [0] + [10 ** e for e in range(4, 7) if 10 ** e <= keys]
    print(f"Lag of `expired`, ms: {PROBES} keys, due at once or within 2 s, beside others of an hour.\n")
    head("other keys", *(f"{who} {what}" for who in ("stock", "module", "module, 2 s:")
                         for what in ("p50", "p99", "max")))
    lines = []
    for column, count in enumerate(counts):
        seen = [lags_beside(build, count, spread_ms)
                for build, spread_ms in ((None, 0), (module, 0), (module, 2000))]
        row(str(count), *(cell for came in seen for cell in shown_lags(came)))
        lines += [drawn_lags(who, column, came) for who, came in zip(BUILDS, seen)]
    if drawing:
        pathlib.Path(drawing).write_text("\n".join(lines) + "\n", encoding="utf-8")


# --- memory ---------------------------------------------------------------------------------------


def measure_memory(module, keys):
    print(f"Memory with {keys} volatile keys, bytes for each, with its name of 16.\n")
    head("", "used", "resident")
    used = {}
    for build in BUILDS:
        with Server(module if build == "module" else None) as server:
            def memory():
                shown = server.client.info("memory")
                return [int(shown[f"used_memory{suffix}"]) for suffix in ("", "_rss")]
            before = memory()
            fill(server.client, keys)
            time.sleep(1)
            used[build] = [(after - b) / keys for after, b in zip(memory(), before)]
            row(build, *(f"{value:.1f}" for value in used[build]))
    row("of the module beyond the name",
        *(f"{m - s - 16:.1f}" for m, s in zip(used["module"], used["stock"])))


# --- throughput -----------------------------------------------------------------------------------


def load(server, count, *words, pipeline=16, names=100000):
    """Requests per second, and nanoseconds of the server's processor time for each."""
    before = server.cpu()
    said = subprocess.run(
        ["redis-benchmark", "-s", server.path, "-n", str(count), "-r", str(names), "-P",
         str(pipeline), "-c", "20", "--csv", *words], capture_output=True, text=True, check=True,
        timeout=300).stdout
    per_second = float(said.strip().splitlines()[-1].split('","')[1].strip('"'))
    return per_second, (server.cpu() - before) / count * 1e9


def loads(server, keys):
    yield "SET k v EX 3600, new keys", load(server, keys, "SET", "new:__rand_int__", "v", "EX", "3600",
                                            names=2 * 10 ** 9)
    server.client("FLUSHALL")
    fill(server.client, 100000)
    key = "bg:0__rand_int__"
    yield "SET k v EX 3600, of 10^5", load(server, keys, "SET", key, "v", "EX", "3600")
    yield "EXPIRE k 3600, of 10^5", load(server, keys, "EXPIRE", key, "3600")
    yield "SET k v", load(server, keys, "SET", "p:__rand_int__", "v")
    yield "GET k", load(server, keys, "GET", "p:__rand_int__")
    yield "DEL k, mostly not there", load(server, keys, "DEL", "p:__rand_int__")
    yield "SET k v EX 3600, no pipeline", load(server, keys // 10, "SET", key, "v", "EX", "3600",
                                               pipeline=1)


def measure_throughput(module, keys):
    print(f"Throughput: medians of {ROUNDS} rounds in turns; pipelines of 16, 20 clients.\n")
    head("", "stock/s", "module/s", "ratio", "stock, ns of CPU", "module, ns", "more, ns")
    seen = {}
    for _ in range(ROUNDS):
        for build in BUILDS:
            with Server(module if build == "module" else None) as server:
                for name, figures in loads(server, keys):
                    seen.setdefault(name, {}).setdefault(build, []).append(figures)
    for name, of in seen.items():
        (rate, cpu), (rate_with, cpu_with) = (map(statistics.median, zip(*of[b])) for b in BUILDS)
        row(name, f"{rate:.0f}", f"{rate_with:.0f}", f"{rate_with / rate:.2f}", f"{cpu:.0f}",
            f"{cpu_with:.0f}", f"{cpu_with - cpu:.0f}")


# --- idle, and a storm ----------------------------------------------------------------------------


def measure_idle(module, keys):
    print(f"Idle for 10 s with {keys} keys of an hour: share of a processor.\n")
    head("", "percent", "turns")
    for build in BUILDS:
        with Server(module if build == "module" else None) as server:
            fill(server.client, keys)
            time.sleep(2)

            def turns():
                return int(server.client.info("tvec_expire").get("tvec_expire_turns", 0))
            before, cpu = turns(), server.cpu()
            time.sleep(10)
            row(build, f"{(server.cpu() - cpu) * 10:.2f}", str(turns() - before))


def storm(server, keys):
    """Pings a server while keys expire. Returns the times of the answers, and the time until all keys
    were gone, in ms, and the processor time until then, in seconds."""
    begin = time.time()
    fill(server.client, keys // 20)  # to see how long all will take
    start = int((time.time() + 3 + 30 * (time.time() - begin)) * 1000)
    fill(server.client, keys, "PXAT", start, 1000)
    assert time.time() * 1000 < start, "the keys were set too late"
    pings, other, look, cpu = [], server.connect(), 0, server.cpu()
    while (now := time.time() * 1000) < start + 100000:
        sent = time.perf_counter()
        other("PING")
        if now >= start:
            pings.append((time.perf_counter() - sent) * 1000)
        if now >= max(start, look):
            look = now + 50
            if server.client("DBSIZE") == 0:
                break
        time.sleep(0.0002)
    return pings, now - start, server.cpu() - cpu


def measure_storm(module, keys):
    print(f"A storm: {keys} keys due within a second. PING meanwhile, ms; medians of {ROUNDS}.\n")
    head("", "p50", "p99", "max", "all gone, s", "CPU, s")
    seen = {}
    for _ in range(ROUNDS):
        for build in BUILDS:
            with Server(module if build == "module" else None) as server:
                pings, gone, cpu = storm(server, keys)
                seen.setdefault(build, []).append(
                    [*(quantile(pings, q) for q in (0.5, 0.99, 1)), gone / 1000, cpu])
    for build, runs in seen.items():
        row(build, *(f"{statistics.median(column):.2f}" for column in zip(*runs)))


TABLES = {"lag": measure_lag, "memory": measure_memory, "throughput": measure_throughput,
          "idle": measure_idle, "storm": measure_storm}


def main():
    options = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    options.add_argument("module")
    options.add_argument("--keys", type=int, default=1000000)
    options.add_argument("--lags")
    options.add_argument("tables", nargs="*", choices=[*TABLES, []])
    asked = options.parse_intermixed_args()
    for table in asked.tables or TABLES:
        further = [asked.lags] if table == "lag" else []
        TABLES[table](asked.module, asked.keys, *further)
        print()


if __name__ == "__main__":
    main()
