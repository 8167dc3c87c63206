#!/usr/bin/env python3
"""What a hostile neighbour of `tvec-timers` tries, on the machine and at the server, and what it gains: nothing.

usage: hostile.py TVEC_TIMERS DURABLE
"""

import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse

from children import ENDING, PATIENCE
from serving import Case, commands_of, wait_for

Case.tool = sys.argv[1]
DURABLE = pathlib.Path(sys.argv[2])
AS_STRANGER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--pdeathsig", "KILL"]
needs_root = unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "only root can be somebody else")


def packed(value):
    """MessagePack of what a message of the command has."""
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, str):
        return b"\xda" + struct.pack(">H", len(value)) + value.encode()
    return b"\xde" + struct.pack(">H", len(value)) + b"".join(packed(name) + packed(v) for name, v in value.items())


def framed(message):
    return struct.pack("<I", len(message)) + message


class LocalSocket(Case):
    def setUp(self):
        super().setUp()
        self.server = self.serve("http://127.0.0.1:1/")

    def answer(self, message):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.store + ".socket")
            s.settimeout(PATIENCE)
            s.sendall(framed(message))
            with contextlib.suppress(ConnectionResetError):
                return s.recv(65_536)
        return b""

    def message(self, **more):
        return packed({"command": "put", "id": "a", "prefix": "", "body": "", "plan": "", "every_ms": 0, "limit": 100,
                       "replace": False, "json": False, **more})

    def test_a_deep_message_is_refused(self):
        for message in b"\x91" * 50_000 + b"\xc0", b"\x81\xa1a" * 50_000 + b"\xc0", b"\x81\xa7command" + b"\x91" * 500_000:
            said = self.answer(message)
            self.assertIsNone(self.server.process.poll(), self.server.said())
            self.assertEqual(said[4:5], b"e", said)
        self.assertIn("waiting 0\n", self.run_tool("stats"))

    def test_a_message_of_300_mb_is_refused_at_its_length(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.store + ".socket")
            s.settimeout(PATIENCE)
            s.sendall(struct.pack("<I", 300_000_000))
            self.assertIn(b"a message is too long", s.recv(65_536))
        self.assertIn("waiting 0\n", self.run_tool("stats"))

    def test_numbers_out_of_range_are_refused(self):
        most = 2**64 - 1
        for bad in {"in_ms": most}, {"due_ms": most}, {"every_ms": most}, {"limit": most}, {"limit": 0}, {"in_ms": 2**63}:
            with self.subTest(bad):
                said = self.answer(self.message(**bad))
                self.assertEqual(said[4:5], b"e", said)
                self.assertIn(next(iter(bad)).encode(), said)
        self.assertIn("waiting 0\n", self.run_tool("stats"))
        self.assertIn(b"stored", self.answer(self.message(in_ms=1_000_000)))

    def test_commands_of_other_places_are_refused_in_words(self):
        for command in "next", "serve", "install", "", "x" * 1000, "\x1b[2J":
            for name in "a", "":
                with self.subTest(command, name=name):
                    said = self.answer(self.message(command=command, id=name))
                    self.assertRegex(said, rb"(?s)\A....e[ -~]+\Z")
                    self.assertNotIn(b"optional", said)
        self.assertIn(b"the command next is not for a process that serves", self.answer(self.message(command="next")))

    def test_many_commands_at_once_are_all_answered(self):
        request, links = framed(self.message(command="stats", id="")), []
        self.server.signal(signal.SIGSTOP)  # it finds all of them in one turn of its loop
        with contextlib.suppress(BlockingIOError):  # its queue is full
            for _ in range(100):
                links.append(socket.socket(socket.AF_UNIX))
                self.addCleanup(links[-1].close)
                links[-1].setblocking(False)
                links[-1].connect(self.store + ".socket")
                links[-1].sendall(request)
        self.server.signal(signal.SIGCONT)
        self.assertGreater(len(links), 64)
        for link in links[:-1]:
            link.settimeout(PATIENCE)
            self.assertIn(b"waiting 0\n", link.recv(65_536))


class Strangers(Case):
    """Other users of the machine."""

    def listener(self, *words):
        """Has a stranger run this Python, which prints what it was told. Waits until it listens."""
        log = (self.folder / "stranger").open("w+")
        self.addCleanup(log.close)
        stranger = subprocess.Popen([*AS_STRANGER, "/usr/bin/python3", "-c", *map(str, words)], stdout=log, stderr=log)
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        return lambda: pathlib.Path(log.name).read_text()

    @needs_root
    def test_a_stranger_at_the_socket_learns_nothing(self):
        self.folder.chmod(0o1777)
        self.put("a", in_ms=1_000_000)
        said = self.listener("""
import socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(5)
print("listens", flush=True)
f = lambda m: struct.pack("<I", len(m)) + m
while True:
    c, _ = s.accept()
    c.settimeout(1)
    try:
        print(c.recv(65536), flush=True)
        c.sendall(f(b"ostored\\n") + f(b"x0"))
    except OSError:
        pass
    c.close()
""", self.store + ".socket")
        wait_for(lambda: "listens" in said(), "the stranger listens")
        refused = self.run_tool("put", "order-17", "--body", "card 4111", status=1)
        self.assertRegex(refused, r"\Atvec-timers: [^\n]+\.socket: user 65534 listens there[^\n]+ nothing was sent[^\n]*\n\Z")
        self.assertNotIn("4111", said())

    @needs_root
    def test_a_stranger_reaches_no_hook_in_private_folders(self):
        commands = commands_of("start.md", "A file and a hook")
        self.assertRegex(commands, r"(?s)mkdir --mode 700 hooks\n.*serve --to \"unix:\$PWD/hooks/\w+:/\w+\"\n")  # which is this
        self.folder.chmod(0o755)
        room = self.folder / "orders"
        room.mkdir(mode=0o700)
        path = room / "hook"
        self.serve(f"unix:{path}:/due")
        self.put("a", "--body", "secret")
        said = self.listener("""
import socket, sys
for act in "bind", "connect":
    try:
        getattr(socket.socket(socket.AF_UNIX), act)(sys.argv[1])
        print("reached", flush=True)
    except OSError as why:
        print(why, flush=True)
""", path)
        wait_for(lambda: said().count("Permission denied") == 2, "it was refused twice")
        hook = self.hook(path=str(path))
        self.assertEqual(wait_for(lambda: hook.notes, "the delivery")[0]["body"], b"secret")
        self.wait_until_empty()


class Page(Case):
    def setUp(self):
        super().setUp()
        self.page = self.serve("http://127.0.0.1:1/", "--page", "127.0.0.1:0")
        self.place = urllib.parse.urlsplit(self.page.address())
        self.host = f"Host: {self.place.netloc}\r\n".encode()

    def connected(self):
        s = socket.create_connection((self.place.hostname, self.place.port), PATIENCE)
        self.addCleanup(s.close)
        return s

    def test_a_large_request_is_read_without_a_pause(self):
        s = self.connected()
        length = 10_000_000  # at 128 bytes a second for a day
        s.sendall(b"POST /health HTTP/1.1\r\nContent-Length: %d\r\n" % length + self.host + b"\r\n")

        def send():
            with contextlib.suppress(OSError):
                s.sendall(b"a" * length)
        threading.Thread(target=send, daemon=True).start()
        self.assertRegex(s.recv(1000), rb"\AHTTP/1.1 405 ")

    def test_a_header_beyond_the_buffer_does_no_harm(self):
        for size in 18_000, 24_000, 40_000, 1_000_000:
            with self.subTest(size):
                s = self.connected()
                with contextlib.suppress(OSError):
                    s.sendall(b"GET /health HTTP/1.1\r\n" + self.host + b"X: " + b"a" * size + b"\r\n\r\n")
                with contextlib.suppress(ConnectionResetError):
                    self.assertRegex(s.recv(1000), rb"\AHTTP/1.1 (200|431) |\A\Z")

    def cpu_of(self, seconds):
        """The ticks of the processor that the process takes in so many seconds from now."""
        def taken():
            return sum(map(int, pathlib.Path(f"/proc/{self.page.process.pid}/stat").read_text().rsplit(")")[1].split()[11:13]))
        before = taken()
        time.sleep(seconds)
        return taken() - before

    def test_slow_readers_cost_nobody_an_answer(self):
        for _ in range(64):
            s = socket.socket()
            self.addCleanup(s.close)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            s.connect((self.place.hostname, self.place.port))
            s.settimeout(0.1)
            with contextlib.suppress(OSError):
                s.sendall((b"GET /metrics HTTP/1.1\r\n" + self.host + b"\r\n") * 5_000)
        wait_for(lambda: self.cpu_of(0.2) == 0, "their answers fill the buffers")
        good = self.connected()
        good.settimeout(20)  # the page closes connections that are silent for 30 s, which makes room by itself
        good.sendall(b"GET /health HTTP/1.1\r\n" + self.host + b"\r\n")
        self.assertRegex(good.recv(1000), rb"\AHTTP/1.1 200 ")
        for _ in range(10):
            self.assertEqual(self.page.ask("/health"), (200, "ok\n"))
        self.assertLess(self.cpu_of(1), os.sysconf("SC_CLK_TCK") / 10, "it spins")

    def test_a_lack_of_descriptors_costs_no_command(self):
        pid = self.page.process.pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (max(map(int, os.listdir(f"/proc/{pid}/fd"))) + 6, hard))
        for _ in range(40):
            self.connected().sendall(b"GET /health HTTP/1.1\r\nX: ")
        for i in range(10):
            self.assertEqual(self.run_tool("put", f"a{i}", "--in-ms", 1_000_000), "stored\n")
        self.assertEqual(self.page.ask("/health"), (200, "ok\n"))

    def test_known_hosts_are_accepted_with_any_port(self):
        for host in "127.0.0.1", "localhost", "[::1]", "localhost:9999", f"127.0.0.1:{self.place.port}":
            self.assertEqual(self.page.ask("/health", Host=host), (200, "ok\n"), host)
        for host in "evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "[::1]x", "localhost:80:80", "127.0.0.1@evil":
            self.assertEqual(self.page.ask("/health", Host=host)[0], 403, host)


class Service(unittest.TestCase):
    def test_two_instances_share_no_user_and_no_folder(self):
        unit = (DURABLE / "tools/serve/tvec-timers@.service").read_text()
        for name in "User", "StateDirectory", "RuntimeDirectory", "WorkingDirectory", "EnvironmentFile":
            self.assertRegex(unit, rf"(?m)^{name}=\S*%i")
        for name in "MemoryMax", "TasksMax":
            self.assertRegex(unit, rf"(?m)^{name}=\w+$")


class Files(Case):
    def test_a_trigger_in_a_foreign_file_changes_nothing(self):
        self.put("a", "--body", "mine", in_ms=1_000_000)
        with contextlib.closing(sqlite3.connect(self.store)) as db:
            db.executescript("create trigger evil after insert on timer begin update timer set body = x'00'; end;"
                             "create trigger worse before update on timer begin delete from timer; end;")
        self.put("b", "--body", "mine", in_ms=1_000_000)
        self.run_tool("touch", "a", "--in-ms", 2_000_000)
        for name in "a", "b":
            self.assertEqual(self.timer(name)["body"], "mine")


class Servers(Case):
    """A server that is not what it says."""

    EVIL = "\x1b]0;pwned\x07\x1b[31mforged\u009b2J\u202e"

    def false_server(self, answer):
        """A server that answers what it is told with what the function makes of it. Returns its port."""
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)

        def talk(c):
            with c, contextlib.suppress(OSError):
                while said := c.recv(65_536):
                    c.sendall(answer(said))

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=talk, args=(listening.accept()[0],), daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()
        return listening.getsockname()[1]

    def check_message(self, store):
        self.store = store
        said = self.run_tool("stats", status=1)
        if "built without" in said:
            self.skipTest("built without this server")
        self.assertRegex(said, r"\Atvec-timers: [^\n]+\n\Z")
        self.assertIn("forged", said)
        self.assertEqual([c for c in said[:-1] if not c.isprintable()], [])

    def test_a_hostile_redis_cannot_write_terminal_escapes(self):
        info = f"# Server\r\nredis_version:{self.EVIL}\r\n"
        for answer in f"-ERR {self.EVIL}\r\n", f"${len(info.encode())}\r\n{info}\r\n":
            port = self.false_server(lambda said, answer=answer: answer.encode() * len(re.findall(rb"^\*", said, re.M)))
            self.check_message(f"redis:127.0.0.1:{port}")

    def test_a_hostile_postgresql_cannot_write_terminal_escapes(self):
        fields = b"SFATAL\0C28000\0M" + self.EVIL.encode() + b"\0\0"
        port = self.false_server(lambda _: b"E" + struct.pack(">I", 4 + len(fields)) + fields)
        self.check_message(f"postgres:host=127.0.0.1 port={port} user=a dbname=a sslmode=disable gssencmode=disable")

    def test_json_is_plain_ascii(self):
        odd = "a\u009bb\u202ec\x7f\u00fc"
        self.run_tool("put", odd, "--in-ms", 1_000_000, "--body", odd)
        for words in ["list"], ["get", odd]:
            said = self.run_tool(*words, "--json")
            self.assertTrue(said.isascii() and said.rstrip("\n").isprintable(), said)
            self.assertEqual(json.loads(said)["id"], odd)


if __name__ == "__main__":
    with ENDING:
        unittest.main(argv=sys.argv[:1], verbosity=2)
