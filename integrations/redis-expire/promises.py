#!/usr/bin/env python3
"""What the module promises, each by a test of its name, on servers that the test starts.

usage: promises.py MODULE [TEST...]"""

import pathlib
import sys
import tempfile
import time

from server import Server, wait_for

HOUR = 3600


def now():
    return time.time() * 1000


def held(server):
    return int(server.client.info("tvec_expire")["tvec_expire_keys"])


def gone_when_due(client, key):
    """Waits for the server to have deleted `key` by itself: without its sampler only the module does
    that, and a count of keys touches none."""
    client("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    before = client("DBSIZE")
    if client("PEXPIRETIME", key) != -2:  # else it has gone already: the machine is slow
        wait_for(lambda: client("DBSIZE") < before, f"the end of {key}")


def keys_expire_when_due(module):
    with Server(module) as server:
        c = server.client
        fill(c, 10000)
        for words in ("SET k v PX 50", "SETEX k 1 v", "PSETEX k 50 v", "SET k v PXAT {}",
                      "PEXPIRE k 60", "PEXPIREAT k {}", "GETEX k PX 60", "EXPIRE k 1"):
            if "v" not in words:
                c("SET", "k", "v")
            c(*words.format(int(now()) + 60).split())
            gone_when_due(c, "k")
        assert c("TVEC_EXPIRE.CHECK") == 10000


def fill(client, count, name="background"):
    client("EVAL", f"for i=1,{count} do redis.call('SET','{name}:'..i,i,'EX',{HOUR}) end", 0)


def never_early(module):
    with Server(module) as server:
        c, events = server.client, server.connect()
        events("SUBSCRIBE", "__keyevent@0__:expired")
        deadlines = {f"k{i}": int(now()) + 100 + i % 97 for i in range(2000)}
        c.pipeline([("SET", key, 1, "PXAT", at) for key, at in deadlines.items()])
        for _ in deadlines:
            key = events.read()[2].decode()
            assert now() > deadlines[key], f"{key} came {deadlines[key] - now():.1f} ms early"


def later_deadlines_count(module):
    with Server(module) as server:
        c = server.client
        c.pipeline([("MULTI",), ("SET", "k", 1, "PX", 50), ("EXPIRE", "k", 100),
                    ("SET", "p", 1, "PX", 50), ("PERSIST", "p"),
                    ("SET", "s", 1, "PX", 50), ("SET", "s", 2), ("EXEC",)])  # at one time
        time.sleep(0.15)
        assert c("DBSIZE") == 3 and c("TVEC_EXPIRE.CHECK") == 1
        c("PEXPIRE", "k", 30)
        gone_when_due(c, "k")


def names_move_with_their_deadlines(module):
    with Server(module) as server:
        c = server.client
        c("SET", "a", 1, "EX", 100)
        c("RENAME", "a", "b")
        c("COPY", "b", "c")
        c("MOVE", "c", 3)
        c("RESTORE", "d", 100000, c("DUMP", "b"))
        wait_for(lambda: c("TVEC_EXPIRE.CHECK") == 3, "three keys")
        c("SWAPDB", 0, 5)
        c("SELECT", 5)
        c("PEXPIRE", "b", 30)
        gone_when_due(c, "b")
        c("SWAPDB", 3, 5)
        c("PEXPIRE", "c", 30)
        gone_when_due(c, "c")
        c("GETDEL", "c")
        assert c("TVEC_EXPIRE.CHECK") == 1


def flushed_keys_are_forgotten(module):
    with Server(module) as server:
        c = server.client
        fill(c, 50000)
        c("SELECT", 1)
        c("SET", "other", 1, "EX", 100)
        c("SELECT", 0)
        c("FLUSHDB")
        wait_for(lambda: c("TVEC_EXPIRE.CHECK") == 1, "one key")
        c("FLUSHALL")
        assert c("TVEC_EXPIRE.CHECK") == 0
        wait_for(lambda: int(c.info("tvec_expire")["tvec_expire_bytes"]) == 0, "no memory")


def restarts_keep_deadlines(module):
    for options in (), ("--appendonly", "yes"), ("--appendonly", "yes", "--aof-use-rdb-preamble", "no"):
        with Server(module, *options) as server:
            c = server.client
            fill(c, 3000)
            c("SET", "k", 1, "PX", 5000)
            if not options:
                c("SAVE")
            server.stop()
            server.start()
            server.scanned()
            assert server.client("TVEC_EXPIRE.CHECK") == 3001
            gone_when_due(server.client, "k")
            server.client("DEBUG", "RELOAD")
            server.scanned()
            assert server.client("TVEC_EXPIRE.CHECK") == 3000


def a_check_selects_no_database(module):
    with Server(module) as server:
        said = server.client.pipeline([("SELECT", 1), ("SET", "k", 1, "EX", 100), ("SELECT", 0),
                                       ("TVEC_EXPIRE.CHECK",), ("CLIENT", "INFO")])
        assert said[3] == 1 and b" db=0 " in said[4], said


def a_full_server_is_scanned(module):
    with Server() as server:
        c = server.client
        fill(c, 20000)
        c("SELECT", 7)
        c("SET", "k", 1, "PX", 3000)
        c("MODULE", "LOAD", module)
        server.scanned()
        assert c("TVEC_EXPIRE.CHECK") == 20001
        gone_when_due(c, "k")
        c("MODULE", "UNLOAD", "tvec_expire")
        c("MODULE", "LOAD", module)
        server.scanned()
        assert c("TVEC_EXPIRE.CHECK") == 20000


def listen(server):
    """Has a server listen to a port of loopback. Returns the port."""
    for port in range(23100, 23200):
        try:
            server.client("CONFIG", "SET", "port", port)
            return port
        except RuntimeError:
            continue
    raise RuntimeError("no port is free")


def attach(replica, primary):
    """Makes a server the replica of another."""
    replica.client("REPLICAOF", "127.0.0.1", listen(primary))
    wait_for(lambda: replica.client.info("replication")["master_link_status"] == "up", "a link")


def in_step(replica, primary):
    offset = int(primary.client.info("replication")["master_repl_offset"])
    wait_for(lambda: int(replica.client.info("replication")["slave_repl_offset"]) >= offset,
             "a replica in step")


def replicas_wait_for_their_master(module):
    with Server(module) as primary, Server(module, "--repl-diskless-load", "swapdb") as replica:
        fill(primary.client, 3000)
        attach(replica, primary)
        primary.client.pipeline([("SET", f"e{i}", 1, "PX", 100) for i in range(500)])
        primary.client("SET", "past", 1, "PXAT", 1)
        primary.client("SET", "stays", 1, "EX", 100)
        wait_for(lambda: primary.client("DBSIZE") == 3001, "the end of 501 keys")
        in_step(replica, primary)
        assert primary.client("DBSIZE") == replica.client("DBSIZE") == 3001
        assert replica.client("TVEC_EXPIRE.CHECK") == 0
        primary.client("SET", "k", 1, "PX", 3000)
        in_step(replica, primary)
        replica.client("REPLICAOF", "NO", "ONE")
        replica.scanned()
        assert replica.client("TVEC_EXPIRE.CHECK") == 3002
        gone_when_due(replica.client, "k")


def pauses_keep_keys(module):
    with Server(module) as server:
        c = server.client
        fill(c, 10000)
        c("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        c.pipeline([("SET", "k", 1, "PX", 300), ("CLIENT", "PAUSE", 3000, "WRITE")])
        time.sleep(0.6)
        assert c("DBSIZE") == 10001
        wait_for(lambda: c("DBSIZE") == 10000, "the end of a key after the pause")


def watchers_see_only_what_happens(module):
    with Server(module) as server:
        c, watcher = server.client, server.connect()
        c("SET", "long", 1, "EX", 100)
        c("SET", "short", 1, "PX", 1000)
        watcher("WATCH", "long")
        time.sleep(0.05)
        watcher("MULTI")
        watcher("GET", "long")
        assert watcher("EXEC") == [b"1"]
        watcher("WATCH", "short")
        wait_for(lambda: c("DBSIZE") == 1, "the end of a key")
        watcher("MULTI")
        watcher("GET", "long")
        assert watcher("EXEC") is None
        stats = c.info("stats")
        assert (stats["keyspace_hits"], stats["keyspace_misses"]) == ("1", "0")


def clock_steps_are_followed(module):
    steps = pathlib.Path(module).with_name("steps.so")
    with tempfile.NamedTemporaryFile("w") as file, \
            Server(module, environment={"LD_PRELOAD": steps, "CLOCK_STEP": file.name}) as server:
        c = server.client

        def step(seconds):
            file.seek(0)
            file.write(f"{seconds:<20}")
            file.flush()

        c("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        fill(c, 10000)
        c("SET", "k", 1, "EX", 1000)
        step(2000)
        wait_for(lambda: c("DBSIZE") == 10000, "the end of a key, by a clock set forward")
        c("SET", "k", 1, "PX", 500)
        step(-100000)
        time.sleep(0.7)
        assert c("DBSIZE") == 10001, "a key expired before its deadline"
        c("SET", "short", 1, "PX", 100)
        wait_for(lambda: c("DBSIZE") == 10001, "the end of a key, by a clock set back")
        assert c("TVEC_EXPIRE.CHECK") == 10001
        step(3000)
        wait_for(lambda: c("DBSIZE") == 10000, "the end of a key, by a clock set right")


def clusters_move_keys(module):
    with Server(module, "--cluster-enabled", "yes", "--cluster-port", 23300) as server, \
            Server(module) as other:
        c = server.client
        c("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_for(lambda: b"cluster_state:ok" in c("CLUSTER", "INFO"), "a cluster")
        c.pipeline([("SET", f"k{i}", 1, "EX", HOUR) for i in range(10000)])  # in all slots
        c("SET", "k", 1, "PX", 3000)
        c("MIGRATE", "127.0.0.1", listen(other), "k", 0, 1000)
        assert c("TVEC_EXPIRE.CHECK") == 10000
        gone_when_due(other.client, "k")
        c("EVAL", "for i=1,5000 do redis.call('SET','{k}'..i,i,'PXAT',ARGV[1]) end", 1, "{k}",
          int(now()) + 3000)
        assert c("TVEC_EXPIRE.CHECK") == 15000
        wait_for(lambda: c("DBSIZE") == 10000, "the end of the keys of a script")
        c("MULTI")
        c("SET", "k", 1, "EX", HOUR)
        c("TVEC_EXPIRE.CHECK")
        assert "transaction" in str(c("EXEC")[1])


def it_can_be_switched_off(module):
    with Server(module) as server:
        c = server.client
        fill(c, 10000)
        c("CONFIG", "SET", "tvec_expire.active", "no")
        assert c("TVEC_EXPIRE.CHECK") == 0
        c("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        c("SET", "k", 1, "PX", 1)
        time.sleep(0.05)
        assert c("DBSIZE") == 10001
        c("CONFIG", "SET", "tvec_expire.active", "yes")
        server.scanned()
        wait_for(lambda: c("DBSIZE") == 10000, "the end of a key")


def operators_alone_may_check(module):
    with Server(module) as server:
        c = server.client
        version = c.info("server")["redis_version"].split(".")
        has_categories = [int(part) for part in version[:2]] >= [7, 2]
        rules = [] if has_categories else ["-tvec_expire.check"]  # as README.md says
        c("ACL", "SETUSER", "app", "on", "nopass", "~app:*", "+@all", "-@admin", *rules)
        c("ACL", "SETUSER", "careful", "on", "nopass", "~app:*", "+@all", "-@dangerous", *rules)
        c("ACL", "SETUSER", "operator", "on", "nopass", "+@admin")
        for user in "app", "careful":
            other = server.connect()
            other("AUTH", user, "")
            other("SET", "app:1", 1, "EX", HOUR)
            assert "permissions" in str(other.pipeline([("TVEC_EXPIRE.CHECK",)])[0]), user
            other.close()
        if has_categories:
            c("AUTH", "operator", "")
        wait_for(lambda: c("TVEC_EXPIRE.CHECK") == 1, "a key")


def bad_input_stops_no_server(module):
    with Server(module, "--tvec_expire.max-turn-us", 7) as server:
        assert "all have their defaults" in server.log()
        assert server.client("CONFIG", "GET", "tvec_expire.max-turn-us")[1] == b"1500"
    with Server() as server:
        for words in (("MODULE", "LOAD", module, "quickly"),
                      ("MODULE", "LOADEX", module, "CONFIG", "tvec_expire.max-turn-us", 7)):
            try:
                server.client(*words)
                raise AssertionError(f"{words} was accepted")
            except RuntimeError:
                pass
        assert "it takes no arguments" in server.log()


TESTS = [keys_expire_when_due, never_early, later_deadlines_count, names_move_with_their_deadlines,
         flushed_keys_are_forgotten, restarts_keep_deadlines, a_check_selects_no_database,
         a_full_server_is_scanned, replicas_wait_for_their_master, pauses_keep_keys,
         watchers_see_only_what_happens, clock_steps_are_followed, clusters_move_keys,
         operators_alone_may_check, it_can_be_switched_off, bad_input_stops_no_server]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.splitlines()[-1])
    for test in TESTS:
        if not sys.argv[2:] or test.__name__ in sys.argv[2:]:
            test(sys.argv[1])
            print(f"ok {test.__name__}", flush=True)


if __name__ == "__main__":
    main()
