"""A PostgreSQL server of a test's own."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from children import ENDING, PATIENCE, patiently

SYNCED = ".synced"
BLOCK = 8192


def programs():
    """The folder of the programs of the newest PostgreSQL here, or None."""
    return max(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), default=pathlib.Path()).parent


def is_there():
    return (programs() / "initdb").exists()


def user():
    """It refuses to be run by root. Its package has made a user."""
    as_postgres = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
    return as_postgres if os.getuid() == 0 else []


class Server:
    """A server that ends with this process. Its data lies in FOLDER/NAME, and its socket beside them."""

    def __init__(self, folder, name, shim=None, options=(), primary=None):
        folder.chmod(0o711)  # the server's user must come through
        self.log = open(folder / "server.log", "a")
        self.data, self.options = folder / name, options
        self.environment = dict(os.environ)
        if shim:
            shutil.copy(shim, folder / "shim.so")
            (folder / "shim.so").chmod(0o755)
            self.environment["LD_PRELOAD"] = str(folder / "shim.so")
        self.data.mkdir(mode=0o700, exist_ok=True)
        if user():
            shutil.chown(self.data, "postgres", "postgres")
        if primary:
            self.run("pg_basebackup", "-D", self.data, "-h", primary.data, "-U", "postgres", "-R", "-X", "stream",
                     "--checkpoint=fast")
            (self.data / ".s.PGSQL.5432.lock").unlink(missing_ok=True)  # of the primary's socket
        else:
            self.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-k", "--wal-segsize=1")
        if shim:
            for live in self.files():
                shutil.copy(live, f"{live}{SYNCED}")
                shutil.chown(f"{live}{SYNCED}", "postgres", "postgres") if user() else None
        self.start()

    @property
    def conninfo(self):
        return f"host={self.data} user=postgres dbname=postgres"

    def run(self, program, *words):
        subprocess.run([*user(), programs() / program, *map(str, words)], check=True, cwd=self.data,
                       stdout=subprocess.DEVNULL, stderr=self.log)

    def start(self):
        words = ["-D", self.data, "-k", self.data, "-c", "listen_addresses=", "-c", "wal_keep_size=64MB"]
        for option in self.options:
            words += ["-c", option]
        self.process = subprocess.Popen(
            [*user(), "setpriv", "--pdeathsig", "QUIT", programs() / "postgres", *map(str, words)],
            env=self.environment, cwd=self.data, stdout=self.log, stderr=self.log)
        ENDING.callback(self.kill)
        for _ in patiently():
            if self.say("select 1") == "1":
                return
            if self.process.poll() is not None:
                break
        sys.exit("postgres_server: it does not answer")

    def say(self, sql):
        done = subprocess.run([programs() / "psql", "-qAtX", "-d", self.conninfo, "-c", sql], capture_output=True, text=True,
                              timeout=PATIENCE)  # Debian's own psql is a script of Perl
        return done.stdout.strip()

    def wait_for(self, answer, sql):
        for _ in patiently():
            if self.say(sql) == answer:
                return
        sys.exit(f"postgres_server: it does not say {answer} to {sql}")

    def pids(self):
        """Its processes: the first one, and those that it has started."""
        children = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout
        return [self.process.pid, *map(int, children.split())]

    def signal(self, which):
        for pid in self.pids():
            try:
                os.kill(pid, which)
            except ProcessLookupError:
                pass  # it has ended meanwhile

    def kill(self):
        """Ends it as a crash does. Its sessions end with it."""
        pids = self.pids()
        self.process.send_signal(signal.SIGQUIT)
        self.process.send_signal(signal.SIGCONT)
        self.process.wait()
        for pid in pids[1:]:
            while pathlib.Path(f"/proc/{pid}").exists():
                time.sleep(0.005)

    def promote(self):
        self.run("pg_ctl", "promote", "-D", self.data)
        self.wait_for("f", "select pg_is_in_recovery()")

    def files(self):
        return [f for f in self.data.rglob("*") if f.is_file() and not f.name.endswith((SYNCED, ".copying"))]
