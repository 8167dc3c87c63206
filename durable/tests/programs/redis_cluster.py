#!/usr/bin/env python3
"""Has three processes share durable timers in a Redis Cluster, does it harm, and audits their books.

The cluster is three primaries with a replica each. Every write is waited for until a replica has it. The
harm, again and again:
  failovers   each primary in turn is killed with -9, its replica takes over, and it comes back as a replica
  takeovers   a replica takes over from its primary, which lives (CLUSTER FAILOVER)
  stops       a primary is stopped until its replica has taken over, and goes on
  moves       the slot of a shard, or of the common keys, moves to another primary, key by key
Now and then a process is killed as well. Then one process finishes what is left. The books: everything that
was answered as stored was delivered or cancelled; nothing came early, nothing after a confirmed cancel, no
(id, attempt) twice. All is on sockets in a temporary folder, and the loopback. Ends with 77 where there is no
redis-server.
"""

import random
import shutil
import signal
import time

import harm
from children import free_port, patiently
from redis_server import Server

PRIMARIES = 3
SLOTS = 16384
SHARDS = 6  # of to_be_killed


def slot_of(tag):
    """CRC-16 of XMODEM."""
    crc = 0
    for byte in tag.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc % SLOTS


class Node(Server):
    """A server that is a node of a cluster."""

    def __init__(self, folder, name, patience):
        self.bus = free_port()
        super().__init__(folder, name, options=[
            "--cluster-enabled", "yes", "--cluster-port", self.bus, "--cluster-node-timeout", patience,
            "--cluster-replica-validity-factor", 0, "--cluster-allow-replica-migration", "no"])
        self.id = self.say("CLUSTER", "MYID").strip()

    def is_primary(self):
        return "role:master" in self.say("INFO", "replication")

    def is_running(self):
        return self.process.poll() is None


class Cluster:
    """Three primaries, each with a replica, which takes over after a silence of so many milliseconds."""

    def __init__(self, folder, patience=1_000):
        self.nodes = [Node(folder, f"node{i}", patience) for i in range(2 * PRIMARIES)]
        first = self.nodes[0]
        for node in self.nodes[1:]:
            node.say("CLUSTER", "MEET", "127.0.0.1", first.port, first.bus)
        for i, node in enumerate(self.nodes[:PRIMARIES]):
            node.say("CLUSTER", "ADDSLOTSRANGE", SLOTS * i // PRIMARIES, SLOTS * (i + 1) // PRIMARIES - 1)
        for node in self.nodes:
            node.wait_for("cluster_known_nodes:6", "CLUSTER", "INFO")
        for i, node in enumerate(self.nodes[PRIMARIES:]):
            node.say("CLUSTER", "REPLICATE", self.nodes[i].id)
        self.wait_until_whole()

    def running(self):
        return [node for node in self.nodes if node.is_running()]

    def primaries(self):
        return [node for node in self.running() if node.is_primary()]

    def owner_of(self, slot):
        """The primary that has a slot, as the primaries themselves say."""
        for _ in patiently():
            for node in self.primaries():
                mine = next((line for line in node.say("CLUSTER", "NODES").splitlines() if "myself" in line), "")
                for part in mine.split()[8:]:
                    first, _, last = part.partition("-")
                    if not part.startswith("[") and int(first) <= slot <= int(last or first):
                        return node
        harm.fail(f"nobody has slot {slot}")

    def replica_of(self, primary):
        for _ in patiently():
            for node in self.running():
                if f"master_port:{primary.port}\n" in node.say("INFO", "replication").replace("\r", ""):
                    return node
        harm.fail("a primary has no replica")

    def wait_until_whole(self):
        """Waits until each node knows that all is well, and each primary has its replica."""
        for _ in patiently():
            states = [node.say("CLUSTER", "INFO") for node in self.nodes]
            links = [node.say("INFO", "replication") for node in self.nodes]
            whole = all("cluster_state:ok" in state for state in states)
            up = sum("master_link_status:up" in link for link in links)
            if whole and up == PRIMARIES and sum("state=online" in link for link in links) == PRIMARIES:
                return
        harm.fail("the cluster does not become whole")

    def kill_primary(self, primary):
        """Its replica takes over, and it comes back as a replica."""
        heir = self.replica_of(primary)
        primary.kill()
        heir.wait_for("role:master", "INFO", "replication")
        time.sleep(random.uniform(0, 0.5))
        primary.start()
        self.wait_until_whole()

    def stop_primary(self, primary):
        heir = self.replica_of(primary)
        primary.signal(signal.SIGSTOP)
        heir.wait_for("role:master", "INFO", "replication")
        time.sleep(random.uniform(0, 0.5))
        primary.signal(signal.SIGCONT)
        primary.wait_for("role:slave", "INFO", "replication")
        self.wait_until_whole()

    def take_over(self, primary):
        heir = self.replica_of(primary)
        heir.say("CLUSTER", "FAILOVER")
        heir.wait_for("role:master", "INFO", "replication")
        self.wait_until_whole()

    def move(self, slot):
        """Moves a slot as redis-cli --cluster reshard does, with pauses in which its keys are on both sides."""
        source = self.owner_of(slot)
        target = random.choice([node for node in self.primaries() if node is not source])
        target.say("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.say("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        while keys := source.say("CLUSTER", "GETKEYSINSLOT", slot, 2).split():
            time.sleep(random.uniform(0, 0.05))
            said = source.say("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            if not said.startswith(("OK", "NOKEY")) and "CLUSTERDOWN" not in said:
                harm.fail(f"MIGRATE says {said}")
        time.sleep(random.uniform(0, 0.05))
        for node in (target, source, *self.primaries()):
            node.say("CLUSTER", "SETSLOT", slot, "NODE", target.id)


class Harm(harm.Sharing):
    """A cluster, processes that share its timers, and what is done to them."""

    def __init__(self, options, folder):
        super().__init__(options, folder)
        self.turn = 0
        self.environment["TVEC_WAIT_REPLICAS"] = "1"
        # On a busy machine a node is silent for a second now and then, and a slot that moves must not change its owner.
        self.cluster = Cluster(folder, 5_000 if options.harm == "moves" else 1_000)
        self.start_all()
        time.sleep(0.5)

    def where(self):
        seed = random.choice(self.cluster.running())  # a replica is one as well
        return f"redis:127.0.0.1:{seed.port}"

    def next_primary(self):
        self.turn += 1
        self.cluster.wait_until_whole()  # on a busy machine a replica takes over by itself now and then
        return self.cluster.owner_of(SLOTS * (self.turn % PRIMARIES) // PRIMARIES)

    def failovers(self):
        self.cluster.kill_primary(self.next_primary())

    def takeovers(self):
        self.cluster.take_over(self.next_primary())

    def stops(self):
        self.cluster.stop_primary(self.next_primary())

    def moves(self):
        for shard in random.sample(range(-1, SHARDS), 3):
            self.cluster.move(slot_of("tvec" if shard < 0 else f"tvec:{shard}"))

    def harm(self):
        if random.random() < 0.3:
            self.kills()
        super().harm()


def add_options(parser):
    parser.add_argument("harm", choices=["failovers", "takeovers", "stops", "moves"])
    parser.add_argument("--rounds", type=int, default=4, help="how often (4)")


if __name__ == "__main__":
    options = harm.options_of(__doc__, add_options)
    if not shutil.which("redis-server"):
        harm.skip("there is no redis-server")
    harm.audit(options, Harm, options.harm)
