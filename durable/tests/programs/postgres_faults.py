#!/usr/bin/env python3
"""Has three processes share durable timers in a PostgreSQL database, does them harm, and audits their books.

The harm, again and again:
  kills         a process is killed with -9, and another takes its place
  crashes       some handlers end their process, and another takes its place
  stops         a process is stopped for longer than its leases, and goes on
  cuts          all sessions are ended, or the server is stopped for longer than they are patient
  server-kills  the server ends as in a crash, and is started again on its files
  power-cuts    so is the server, and of each block that was not synced the disk has the old or the new
  clocks        the server's clock is an hour ahead, all processes are killed, and it is set right
  failovers     the primary is killed while its synchronous standby is stopped, which takes over
  conflicts     another client locks timers in long transactions, and some statements fail to serialize
  full-disk     the disk of the server is full, again and again
Then one process finishes what is left. The books: everything that was answered as stored was delivered or
cancelled; nothing came early, nothing after a confirmed cancel, no (id, attempt) twice. All is on sockets
in a temporary folder. Ends with 77 where there is no PostgreSQL, or no right to mount a small disk.
"""

import contextlib
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

import harm
import postgres_server
from postgres_server import BLOCK, SYNCED, Server

PROCESSES = 3
SHARDS = 6
CRASHED = 9  # what a handler of to_be_killed ends its process with
DISK = 96_000_000

# A statement in 200 that changes a timer fails to serialize.
CONFLICTS = """
create function public.conflict() returns trigger language plpgsql as $$
begin
  if random() < 0.005 then raise exception using errcode = '40001', message = 'a test wants it so'; end if;
  return coalesce(new, old);
end $$;
create trigger conflict before insert or update or delete on tvec.timer for each row execute function public.conflict()
"""

# Locks timers in the transaction of somebody else.
LOCKS = """
begin;
select count(*) from (select 1 from tvec.timer order by random() limit 10 for update skip locked) x;
select tvec.touch(id, now() + interval '300 ms') from (select id from tvec.timer order by random() limit 2) x;
select pg_sleep(random() * 0.4);
rollback;
"""


class Harm:
    """A server, processes that share its timers, and what is done to them."""

    def __init__(self, options, folder):
        self.options, self.folder, self.runs, self.servers = options, folder, 0, 0
        self.environment = dict(os.environ)
        settings = ["max_wal_size=32MB", "min_wal_size=2MB"]
        if options.harm == "crashes":
            self.environment["TVEC_CRASHES"] = "1"
        if options.harm == "clocks":
            self.environment["TVEC_CLOCK"] = os.environ["TVEC_CLOCK"] = str(folder / "clock")
            self.set_clock(0)
        if options.harm == "full-disk":
            self.mount()
        if options.harm == "power-cuts":
            settings.append("checkpoint_timeout=30s")
        self.settings = settings
        shim = options.shim if options.harm in ("power-cuts", "clocks") else None
        self.server = Server(folder, "server", shim=shim, options=settings)
        self.install()
        if options.harm == "failovers":
            self.add_standby()
        if options.harm == "conflicts":
            self.server.say(CONFLICTS)
        self.processes = [self.start() for _ in range(PROCESSES)]
        time.sleep(0.5)

    def install(self):
        """A process creates the tables, finds no timer, and ends."""
        words = [self.options.program, f"postgres:{self.server.conninfo}", self.folder / "log", "0", "--finish"]
        subprocess.run(words, env=self.environment | {"TVEC_INSTALL": str(SHARDS)}, check=True)

    def mount(self):
        (self.folder / "server").mkdir()
        words = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", self.folder / "server"]
        if os.getuid() != 0 or subprocess.run(words, stderr=subprocess.DEVNULL).returncode != 0:
            print("durable_postgres_faults: skipped: there is no right to mount a small disk")
            sys.exit(77)

    def unmount(self):
        self.server.kill()
        subprocess.run(["umount", "-l", self.folder / "server"], check=True)

    def add_standby(self):
        self.servers += 1
        self.standby = Server(self.folder, f"standby{self.servers}", options=self.settings, primary=self.server)
        self.server.say("alter system set synchronous_standby_names = '*'")
        self.server.say("select pg_reload_conf()")
        self.server.wait_for("sync", "select sync_state from pg_stat_replication")

    def start(self, *words):
        self.runs += 1
        return harm.start(self.options.program, f"postgres:{self.server.conninfo}", self.folder, self.runs, *words,
                          env=self.environment)

    def stop_all(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def restart_all(self):
        self.stop_all()
        self.processes = [self.start() for _ in range(PROCESSES)]

    def kills(self):
        which = random.randrange(PROCESSES)
        self.processes[which].kill()
        self.processes[which].wait()
        self.processes[which] = self.start()

    def crashes(self):
        for at, process in enumerate(self.processes):
            if process.poll() == CRASHED:
                self.processes[at] = self.start()

    def set_clock(self, hours):
        clock = self.folder / "clock"
        with open(clock, "r+b" if clock.exists() else "wb") as f:
            f.write(struct.pack("=q", hours * 3_600_000))
        clock.chmod(0o644)

    def clocks(self):
        self.set_clock(1)
        time.sleep(random.uniform(0.5, 1.5))  # all shards and some timers are leased by that clock
        self.stop_all()
        self.set_clock(0)
        log = self.folder / "log"
        before = log.stat().st_size
        self.processes = [self.start() for _ in range(PROCESSES)]
        for _ in range(100):
            time.sleep(0.1)
            with open(log) as f:
                f.seek(before)
                if any(line.startswith("F ") for line in f):
                    return
        sys.exit("durable_postgres_faults: nothing is delivered ten seconds after the clock was set right")

    def stops(self):
        process = random.choice(self.processes)
        process.send_signal(signal.SIGSTOP)
        time.sleep(random.uniform(0.8, 2))
        process.send_signal(signal.SIGCONT)

    def cuts(self):
        if random.random() < 0.8:
            self.server.say("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
                            "and backend_type = 'client backend'")
            return
        self.server.signal(signal.SIGSTOP)
        time.sleep(random.uniform(0.5, 1.5))
        self.server.signal(signal.SIGCONT)

    def server_kills(self):
        self.server.kill()
        time.sleep(random.uniform(0, 0.3))
        self.server.start()

    def power_cuts(self):
        self.server.kill()
        for live in self.server.files():
            synced = live.with_name(live.name + SYNCED)
            if not synced.exists():
                continue
            old, new = synced.read_bytes(), live.read_bytes()
            blocks = []
            for at in range(0, max(len(old), len(new)), BLOCK):
                was, now = old[at:at + BLOCK], new[at:at + BLOCK]
                blocks.append(was if was == now or random.random() < 0.5 else now)
                if not blocks[-1]:
                    break
            with open(live, "r+b") as f:
                f.write(b"".join(blocks))
                f.truncate()
        self.server.start()

    def failovers(self):
        self.standby.signal(signal.SIGSTOP)  # the primary waits for it
        time.sleep(random.uniform(0, 0.3))
        self.server.kill()
        self.standby.signal(signal.SIGCONT)
        self.standby.promote()
        shutil.rmtree(self.server.data)
        self.server = self.standby
        self.add_standby()
        self.restart_all()

    def conflicts(self):
        self.server.say(LOCKS)

    def full_disk(self):
        ballast = self.server.data / "ballast"
        with contextlib.suppress(OSError), open(ballast, "wb") as f:
            while True:
                f.write(bytes(65536))
        time.sleep(random.uniform(0.3, 1))
        ballast.unlink()
        if self.server.process.poll() is not None:  # without a place for its log it ends
            self.server.start()

    def do(self):
        """One round."""
        time.sleep(random.uniform(0.1, 0.7))
        getattr(self, self.options.harm.replace("-", "_"))()
        for process in self.processes:
            if process.poll() not in (None, CRASHED if self.options.harm == "crashes" else None):
                sys.exit(f"durable_postgres_faults: a process ended by itself: {process.returncode}")

    def finish(self):
        if self.options.harm == "crashes":  # a kill between a handler's count and its call would count as well
            for process in self.processes:
                process.wait()
        self.stop_all()
        if self.options.harm == "clocks":
            self.set_clock(1)  # so that all is due
        last = self.start("--finish")
        while (code := last.wait(timeout=90)) == CRASHED and self.options.harm == "crashes":
            last = self.start("--finish")
        if code != 0:
            sys.exit("durable_postgres_faults: the last process failed")
        signs = {"full-disk": "No space left", "conflicts": "a test wants it so"}
        if signs.get(self.options.harm, "") not in (self.folder / "server.log").read_text():
            sys.exit("durable_postgres_faults: the server met no fault")
        if self.options.harm == "full-disk":
            self.unmount()


def add_options(parser):
    parser.add_argument("shim", type=harm.shim, help="what_was_synced, or set_clock for clocks, to be preloaded")
    parser.add_argument("harm", choices=["kills", "crashes", "stops", "cuts", "server-kills", "power-cuts", "clocks",
                                         "failovers", "conflicts", "full-disk"])
    parser.add_argument("--rounds", type=int, default=6, help="how often (6)")


if __name__ == "__main__":
    options = harm.options_of(__doc__, add_options)
    if not postgres_server.is_there():
        print("durable_postgres_faults: skipped: there is no PostgreSQL")
        sys.exit(77)
    harm.audit(options, Harm, options.harm)
