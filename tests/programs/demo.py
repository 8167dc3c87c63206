#!/usr/bin/env python3
"""Asks the demonstration for its page, its stream and other loads, and looks whether it ends by itself.

usage: demo.py DEMO
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from children import PATIENCE, Child, run

DEMO = sys.argv[1]


class Demo(Child):
    """A demonstration of a few connections, on a free port."""

    def __init__(self, *options, **more):
        super().__init__(DEMO, "--port", 0, "--most", 160, "--connections", 40, *options, **more)

    def __enter__(self):
        self.start()
        self.port = int(self.line_with(r"http://127\.0\.0\.1:(\d+)/"))
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # it has children, which it ends
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE)
        super().__exit__()

    def ask(self, path, body=None, **headers):
        """The answer to a request, which may be being written still."""
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        asked.request("GET" if body is None else "POST", path, body, headers)
        return asked.getresponse()

    def samples(self):
        """Yields what the stream says, as soon as those who watched before are known to be gone."""
        stream = self.ask("/stream")
        while stream.status == 503:
            time.sleep(0.1)
            stream = self.ask("/stream")
        with stream:
            for line in stream:
                if line.startswith(b"data: "):
                    yield json.loads(line[len("data: "):])

    def wait_for(self, condition):
        """The first sample of which it is true."""
        ends = time.monotonic() + PATIENCE
        for sample in self.samples():
            if condition(sample):
                return sample
            if time.monotonic() > ends:
                raise AssertionError(f"not seen: {sample}")
        raise AssertionError("the stream has ended")


def metric(sample, name):
    return float(re.search(rf"(?m)^{re.escape(name)} (.*)$", sample["metrics"])[1])


def open_connections(sample):
    return metric(sample, "echo_connections_open")


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.demo = cls.enterClassContext(Demo("--seconds", 300))

    def assert_refused(self, status, *request, **headers):
        answer = self.demo.ask(*request, **headers)
        self.assertEqual(answer.status, status, request)
        self.assertRegex(answer.read(), rb"\A[^\n]+\n\Z")

    def test_has_all_that_it_names(self):
        page = self.demo.ask("/").read().decode()
        names = re.findall(r'(?:src|href)="([\w.]+)"', page)
        for name in names:
            names += re.findall(r'from "\./([\w.]+)"', self.demo.ask("/" + name).read().decode())
        self.assertEqual({"style.css", "demo.js", "wheel.js", "chart.js", "census.js"}, set(names))
        for name in names:
            answer = self.demo.ask("/" + name)
            kind = "text/css" if name.endswith("css") else "text/javascript"
            self.assertEqual((answer.status, answer.headers.get_content_type()), (200, kind))

    def test_nothing_else_is_served(self):
        for path in ["/nothing", "/../README.md", "/..%2fREADME.md", "/index.html/", "/load", "*"]:
            self.assert_refused(404, path)
        self.assert_refused(404, "/nothing", "")

    def test_the_stream_shows_the_wheel_of_the_server(self):
        self.demo.wait_for(lambda sample: open_connections(sample) >= 30)
        stream = self.demo.samples()
        first, second = next(stream), next(stream)
        now = [int(re.search(r"(?m)^now (\d+)$", s["census"])[1]) for s in (first, second)]
        self.assertGreater(now[1], now[0])
        self.assertGreater(second["time"], first["time"])
        self.assertTrue(first["census"].startswith("tvec-census 1\n"))
        self.assertIn("\nslot ", first["census"])
        self.assertEqual(metric(first, "tvec_early_fires_total"), 0)
        self.assertEqual(metric(first, "tvec_lost_timers_total"), 0)

    def test_the_load_is_what_the_visitor_wants(self):
        for connections in 160, 0, 40:
            self.demo.wait_for(lambda _: self.demo.ask(
                "/load", f"connections={connections}&pause=500").status == 200)  # or 503, while some leave
            seen = self.demo.wait_for(lambda sample: 0.8 * connections <= open_connections(sample)
                                      <= connections)
            self.assertEqual(seen["load"]["connections"], connections)

    def test_a_burst_comes_once_at_a_time(self):
        for _ in range(3):
            self.assertEqual(self.demo.ask("/burst", "").status, 200)
        seen = self.demo.wait_for(lambda sample: open_connections(sample) >= sample["load"]["connections"] + 30)
        self.assertTrue(seen["load"]["burst"])
        self.assertLessEqual(open_connections(seen), seen["load"]["connections"] + 40)
        self.demo.wait_for(lambda sample: not sample["load"]["burst"])

    def test_a_load_that_is_none_is_refused(self):
        for form in ["", "connections=40", "connections=161&pause=500", "connections=-1&pause=500",
                     "connections=x&pause=500", "connections=40&pause=199", "connections=40&pause=5001",
                     "connections=40&connections=80&pause=500", "connections=1e2&pause=500", "x" * 1000]:
            self.assert_refused(400, "/load", form)
        self.assert_refused(400, "/load", "", **{"Content-Length": "-1"})

    def test_pages_of_others_may_not_ask(self):
        for headers in [{"Host": "elsewhere.example"}, {"Origin": "http://elsewhere.example"},
                        {"Origin": "null"}]:
            self.assert_refused(403, "/", None, **headers)
            self.assert_refused(403, "/burst", "", **headers)
        own = f"localhost:{self.demo.port}"
        self.assertEqual(self.demo.ask("/", Host=own, Origin=f"http://{own}").status, 200)

    def test_more_viewers_than_places_are_sent_away_and_come_back(self):
        def watch(viewers):
            with contextlib.ExitStack() as stack:
                return [stack.enter_context(self.demo.ask("/stream")).status for _ in range(viewers)]

        ends = time.monotonic() + PATIENCE
        for statuses in 8 * [200], 8 * [200] + [503]:
            while watch(len(statuses)) != statuses:  # until it is known that those before are gone
                self.assertLess(time.monotonic(), ends)
                time.sleep(0.5)


class End(unittest.TestCase):
    def assert_ended_well(self, demo):
        status, said = demo.wait()
        self.assertEqual(status, 0)
        for line in r"books +balanced", r"lost timers +0", r"connections .* 0 leaked":
            self.assertRegex(said, line)
        with self.assertRaises(ConnectionError):
            demo.ask("/")

    def test_it_ends_by_itself(self):
        with Demo("--seconds", 1) as demo:
            self.assert_ended_well(demo)

    def test_a_signal_ends_it_though_somebody_is_watching(self):
        for number in signal.SIGINT, signal.SIGTERM:
            with Demo() as demo:
                next(demo.samples())
                demo.send(number)
                self.assert_ended_well(demo)

    def with_programs(self, **scripts):
        """Where these stand in for the server and its clients."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "servers").mkdir()
        for name, script in scripts.items():
            (folder / "servers" / name).write_text("#!/bin/sh\n" + script, encoding="utf-8")
            (folder / "servers" / name).chmod(0o755)
        return {"env": {**os.environ, "BUILD_DIR": str(folder)}}

    PORTS = "echo 127.0.0.1:1/metrics; echo listening on 127.0.0.1:1\n"
    SOUND = "trap 'exit 0' INT; sleep 3 & wait"

    def test_what_failed_fails_it(self):
        sound, broken, begins = self.SOUND, "sleep 0.5; exit 3", "exec sleep 3  # and knows no signal yet"
        for server, client, fails in ((broken, sound, True), (sound, broken, True), (sound, begins, False),
                                      (sound, sound, False)):
            with self.subTest(server=server, client=client):
                seen = run(DEMO, "--port", 0, "--seconds", 1, stdout=subprocess.PIPE,
                           **self.with_programs(echo_server=self.PORTS + server, load_client=client))
                self.assertEqual((seen.returncode, seen.stderr), (int(fails), ""))

    def assert_refused(self, line, *options, status=1, **more):
        seen = run(DEMO, *options, stdout=subprocess.PIPE, **more)
        self.assertEqual((seen.returncode, seen.stdout), (status, ""), seen)
        self.assertRegex(seen.stderr, line)

    def test_it_says_in_one_line_why_it_cannot_begin(self):
        self.assert_refused(r"\Ademo: cannot run .*echo_server: [^\n]*\n\Z", "--port", 0, **self.with_programs())
        self.assert_refused(r"\Ademo: echo_server ended with status 1\n\Z", "--port", 0,
                            **self.with_programs(echo_server="exit 1"))
        self.assert_refused(r"\Ademo: cannot run .*load_client: [^\n]*\n\Z", "--port", 0,
                            **self.with_programs(echo_server=self.PORTS + self.SOUND))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.assert_refused(rf"\Ademo: cannot listen on 127.0.0.1:{port}: [^\n]*\n\Z", "--port", port)

    def test_with_too_few_descriptors_it_names_the_option_to_lower(self):
        few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))}
        for most, fails in (169, True), (168, False):
            seen = run(DEMO, "--port", 0, "--seconds", 1, "--most", most, "--connections", 40, stdout=subprocess.PIPE, **few)
            self.assertEqual(seen.returncode, int(fails), seen)
            if fails:
                self.assertRegex(seen.stderr, r"\Ademo: [^\n]* lower --most to 168 or less\n\Z")

    def test_options_that_are_none_are_refused(self):
        for options in [["--port", "65536"], ["--seconds", "0"], ["--seconds", "3601"], ["--most", "7"],
                        ["--connections", "-1"], ["--most", "100", "--connections", "101"]]:
            self.assert_refused("demo: error: ", *options, status=2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
