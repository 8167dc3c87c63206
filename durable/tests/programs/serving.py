"""A `tvec-timers serve` of a test's own, and hooks that it posts to."""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import socketserver
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

from children import PATIENCE, patiently

DURABLE = pathlib.Path(__file__).resolve().parents[2]


def wait_for(condition, what):
    for _ in patiently(0.005):
        if value := condition():
            return value
    raise AssertionError(f"not within {PATIENCE} s: {what}")


def commands_of(page, heading):
    """The commands of a section of a page: those that its readers copy."""
    text = (DURABLE / "docs" / page).read_text()
    [(level, section)] = re.findall(rf"(?ms)^(##+) {re.escape(heading)}\n(.*?)(?=^## |\Z)", text)
    section = section.split(f"\n{level} ")[0]
    return "".join(re.findall(r"(?ms)^```sh\n(.*?)^```$", section))


class Hook:
    """An HTTP server that notes what is posted to it. `answer`: from a note to a status, headers and a body."""

    def __init__(self, answer=lambda note: (200, {}, b""), port=0, path=None, has_threads=True):
        self.notes, self.at_once, self.most_at_once, self.lock = [], 0, 0, threading.Lock()
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def address_string(self):
                return "hook"

            def log_message(self, *_):
                pass

            def do_POST(self):
                hook.take(self, answer)

        kinds = [socketserver.ThreadingMixIn] * has_threads + [socketserver.UnixStreamServer if path else socketserver.TCPServer]

        class Server(*kinds):
            daemon_threads = True
            allow_reuse_address = True
            request_queue_size = 100

            def handle_error(self, *_):
                pass  # the other side was killed

        self.server = Server(path or ("127.0.0.1", port), Handler)
        self.port = None if path else self.server.server_address[1]
        self.to = f"unix:{path}:/hook" if path else f"http://127.0.0.1:{self.port}/hook"
        threading.Thread(target=self.server.serve_forever, args=[0.02], daemon=True).start()

    def take(self, request, answer):
        note = {"id": urllib.parse.unquote_to_bytes(request.headers["Tvec-Id"]),
                "attempt": int(request.headers["Tvec-Attempt"]), "due": int(request.headers["Tvec-Due"]),
                "body": request.rfile.read(int(request.headers["Content-Length"])), "path": request.path,
                "now": time.time_ns() // 1_000_000}
        with self.lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.notes.append(note)
        status, headers, body = answer(note)
        with self.lock:
            self.at_once -= 1
        request.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    def of(self, name):
        return [note for note in self.notes if note["id"] == name]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Serve:
    """The process. Its output is in a file: a pipe that nobody reads would stop it."""

    def __init__(self, tool, store, to, *words, environment=(), restore_signals=True):
        self.log = tempfile.NamedTemporaryFile("r+", prefix="tvec-serve-")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", tool, "--store", store, "serve", "--to", to, *map(str, words)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env={**os.environ, **dict(environment)},
            restore_signals=restore_signals)

    def said(self):
        return pathlib.Path(self.log.name).read_text()

    def wait_until_ready(self):
        wait_for(lambda: "ready" in self.said() or self.process.poll() is not None, "ready")
        if self.process.poll() is not None:
            raise AssertionError(self.said())
        return self

    def address(self):
        return next(line.split()[-1] for line in self.said().splitlines() if "page at" in line)

    def ask(self, path, method="GET", body=None, **headers):
        """The status and the text of a request to its page."""
        place = urllib.parse.urlsplit(self.address())
        with contextlib.closing(http.client.HTTPConnection(place.hostname, place.port, timeout=PATIENCE)) as c:
            c.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = c.getresponse()
            return answer.status, answer.read().decode()

    def metric(self, name):
        """The value of a line of its /metrics."""
        return next(float(line.split()[1]) for line in self.ask("/metrics")[1].splitlines() if line.startswith(name + " "))

    def signal(self, which):
        self.process.send_signal(which)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """Ends it as systemd does. Returns its status."""
        self.signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


class Case(unittest.TestCase):
    """A test with a folder, whose processes and hooks end with it. `tool`: the path of tvec-timers."""

    tool = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tvec-serve-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.store = str(self.folder / "timers.db")

    def hook(self, *words, **more):
        hook = Hook(*words, **more)
        self.addCleanup(hook.close)
        return hook

    def hanging_hook(self, hangs=lambda note: note["attempt"] == 1):
        """A hook that does not answer some deliveries."""
        released = threading.Event()
        self.addCleanup(released.set)
        return self.hook(lambda note: hangs(note) and released.wait(PATIENCE) and None or (200, {}, b""))

    def serve(self, to, *words, **more):
        return self.start(to, *words, **more).wait_until_ready()

    def start(self, to, *words, **more):
        serve = Serve(self.tool, self.store, to, *words, **more)
        self.addCleanup(serve.log.close)
        self.addCleanup(serve.kill)
        return serve

    def follow(self, page, heading, changes, environment=()):
        """Has sh run the commands of a section, with places of this test's own. Returns what reads their output."""
        commands = commands_of(page, heading)
        for place, own in changes.items():
            self.assertIn(place, commands)
            commands = commands.replace(place, own)
        programs, said = self.folder / "bin", self.folder / "said"
        programs.mkdir()
        (programs / "tvec-timers").symlink_to(pathlib.Path(self.tool).resolve())
        (programs / "python3").symlink_to("/usr/bin/python3")  # for which Debian's packages are
        (self.folder / "durable").symlink_to(DURABLE)
        with said.open("w") as output:
            shell = subprocess.Popen(["sh", "-ec", commands + "\nwait"], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                     cwd=self.folder, start_new_session=True,
                                     env={**os.environ, **dict(environment), "PATH": f"{programs}:{os.environ['PATH']}"})
        self.addCleanup(shell.wait)
        self.addCleanup(os.killpg, shell.pid, signal.SIGKILL)
        return said.read_text

    def run_tool(self, *words, status=0):
        done = subprocess.run([self.tool, "--store", self.store, *map(str, words)], capture_output=True, text=True,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, status, done)
        return done.stdout if status == 0 or done.stdout else done.stderr

    def json_of(self, *words):
        return [json.loads(line) for line in self.run_tool(*words, "--json").splitlines()]

    def timer(self, name):
        """What `get` says of it, or None."""
        done = subprocess.run([self.tool, "--store", self.store, "get", name, "--json"], capture_output=True, text=True,
                              timeout=PATIENCE)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def put(self, name, *words, in_ms=0):
        self.run_tool("put", name, "--in-ms", in_ms, *words)

    def wait_until_empty(self):
        wait_for(lambda: self.json_of("stats")[0]["waiting"] == 0, "no timer is left")


def datagrams(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(str(path))
    s.settimeout(PATIENCE)
    return s
