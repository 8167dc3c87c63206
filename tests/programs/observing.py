#!/usr/bin/env python3
"""Runs the echo server, and reads what it says of its wheel: on SIGUSR1, as metrics, as a picture.

usage: observing.py ECHO_SERVER WHEEL_VIEW
"""

import contextlib
import re
import signal
import socket
import subprocess
import sys
import time
import unittest
import urllib.request
import xml.etree.ElementTree

import children
from children import PATIENCE, Client, patiently

SERVER, WHEEL_VIEW = sys.argv[1:3]

SAMPLE = re.compile(r'(?P<name>[a-z_]+)(?P<labels>\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? '
                    r'(?P<value>[-+0-9.e]+)')


class Server(children.Server):
    """An echo server with a hundred timers and any free ports."""

    def __init__(self):
        super().__init__(SERVER, "--seconds", 120, "--metrics=0", "--restless", 100, "--idle-ms", 60_000)

    def __enter__(self):
        self.start()
        self.metrics = int(self.line_with(r"127\.0\.0\.1:(\d+)/metrics"))
        self.listen()
        return self

    def get(self, path):
        return urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}{path}", timeout=PATIENCE)

    def raw(self, request):
        """The answer to any bytes, until the server closes."""
        with socket.create_connection(("127.0.0.1", self.metrics), PATIENCE) as s:
            s.sendall(request)
            s.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: s.recv(4096), b""))

    def ask(self):
        """One who asks on the metrics port."""
        return Client(self.metrics)


def samples(text):
    """Name and labels -> value, of a text in which every sample follows its HELP and TYPE."""
    values, metric, kind = {}, None, None
    for line in text.splitlines():
        words = line.split(" ")
        if words[:2] == ["#", "HELP"]:
            helped = words[2]
            continue
        if words[:2] == ["#", "TYPE"]:
            metric, kind = words[2], words[3]
            assert metric == helped and kind in ("counter", "gauge", "summary"), line
            assert (kind == "counter") == metric.endswith("_total"), line
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        assert sample["name"] == metric or kind == "summary" and \
            sample["name"] in (metric + "_sum", metric + "_count"), line
        key = sample["name"] + (sample["labels"] or "")
        assert key not in values, line
        values[key] = float(sample["value"])
    return values


class Observing(unittest.TestCase):
    def test_metrics_are_in_the_format_of_prometheus(self):
        with Server() as server:
            answer = server.get("/metrics")
            self.assertEqual(answer.headers["Content-Type"],
                             "text/plain; version=0.0.4; charset=utf-8")
            text = answer.read().decode()
            self.assertTrue(text.endswith("\n"))
            self.assertEqual(len(text), int(answer.headers["Content-Length"]))
            seen = samples(text)
            pending = sum(v for k, v in seen.items()
                          if k.startswith("tvec_timers{") and 'state="pending"' in k)
            self.assertEqual(pending, 100 + 2 + 1)  # restless, the second, the end, who asks
            self.assertEqual(seen["tvec_early_fires_total"], 0)

    def test_metrics_follow_what_the_server_does(self):
        with Server() as server, \
                socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
            before = samples(server.get("/metrics").read().decode())
            client.sendall(b"hello")
            self.assertEqual(client.recv(100), b"hello")
            for _ in patiently():
                after = samples(server.get("/metrics").read().decode())
                if after["tvec_lateness_seconds_count"] > before["tvec_lateness_seconds_count"]:
                    break
            else:
                self.fail("no timer has fired")
            self.assertEqual(before["echo_connections_open"], 1)
            self.assertEqual(after["echo_messages_total"] - before["echo_messages_total"], 1)

    def test_bad_requests_get_an_answer_and_harm_nothing(self):
        with Server() as server:
            for request, status in [
                    (b"GET /nothing HTTP/1.0\r\n\r\n", b"404"),
                    (b"GET /metrics?x HTTP/1.0\r\n\r\n", b"404"),
                    (b"GET  HTTP/1.0\r\n\r\n", b"404"),
                    (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
                    (b"\r\n\r\n", b"400"),
                    (b" HTTP/1.0\r\n\r\n", b"400"),
                    (b"GET\r\n\r\n", b"400"),
                    (b"\x00\xff HTTP\r\n\r\n", b"400"),
                    (b"GET /metrics HTTP/1.0\r\nX: " + b"y" * 10_000, b"431")]:
                self.assertEqual(server.raw(request).split(b" ")[1], status, request[:40])
            self.assertEqual(server.raw(b"GET /met"), b"")  # went away in the middle
            self.assertEqual(server.raw(b""), b"")
            self.assertIn(b"tvec_timers", server.raw(b"GET /metrics HTTP/1.0\n\n"))
            self.assertEqual(server.end()[0], 0)

    def test_slow_askers_do_not_keep_others_out(self):
        with Server() as server, contextlib.ExitStack() as stack:
            slow = [stack.enter_context(server.ask()) for _ in range(4)]
            slow[0].say(b"GET /met")
            self.assertIn(b"200 OK", server.raw(b"GET /metrics HTTP/1.0\r\n\r\n"))
            self.assertEqual(slow.pop(0).hears(), b"")  # who had been there for longest, and nobody else
            for asker in slow:
                asker.say(b"GET /metrics HTTP/1.0\r\n\r\n")
                self.assertIn(b"200 OK", asker.hears())
            self.assertEqual(server.end()[0], 0)

    def test_silent_askers_are_hung_up_on_in_time(self):
        with Server() as server, contextlib.ExitStack() as stack:
            for asker in [stack.enter_context(server.ask()) for _ in range(4)]:
                self.assertEqual(asker.hears(), b"")
            self.assertEqual(server.get("/metrics").status, 200)
            self.assertEqual(server.end()[0], 0)

    def test_more_askers_than_places_at_once_harm_nothing(self):
        with Server() as server, contextlib.ExitStack() as stack:
            askers = [stack.enter_context(server.ask()) for _ in range(100)]
            for asker in askers:
                with contextlib.suppress(ConnectionError):
                    asker.say(b"GET /metrics HTTP/1.0\r\n\r\n")
            heard = [asker.hears() for asker in askers]
            self.assertIn(b"200 OK", heard[-1])
            self.assertEqual(server.end()[0], 0)

    def test_the_server_ends_though_somebody_is_asking(self):
        with Server() as server, \
                socket.create_connection(("127.0.0.1", server.metrics), PATIENCE) as asker:
            asker.sendall(b"GET /")
            time.sleep(0.1)
            status, said = server.end()
            self.assertEqual(status, 0)
            self.assertIn("books                 balanced", said)

    def test_on_sigusr1_it_prints_its_wheel_each_time(self):
        with Server() as server:
            for _ in range(3):
                server.process.send_signal(signal.SIGUSR1)
                server.line_with(r"^wheel at tick \d+ and \d+ behind: \d+ pending, \d+ idle")
                server.line_with(r"^so far: \d+ fired, \d+ moved, \d+ dropped")
                server.line_with(r"^level 0:")
                server.line_with(r"^lateness of \d+ fires: p50 \d+ us, p99 \d+ us, max \d+ us, 0 early")
            self.assertEqual(server.end()[0], 0)


class WheelView(unittest.TestCase):
    """What it is given otherwise: wheel_view.py."""

    def test_draws_a_census_of_a_server_as_svg(self):
        with Server() as server:
            census = server.get("/census").read().decode()
        seen = subprocess.run([WHEEL_VIEW, "-"], input=census, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((seen.returncode, seen.stderr), (0, ""))
        picture = xml.etree.ElementTree.fromstring(seen.stdout)
        self.assertTrue(picture.tag.endswith("svg"))
        said = " ".join(t.text for t in picture.iter("{http://www.w3.org/2000/svg}text"))
        for level in ["root", "level 1", "level 2", "level 3", "level 4", "overflow"]:
            self.assertIn(level + ":", said)
        self.assertIn("103 timers pending", said)  # as in the metrics

    def test_watches_a_server_in_the_terminal(self):
        with Server() as server:
            seen = children.run(WHEEL_VIEW, "--port", server.metrics, "--watch", "--times", 2, "--interval", 0.1,
                                stdout=subprocess.PIPE)
        self.assertEqual((seen.returncode, seen.stderr), (0, ""))
        self.assertEqual(seen.stdout.count("root: 1 tick to a slot"), 2)
        self.assertRegex(seen.stdout, "[▁▂▃▄▅▆▇█]")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
