#!/usr/bin/env python3
"""Runs the echo server, and reads what it says of its wheel: on SIGUSR1, as metrics, as a picture.

usage: observing.py ECHO_SERVER WHEEL_VIEW
"""

import contextlib
import importlib.machinery
import importlib.util
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.request
import xml.etree.ElementTree

import children
from children import PATIENCE, Client

SERVER, WHEEL_VIEW = sys.argv[1:3]

# A whole one, with timers on most levels.
CENSUS = """\
tvec-census 1
now 77000
first_expiry 77001
last_expiry 9000000000
level 0 1 512
slot 77001 3 0
slot 77400 0 2
level 1 256 256
slot 77568 1 5
level 2 16384 128
slot 98304 1000000 1
level 3 1048576 128
level 4 67108864 128
slot 8589934592 1 0
overflow 2 1
"""

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
            time.sleep(0.1)
            after = samples(server.get("/metrics").read().decode())
            self.assertEqual(before["echo_connections_open"], 1)
            self.assertEqual(after["echo_messages_total"] - before["echo_messages_total"], 1)
            self.assertGreater(after["tvec_lateness_seconds_count"],
                               before["tvec_lateness_seconds_count"])

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
    def view(self, *options, census=""):
        return subprocess.run([WHEEL_VIEW, *options], input=census, capture_output=True, text=True,
                              timeout=PATIENCE)

    def test_draws_a_census_of_a_server_as_svg(self):
        with Server() as server:
            census = server.get("/census").read().decode()
        seen = self.view("-", census=census)
        self.assertEqual((seen.returncode, seen.stderr), (0, ""))
        picture = xml.etree.ElementTree.fromstring(seen.stdout)
        self.assertTrue(picture.tag.endswith("svg"))
        said = " ".join(t.text for t in picture.iter("{http://www.w3.org/2000/svg}text"))
        for level in ["root", "level 1", "level 2", "level 3", "level 4", "overflow"]:
            self.assertIn(level + ":", said)
        self.assertIn("103 timers pending", said)  # as in the metrics

    def test_watches_a_server_in_the_terminal(self):
        with Server() as server:
            seen = self.view("--port", str(server.metrics), "--watch", "--times", "2",
                             "--interval", "0.1")
        self.assertEqual((seen.returncode, seen.stderr), (0, ""))
        self.assertEqual(seen.stdout.count("root: 1 tick to a slot"), 2)
        self.assertRegex(seen.stdout, "[▁▂▃▄▅▆▇█]")

    def test_draws_an_empty_wheel_and_the_last_slots_of_a_turn(self):
        census = ("tvec-census 1\nnow 1000\nfirst_expiry none\nlast_expiry none\nnews from later\n"
                  "level 0 1 512\nslot 1511 1 0\nlevel 1 256 128\nslot 33536 0 5\noverflow 1 0\n")
        self.assertEqual(self.view("-", census=census).returncode, 0)
        self.assertEqual(self.view("-", census="tvec-census 1\nnow 0\noverflow 0 0\n").returncode, 0)

    def assert_refused(self, *options, says="", **more):
        seen = self.view(*options, **more)
        self.assertEqual((seen.returncode, seen.stdout), (1, ""), seen)
        self.assertRegex(seen.stderr, rf"\Awheel_view: [^\n]*{says}[^\n]*\n\Z")

    def test_says_in_one_line_what_is_wrong(self):
        self.assertEqual(self.view("-", census=CENSUS).returncode, 0)
        for census in ["", "nonsense\n", "tvec-census 2\n", CENSUS.replace("now 77000", "now x"),
                       CENSUS.replace("level 0 1 512\n", ""), CENSUS.replace("77400 0", "99999 0")]:
            self.assert_refused("-", census=census)
        self.assert_refused("-", census=CENSUS.replace("77400 0 2", "77400 0"), says="line 7 .* missing")
        self.assert_refused("-", census=CENSUS[:-1], says="cut off")
        self.assert_refused("/no/such/file", says="cannot read /no/such/file: No such file")
        self.assert_refused("-", "-o", "/dev/full", census=CENSUS, says="No space left")
        for options in [], ["--port", "0"], ["--port", "65536"], ["-", "--interval", "nan"]:
            self.assertEqual(self.view(*options).returncode, 2)

    def test_says_in_one_line_that_its_output_is_full(self):
        for options in ["-"], ["-", "--watch", "--times", "1"]:
            with open("/dev/full", "w", encoding="utf-8") as full:
                seen = subprocess.run([WHEEL_VIEW, *options], input=CENSUS, stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
            self.assertEqual(seen.returncode, 1, seen)
            self.assertRegex(seen.stderr, r"\Awheel_view: cannot write [^\n]*\n\Z")

    def answering(self, answer):
        """The port of somebody who says this to whoever comes first."""
        listener = self.enterContext(socket.create_server(("127.0.0.1", 0)))

        def serve():
            with contextlib.suppress(OSError), listener.accept()[0] as asker:
                asker.recv(4096)
                asker.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return str(listener.getsockname()[1])

    def test_says_in_one_line_who_does_not_answer_as_a_server_does(self):
        port = str(children.free_port())
        self.assert_refused("--port", port, says="Connection refused")
        for answer in [b"", b"what?\r\n\r\n", b"HTTP/1.0 404 No\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n\xff",
                       b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nx"]:
            self.assert_refused("--port", self.answering(answer))


class DamagedCensuses(unittest.TestCase):
    """The program's functions themselves: thousands of censuses, each drawn or refused."""

    NUMBERS = ["", "0", "1", "2", "3", "-1", "0x1", "1e9", "nan", "none", "<b>", "\u0663", "77000",
               "4096", "4097", str(2**63), str(2**64 - 1), str(2**64), "9" * 5000]

    @classmethod
    def setUpClass(cls):
        sys.dont_write_bytecode = True
        loader = importlib.machinery.SourceFileLoader("wheel_view", WHEEL_VIEW)
        cls.program = importlib.util.module_from_spec(
            importlib.util.spec_from_loader("wheel_view", loader))
        sys.modules["wheel_view"] = cls.program
        loader.exec_module(cls.program)

    def draw(self, text):
        """Whether it was drawn; anything but a fault of one line fails the test."""
        try:
            census = self.program.parse(text)
        except self.program.Fault as fault:
            self.assertNotIn("\n", str(fault))
            return False
        xml.etree.ElementTree.fromstring(self.program.Picture(census).draw())
        self.program.terminal_view(census)
        return True

    def test_are_refused_when_they_are_cut_off(self):
        self.assertTrue(self.draw(CENSUS))
        for end in range(len(CENSUS)):
            self.assertFalse(self.draw(CENSUS[:end]), CENSUS[:end])

    def test_are_drawn_or_refused_when_a_word_is_another(self):
        words = re.split("([ \n])", CENSUS)
        for at in range(len(words)):
            for number in self.NUMBERS:
                self.draw("".join([*words[:at], number, *words[at + 1:]]))

    def test_are_drawn_or_refused_when_lines_and_words_are_at_random(self):
        random.seed(20)
        drawn = 0
        for _ in range(3000):
            lines = CENSUS.splitlines(keepends=True)
            for _ in range(random.randint(1, 4)):
                at = random.randrange(1, len(lines))
                words = lines[at].split(" ")
                words[random.randrange(len(words))] = random.choice(self.NUMBERS)
                lines[at] = random.choice([" ".join(words), "", lines[at] * 2,
                                           random.choice(lines)])
            drawn += self.draw("".join(lines))
        self.assertGreater(drawn, 100)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
