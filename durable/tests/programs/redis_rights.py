#!/usr/bin/python3
"""What the page gives to users of a Redis server: each does its work with it, and reaches no other data and commands.

usage: redis_rights.py TVEC_TIMERS DURABLE
"""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

try:
    import redis
except ImportError:
    print("python3-redis is not installed")
    sys.exit(77)

import unittest

from children import ENDING, PATIENCE, free_port
from redis_server import Server
from serving import Case, wait_for

DURABLE = pathlib.Path(sys.argv[2])
Case.tool = sys.argv[1]
PAGE = (DURABLE / "docs/operating.md").read_text()
FAR = 4102444800000


def words_of(role):
    """The rules of a role on the page, without its password."""
    if role == "install":
        return [*words_of("serve"), "+function|load"]
    lines = re.findall(rf"^    ACL SETUSER {role} (.+)$", PAGE, re.M)
    return [word for line in lines for word in line.split() if not word.startswith(">")]


def refused(fault):
    return re.search(r"[Nn]o permissions|The user executing the script can't (run|access|publish)", str(fault)) is not None


class OnRedis(Case):
    options = ()
    more = ()  # rules of a cluster

    def setUp(self):
        super().setUp()
        self.server = Server(self.folder, "server", options=self.options)
        self.addCleanup(self.server.kill)
        self.admin = redis.Redis(unix_socket_path=str(self.server.socket))
        self.addCleanup(self.admin.close)
        self.ids = 0

    def allow(self, role, words=None):
        words = words_of(role) if words is None else words
        self.admin.execute_command("ACL", "SETUSER", role, "reset", *words, ">secret", *self.more)

    def link_of(self, role):
        link = redis.Redis(unix_socket_path=str(self.server.socket), username=role, password="secret")
        self.addCleanup(link.close)
        return link

    def name_of_store(self, user=""):
        return f"redis:{user and user + '@'}{self.server.socket}"

    def as_user(self, role):
        """Has the command and `serve` log in as this user from here on."""
        self.store = self.name_of_store(role)
        os.environ["REDISCLI_AUTH"] = "secret"
        self.addCleanup(os.environ.pop, "REDISCLI_AUTH", None)

    def install(self):
        self.allow("install")
        self.as_user("install")
        self.assertIn("functions of version", self.run_tool("install"))

    def new_id(self):
        self.ids += 1
        return f"timer-{self.ids}"


def call(link, name, *words, command="FCALL", key="tvec"):
    return link.execute_command(command, "tvec_" + name, 1, key, *words)


class Rights(OnRedis):
    def setUp(self):
        super().setUp()
        self.install()
        self.allow("serve")
        self.as_user("serve")
        self.server_of_workers = self.serve("stream:due", "--lease-ms", 60_000)

    # What the page says that each role does.

    def do_as_application(self, link):
        timer, damaged = self.new_id(), self.new_id()
        tag = self.tag_of(damaged)
        self.admin.execute_command("HSET", tag + ":damaged", damaged, "x")
        self.assertEqual(call(link, "put", damaged, FAR, "", "existing", "replace"), b"stored")
        self.assertEqual(call(link, "put", timer, FAR, "x" * 2000, "every", 1000, "plan", "attempts 3"), b"stored")
        self.assertEqual(call(link, "put", timer, FAR, ""), b"there_already")
        self.assertEqual(call(link, "put", timer, FAR, "", "existing", "replace"), b"stored")
        self.assertEqual(call(link, "find", timer)[1], timer.encode())
        self.assertEqual(call(link, "find", timer, command="FCALL_RO")[1], timer.encode())
        self.assertEqual(call(link, "touch", timer, FAR + 1), b"touched")
        self.assertEqual(call(link, "cancel", timer), b"cancelled")
        self.assertEqual(call(link, "put", timer, 5, ""), b"stored")  # its owner is told
        self.assertIsNotNone(link.execute_command("HGET", "{tvec}:meta", "shards"))
        call(link, "cancel", timer)

    def delivery(self, link):
        """Waits for one. The application may have cancelled others after they were sent: their attempts are stale."""
        while True:
            [[_, [(entry, fields)]]] = wait_for(lambda: link.xreadgroup("workers", "me", {"due": ">"}, count=1), "a delivery")
            timer, attempt = fields[b"id"], fields[b"attempt"]
            if call(link, "extend", timer, attempt, 60_000) == b"ok":
                return entry, timer, attempt
            link.xdel("due", entry)

    def do_as_worker(self, link):
        for _ in range(3):
            call(self.admin, "put", self.new_id(), 1, "x" * 2000)
        for how in (lambda t, a: call(link, "done", t, a), lambda t, a: call(link, "again", t, a, self.now() + 50),
                    lambda t, a: call(link, "failed", t, a, "no room")):
            entry, timer, attempt = self.delivery(link)
            self.assertEqual(how(timer, attempt), b"ok")
            self.assertEqual(link.xack("due", "workers", entry), 1)
            self.assertEqual(link.xdel("due", entry), 1)

    def now(self):
        seconds, microseconds = self.admin.time()
        return seconds * 1000 + microseconds // 1000

    def tag_of(self, timer):
        names = {}
        exec(re.search(r"```python\n(def shard_tag.*?)```", (DURABLE / "docs/using.md").read_text(), re.S)[1], names)
        return names["shard_tag"]("tvec", 16, timer.encode())

    def test_each_role_needs_every_right_it_has(self):
        for role, do in ("orders", self.do_as_application), ("worker", self.do_as_worker):
            self.allow(role)
            do(self.link_of(role))
            rights = [word for word in words_of(role) if word != "on"]
            for right in rights:
                with self.subTest(role, without=right):
                    self.allow(role, ["on", *(word for word in rights if word != right)])
                    with self.assertRaises((redis.exceptions.ResponseError, AssertionError)) as caught:
                        do(self.link_of(role))
                    self.assertTrue(refused(caught.exception), caught.exception)
                    self.allow(role)

    def test_a_role_reaches_no_other_data_and_commands(self):
        dump = self.admin.execute_command("FUNCTION", "DUMP")
        evil = "#!lua name=tvec_durable\nredis.register_function('tvec_version', function() return 7 end)"
        self.admin.mset({"other": "secret", "{tvec2}:meta": "secret"})
        self.admin.hset("other:hash", "f", "secret")
        for role in "orders", "worker", "serve", "install":
            self.allow(role)
            link = self.link_of(role)
            for words in (
                    ["FLUSHALL"], ["FLUSHDB"], ["SWAPDB", 0, 1], ["FUNCTION", "FLUSH"], ["FUNCTION", "RESTORE", dump],
                    ["FUNCTION", "DELETE", "tvec_durable"], ["SCAN", 0], ["KEYS", "*"], ["RANDOMKEY"], ["DBSIZE"],
                    ["GET", "other"], ["HGET", "other:hash", "f"], ["HSET", "other:hash", "f", "x"], ["HDEL", "other:hash", "f"],
                    ["DEL", "other"], ["HGET", "{tvec2}:meta", "shards"], ["RENAME", "other", "due"], ["COPY", "other", "due"],
                    ["FCALL", "tvec_find", 1, "other", "a"], ["EVAL", "return redis.call('HGET', 'other:hash', 'f')", 0],
                    ["EVAL", "return redis.call('FLUSHALL')", 0], ["PUBLISH", "other", "x"], ["SUBSCRIBE", "other"],
                    ["CONFIG", "GET", "requirepass"], ["CONFIG", "SET", "appendonly", "no"], ["ACL", "LIST"],
                    ["ACL", "SETUSER", role, "+@all"], ["SHUTDOWN"], ["MONITOR"], ["REPLICAOF", "NO", "ONE"],
                    ["MIGRATE", "127.0.0.1", 1, "other", 0, 1], ["SCRIPT", "FLUSH"], ["CLIENT", "KILL", "TYPE", "normal"],
                    *([["FUNCTION", "LOAD", "REPLACE", evil]] if role != "install" else [])):
                with self.subTest(role, words=words[:2]):
                    with self.assertRaises(redis.exceptions.ResponseError) as caught:
                        link.execute_command(*words)
                    self.assertTrue(refused(caught.exception), caught.exception)
        self.assertEqual(self.admin.hget("other:hash", "f"), b"secret")
        self.assertEqual(self.admin.get("other"), b"secret")

    def test_serve_needs_exactly_the_commands_of_its_scripts(self):
        own = {"fcall", "eval", "info", "time", "subscribe", "hdel"}  # what the process itself says
        for script in DURABLE / "src/redis/functions.lua", DURABLE / "tools/serve/stream_script.hpp":
            for name, sub in re.findall(r"redis\.p?call\('(\w+)'(?:, '([A-Z]+)')?", script.read_text()):
                has_subcommands = name in ("XGROUP", "XINFO", "MEMORY")
                own.add((f"{name}|{sub}" if has_subcommands else name).lower())
            for name in re.findall(r"write\('(\w+)'", script.read_text()):
                own.add(name.lower())
        self.assertEqual({word[1:] for word in words_of("serve") if word.startswith("+")}, own)

    def test_serve_and_all_commands_work_with_its_rights(self):
        page = self.serve("stream:due", "--lease-ms", 300, "--page", "127.0.0.1:0", "--plan", "attempts 1")
        self.put("far", in_ms=1_000_000)
        self.put("near", "--body", "x" * 3000)
        self.assertIn("waiting", self.run_tool("stats"))
        for words in ["list"], ["near"], ["overdue"], ["dead"], ["get", "far"], ["touch", "far"], ["cancel", "far"]:
            self.run_tool(*words)
        self.allow("worker")
        link = self.link_of("worker")

        def fail():  # on a slow machine it comes again before its end is told
            for _, entries in link.xreadgroup("workers", "me", {"due": ">"}, count=10):
                for _, entry in entries:
                    call(link, "failed", entry[b"id"], entry[b"attempt"], "no room")
            return self.run_tool("dead")
        wait_for(fail, "a dead letter")
        self.assertEqual(self.run_tool("revive", "near", "--in-ms", 1_000_000), "revived\n")
        self.admin.execute_command("XGROUP", "CREATECONSUMER", "due", "workers", "idle")
        wait_for(lambda: b"idle" not in [c["name"] for c in self.admin.xinfo_consumers("due", "workers")],
                 "an idle consumer goes after ten leases")
        self.admin.delete("due")  # serve makes it anew
        self.put("again")
        wait_for(lambda: self.admin.exists("due"), "a new stream")
        self.admin.flushall()
        wait_for(lambda: self.admin.exists("{tvec}:meta"), "the set is opened anew")
        self.put("after", in_ms=1_000_000)
        self.admin.config_set("maxmemory", "1")
        self.assertEqual(self.run_tool("cancel", "after"), "cancelled\n")
        self.admin.config_set("maxmemory", "0")
        wait_for(lambda: page.ask("/health")[0] == 200, "health")
        self.assertNotIn("NOPERM", page.said())
        self.assertNotIn("can't run", page.said())
        self.assertIn("it does not tell its appendfsync", page.said())

    def test_a_wait_for_replicas_needs_one_right_more(self):
        serve = self.start("stream:due", "--wait-replicas", 1)
        wait_for(lambda: "'wait' command" in serve.said(), "its log says which right is missing")
        self.allow("serve", [*words_of("serve"), "+wait"])
        wait_for(lambda: "too few replicas" in serve.said(), "it asks, and there is none")

    def test_serve_without_functions_says_how_to_load_them(self):
        self.assertEqual(self.server_of_workers.end(), 0)
        self.admin.execute_command("FUNCTION", "FLUSH")
        said = self.run_tool("serve", "--to", "stream:due", status=1)
        self.assertRegex(said, r"\Atvec-timers: [^\n]+NOPERM[^\n]+version 0 [^\n]+`tvec-timers install`[^\n]*\n\Z")
        self.as_user("install")
        self.run_tool("install")
        self.as_user("serve")
        self.serve("stream:due")

    def test_a_user_without_password_is_not_the_default(self):
        self.admin.execute_command("ACL", "SETUSER", "nobody", "reset", "on", "nopass")
        os.environ.pop("REDISCLI_AUTH")
        self.store = self.name_of_store("nobody")
        self.assertIn("NOPERM", self.run_tool("stats", status=1))
        self.store = self.name_of_store("serve")
        self.assertIn("WRONGPASS", self.run_tool("stats", status=1))

    def test_the_password_goes_to_no_other_server(self):
        heard = []
        with socket.create_server(("127.0.0.1", 0)) as other:
            self.start(f"stream:orders@127.0.0.1:{other.getsockname()[1]}/due")
            other.settimeout(PATIENCE)
            link, _ = other.accept()
            with link:
                link.settimeout(PATIENCE)
                wait_for(lambda: heard.append(link.recv(4096)) or b"CLUSTER" in b"".join(heard), "its first commands")
        self.assertNotIn(b"secret", b"".join(heard))

    def test_the_packaged_worker_needs_no_more(self):
        sys.path.insert(0, str(DURABLE / "examples/any-language"))
        import tvec_stream_worker
        self.allow("worker")
        done = []
        connect = lambda: redis.Redis(unix_socket_path=str(self.server.socket), username="worker", password="secret")
        threading.Thread(target=tvec_stream_worker.work, args=(connect, lambda _, timer: done.append(timer.id)),
                         daemon=True).start()
        self.put("a")
        wait_for(lambda: done == [b"a"], "the delivery")
        self.wait_until_empty()


class InCluster(OnRedis):
    def setUp(self):
        self.options = ["--cluster-enabled", "yes", "--cluster-port", free_port()]
        super().setUp()
        self.server.say("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        self.server.wait_for("cluster_state:ok", "CLUSTER", "INFO")
        [of_page] = re.findall(r"`((?:\+\S+ )*\+cluster\|slots (?:\+\S+ ?)*)` in\s+a\s+cluster", PAGE)
        [of_client] = re.findall(r"`python3-redis`\s+for `([^`]+)`", PAGE)
        self.of_page, self.of_client = of_page.split(), of_client.split()

    def name_of_store(self, user=""):
        return f"redis:{user and user + '@'}127.0.0.1:{self.server.port}"

    def test_the_same_rights_and_three_more_are_enough(self):
        self.more = self.of_page
        self.install()
        self.allow("serve")
        self.as_user("serve")
        serve = self.serve("stream:due")
        self.more = self.of_client
        for role in "orders", "worker":
            self.allow(role)
        orders, worker = (redis.cluster.RedisCluster("127.0.0.1", self.server.port, username=role, password="secret")
                          for role in ("orders", "worker"))
        shards = int(orders.hget("{tvec}:meta", "shards"))
        names = {}
        exec(re.search(r"```python\n(def shard_tag.*?)```", (DURABLE / "docs/using.md").read_text(), re.S)[1], names)
        tag = names["shard_tag"]("tvec", shards, b"a")
        self.assertEqual(call(orders, "put", "a", 1, "body", key=tag), b"stored")
        [[_, [(entry, fields)]]] = wait_for(lambda: worker.xreadgroup("workers", "me", {"due": ">"}, count=1), "a delivery")
        self.assertEqual(call(worker, "done", fields[b"id"], fields[b"attempt"], key=tag), b"ok")
        self.assertEqual(worker.xack("due", "workers", entry), 1)
        self.assertNotIn("NOPERM", serve.said())
        for role in "orders", "worker", "serve":
            for words in ["CLUSTER", "RESET"], ["CLUSTER", "FORGET", "0" * 40], ["FLUSHALL"], ["FUNCTION", "FLUSH"]:
                with self.subTest(role, words=words), self.assertRaises(redis.exceptions.ResponseError) as caught:
                    self.link_of(role).execute_command(*words)
                self.assertTrue(refused(caught.exception), caught.exception)


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl to make certificates")
class WithTls(OnRedis):
    def setUp(self):
        self.folder_of_keys = tempfile.TemporaryDirectory(prefix="tvec-keys-")
        self.addCleanup(self.folder_of_keys.cleanup)
        self.keys = pathlib.Path(self.folder_of_keys.name)
        for who in "server", "client":
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                            "-days", "2", "-subj", f"/CN={who}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                            self.keys / f"{who}.key", "-out", self.keys / f"{who}.crt"], check=True, capture_output=True)
        self.port = free_port()
        self.options = ["--tls-port", self.port, "--tls-cert-file", self.keys / "server.crt", "--tls-key-file",
                        self.keys / "server.key", "--tls-ca-cert-file", self.keys / "client.crt"]
        super().setUp()
        for name, file in ("SSL_CERT_FILE", "server.crt"), ("TVEC_TLS_CERT", "client.crt"), ("TVEC_TLS_KEY", "client.key"):
            os.environ[name] = str(self.keys / file)
            self.addCleanup(os.environ.pop, name, None)

    def name_of_store(self, user=""):
        return f"rediss:{user and user + '@'}127.0.0.1:{self.port}"

    def test_the_command_and_serve_log_in_over_tls(self):
        self.install()
        self.allow("serve")
        self.as_user("serve")
        for to in "stream:due", f"stream:rediss:serve@127.0.0.1:{self.port}/due":
            serve = self.serve(to)
            self.put("a")
            wait_for(lambda: self.admin.xlen("due") == 1, "the delivery")
            links = [c for c in self.admin.client_list() if c["user"] == "serve"]
            self.assertGreaterEqual(len(links), 3)
            self.assertEqual({c["laddr"].rsplit(":")[1] for c in links}, {str(self.port)})
            self.assertEqual(serve.end(), 0)
            self.run_tool("cancel", "a")
            self.admin.delete("due")

    def test_a_server_without_a_known_certificate_is_refused(self):
        self.as_user("")
        os.environ["SSL_CERT_FILE"] = str(self.keys / "client.crt")
        self.assertRegex(self.run_tool("stats", status=1), r"TLS: the handshake: self-signed certificate")
        os.environ["SSL_CERT_FILE"] = str(self.keys / "server.crt")
        os.environ.pop("TVEC_TLS_CERT")
        self.assertIn("TLS", self.run_tool("stats", status=1))
        self.store = f"rediss:{self.server.socket}"
        self.assertIn("expected", self.run_tool("stats", status=1))


if __name__ == "__main__":
    with ENDING:
        unittest.main(argv=sys.argv[:1], verbosity=2)
