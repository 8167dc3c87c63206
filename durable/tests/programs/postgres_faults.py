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
import subprocess
import time

import harm
import postgres_server
from children import ENDING
from postgres_server import BLOCK, SYNCED, Server

SHARDS = 6
DISK = 256_000_000  # in ten minutes the data and 64 MB of log fill a smaller one for good

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


class Harm(harm.Sharing):
    """A server, processes that share its timers, and what is done to them."""

    def __init__(self, options, folder):
        super().__init__(options, folder)
        self.servers = 0
        self.settings = ["max_wal_size=32MB", "min_wal_size=2MB"]
        if options.harm == "full-disk":
            self.mount()
        if options.harm == "power-cuts":
            self.settings.append("checkpoint_timeout=30s")
        self.server = Server(folder, "server", shim=self.shim(), options=self.settings)
        self.install()
        if options.harm == "failovers":
            self.add_standby()
        if options.harm == "conflicts":
            self.server.say(CONFLICTS)
        self.start_all()
        time.sleep(0.5)

    def where(self):
        return f"postgres:{self.server.conninfo}"

    def install(self):
        """A process creates the tables, finds no timer, and ends."""
        words = [self.options.program, self.where(), self.folder / "log", "0", "--finish"]
        subprocess.run(words, env=self.environment | {"TVEC_INSTALL": str(SHARDS)}, check=True)

    def mount(self):
        (self.folder / "server").mkdir()
        words = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", self.folder / "server"]
        if os.getuid() != 0 or subprocess.run(words, stderr=subprocess.DEVNULL).returncode != 0:
            harm.skip("there is no right to mount a small disk")
        ENDING.callback(subprocess.run, ["umount", "-l", self.folder / "server"], check=True)

    def add_standby(self):
        self.servers += 1
        self.standby = Server(self.folder, f"standby{self.servers}", options=self.settings, primary=self.server)
        self.server.say("alter system set synchronous_standby_names = '*'")
        self.server.say("select pg_reload_conf()")
        self.server.wait_for("sync", "select sync_state from pg_stat_replication")

    def cut_connections(self):
        self.server.say("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
                        "and backend_type = 'client backend'")

    def power_cuts(self):
        self.server.kill()
        for live in self.server.files():
            synced = live.with_name(live.name + SYNCED)
            if not synced.exists():
                continue
            with open(live, "r+b") as f:
                f.write(harm.torn(synced.read_bytes(), live.read_bytes(), BLOCK))
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
        self.stop_all()
        self.start_all()

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

    def finish(self):
        super().finish()
        signs = {"full-disk": "No space left", "conflicts": "a test wants it so"}
        if signs.get(self.options.harm, "") not in (self.folder / "server.log").read_text():
            harm.fail("the server met no fault")


def add_options(parser):
    harm.add_options(parser, "kills", "crashes", "stops", "cuts", "server-kills", "power-cuts", "clocks", "failovers",
                     "conflicts", "full-disk")


if __name__ == "__main__":
    options = harm.options_of(__doc__, add_options)
    if not postgres_server.is_there():
        harm.skip("there is no PostgreSQL")
    harm.audit(options, Harm, options.harm)
