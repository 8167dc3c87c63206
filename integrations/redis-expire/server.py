"""Servers of Redis of a test's own, and clients that speak to them."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

PATIENCE = 20  # seconds until what should happen counts as not happening


class Client:
    """A connection. What the server answers with an error is raised as a RuntimeError."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rb", 1 << 16)

    @staticmethod
    def packed(*words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)

    def __call__(self, *words):
        self.socket.sendall(self.packed(*words))
        return self.read()

    def pipeline(self, commands):
        """Sends all, and returns the answers; those that are errors as errors."""
        self.socket.sendall(b"".join(self.packed(*words) for words in commands))
        return [self.read_or_error() for _ in commands]

    def read_or_error(self):
        try:
            return self.read()
        except RuntimeError as error:
            return error

    def read(self):
        line = self.file.readline()
        kind, value = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(value.decode())
        if kind == b"+":
            return value
        if kind == b":":
            return int(value)
        if kind == b"$":
            return None if value == b"-1" else self.file.read(int(value) + 2)[:-2]
        if kind == b"*":
            return None if value == b"-1" else [self.read_or_error() for _ in range(int(value))]
        raise OSError(f"the server says {line!r}")

    def info(self, section):
        lines = self("INFO", section).decode().split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def close(self):
        self.file.close()
        self.socket.close()


class Server:
    """A server on a socket in a folder of its own, which both go with it. `module` is the path of a
    module, or None."""

    def __init__(self, module=None, *options, environment=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="redis-expire."))
        self.path = self.folder / "socket"
        self.module, self.options = module, options
        self.environment = dict(os.environ, **dict(environment))
        self.start()

    def start(self):
        words = ["setpriv", "--pdeathsig", "KILL", "redis-server", "--port", 0, "--unixsocket",
                 self.path, "--dir", self.folder, "--save", "", "--notify-keyspace-events", "Egxe",
                 "--enable-debug-command", "local", "--enable-module-command", "local",
                 "--repl-diskless-sync-delay", 0, *self.options]
        if self.module:
            words += ["--loadmodule", self.module]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(list(map(str, words)), stdout=log, stderr=log,
                                            env=self.environment)
        self.client = wait_for(self.ready, "a server that answers", self.log)

    def ready(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"the server has ended:\n{self.log()}")
        try:
            client = self.connect()
            client("PING")
            return client
        except (OSError, RuntimeError):
            return None

    def connect(self):
        return Client(self.path)

    def log(self):
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-4000:]

    def cpu(self):
        """Seconds of processor time until now."""
        used = self.client.info("cpu")
        return sum(float(used[f"used_cpu_{kind}"]) for kind in ("sys", "user"))

    def scanned(self):
        """Waits until the module knows all keys."""
        self.client("PING")
        time.sleep(0.005)  # an event is looked at after a millisecond
        wait_for(lambda: self.client.info("tvec_expire")["tvec_expire_state"] == "on",
                 "a module that knows all keys", self.log)

    def stop(self):
        self.client.close()
        self.process.terminate()
        if status := self.process.wait(PATIENCE):
            raise RuntimeError(f"the server ended with {status}:\n{self.log()}")

    def __enter__(self):
        return self

    def __exit__(self, fault, *_):
        if fault:
            self.process.kill()
            self.process.wait()
        else:
            self.stop()
        shutil.rmtree(self.folder)


def wait_for(happens, what, log=lambda: ""):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if result := happens():
            return result
        time.sleep(0.002)
    raise RuntimeError(f"waited in vain for {what}\n{log()}")
