"""Programs that a test runs, and that are gone when it is over."""

import contextlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time

# Seconds, for what takes none: it ends a hang. TVEC_PATIENCE=10 has all tests wait ten times as long.
PATIENCE = 60 * float(os.environ.get("TVEC_PATIENCE", "1"))

ENDING = contextlib.ExitStack()  # ends servers and their clients before the folder goes in which they write


def patiently(pause=0.01):
    """The turns of a loop that waits, until the patience is over. A turn that starts programs leaves time to what it waits for."""
    now = time.monotonic()
    ends = now + PATIENCE
    while now < ends:
        yield
        time.sleep(max(pause, min(2 * (time.monotonic() - now), 0.2)))
        now = time.monotonic()


class Child:
    """A program that runs beside the test."""

    def __init__(self, *command, **more):
        self.command, self.more = [str(word) for word in command], more

    def __enter__(self):
        self.start()
        return self

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True, **self.more)

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def line_with(self, pattern):
        """Waits for a line, and returns what the last group of the pattern says."""
        for line in self.process.stdout:
            found = re.search(pattern, line)
            if found:
                return found.group(found.re.groups)
        raise AssertionError(f"{self.command[0]} did not say {pattern}")

    def wait(self):
        """Its exit status, and what else it has printed."""
        said, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.wait()


class Server(Child):
    """An echo server, of any kind, on a free port."""

    def __enter__(self):
        self.start()
        self.listen()
        return self

    def listen(self):
        self.port = int(self.line_with(r"listening on 127\.0\.0\.1:(\d+)"))


class Client:
    """One client of a server."""

    def __init__(self, port):
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", port))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def say(self, word=b"x"):
        self.socket.sendall(word)

    def hears(self, within=PATIENCE):
        """What comes within so many seconds: empty if the server has closed, None if nothing comes."""
        self.socket.settimeout(within)
        try:
            return self.socket.recv(100)
        except ConnectionError:
            return b""
        except TimeoutError:
            return None

    def is_echoed(self):
        try:
            self.say()
        except ConnectionError:
            return False
        return self.hears() == b"x"


def free_port():
    """One on which nobody listens, and that the kernel gives to nobody while its server is away."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_768)  # the kernel's own begin there
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def programs(build):
    """Name -> path of the programs that people call, as they are built in this folder."""
    targets = json.loads(pathlib.Path(build, "meson-info/intro-targets.json").read_text())
    paths = {t["name"]: pathlib.Path(t["filename"][0]) for t in targets if t["type"] == "executable"}
    return {name: path for name, path in paths.items()
            if not {"tests", "support"} & set(path.relative_to(build).parts)}


def run(*command, **more):
    """Runs a program to its end."""
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, timeout=PATIENCE, **more)
