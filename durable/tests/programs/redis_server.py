"""A Redis server of a test's own."""

import os
import signal
import subprocess
import sys

from children import ENDING, PATIENCE, free_port, patiently


class Server:
    """A redis-server that ends with this process."""

    def __init__(self, folder, name, shim=None, fsync="always", primary=None, options=()):
        self.folder, self.port = folder / name, free_port()
        self.folder.mkdir()
        self.socket, self.log = self.folder / "socket", self.folder / "log"
        self.words = ["setpriv", "--pdeathsig", "KILL", "redis-server", "--port", self.port, "--bind",
                      "127.0.0.1", "--unixsocket", self.socket, "--dir", self.folder, "--save", "",
                      "--appendonly", "yes", "--appendfsync", fsync, "--repl-diskless-sync-delay", 0,
                      "--repl-timeout", 5, *options]
        if primary:
            self.words += ["--replicaof", "127.0.0.1", primary.port]
        self.environment = dict(os.environ, **({"LD_PRELOAD": shim} if shim else {}))
        self.start()

    def start(self):
        with self.log.open("a") as log:
            self.process = subprocess.Popen(list(map(str, self.words)), env=self.environment, stdout=log)
        ENDING.callback(self.kill)
        self.wait_for("PONG", "PING")

    def say(self, *words):
        done = subprocess.run(["redis-cli", "-s", self.socket, *map(str, words)], capture_output=True,
                              text=True, timeout=PATIENCE)
        return done.stdout

    def wait_for(self, answer, *words):
        for _ in patiently():
            if answer in self.say(*words):
                return
            if self.process.poll() is not None:
                break
        sys.exit(f"redis_server: it does not say {answer} to {words}\n{self.log.read_text()[-1000:]}")

    def signal(self, which):
        self.process.send_signal(which)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.socket.unlink(missing_ok=True)

    def cut_power(self):
        """Goes back to what the disk has of the files that are appended to."""
        self.kill()
        for live in self.folder.glob("appendonlydir/*.aof"):
            synced = live.with_name(live.name + ".synced")
            size = synced.stat().st_size if synced.exists() else 0
            if ".incr." in live.name and size < live.stat().st_size:
                os.truncate(live, size)
        self.start()
