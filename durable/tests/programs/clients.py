#!/usr/bin/python3
"""Has workers and programs with the clients that the pages name do what the pages tell.

usage: clients.py TVEC_TIMERS SOURCES redis|postgres|hook [--all]

Packages of Node are those that it finds: Debian's, or those in NODE_PATH. With --all each must be there, in the oldest
and the newest version that a page names, as `durable/scripts/bootstrap clients` installs them.

A worker handles each timer exactly as often as is right: some come again, some fail once, some have their leases
extended, and ids and bodies are no UTF-8. Then all connections are cut, and others come. A client that is refused ends
the worker in words, before a timer has lost an attempt by it.
"""

import collections
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import postgres_server
import redis_cluster
import redis_server
import serving
from children import PATIENCE
from serving import wait_for

HERE, BODY = pathlib.Path(__file__).resolve(), b"\xff body"

# --- a worker in Python, in a process of its own -------------------------------------------------------------------------


def like_protocol_3(client, wraps):
    """A client that answers by a dictionary, as newer ones do with protocol=3, some of them with one more list in it."""
    read = client.xreadgroup
    client.xreadgroup = lambda *words, **more: {name: wraps(entries) for name, entries in read(*words, **more)}
    return client


def work(worker, connect, options):
    """`connect` and `options` are expressions, in which the modules are known that the worker needs."""
    sys.path.insert(0, os.path.dirname(worker))
    worker, seen, options = __import__(pathlib.Path(worker).stem), set(), eval(options)
    of_extend = {"key": options["key"]} if "key" in options else {}
    for name in ("redis", "redis.asyncio") if hasattr(worker, "redis") else ("psycopg2", "psycopg2.extras"):
        globals()[name.split(".")[0]] = __import__(name)

    def handle(link, timer):
        is_first, kind = timer.id not in seen, timer.id.split(b" ")[1]
        seen.add(timer.id)
        with open(os.environ["HANDLED"], "a", encoding="ascii") as log:
            log.write(f"{timer.id.hex()} {timer.attempt} {timer.body.hex()}\n")
        if kind == b"again" and is_first:
            return datetime.timedelta(milliseconds=50)
        if kind == b"throws" and is_first or kind == b"extends" and not worker.extend(link, timer, **of_extend):
            raise ValueError(kind)
    worker.work(lambda: eval(connect), handle, **options)


# --- the clients ---------------------------------------------------------------------------------------------------------

# As users of the server with the rights of the page.
JS_USER = "username: 'worker', password: 'SECRET2'"
PY_USER = "username='worker', password='SECRET2'"
NODE_REDIS = "require('%s').createClient({ socket: { path: process.env.PLACE }, " + JS_USER + ", %s })"
NODE_CLUSTER = ("require('%s').createCluster({ rootNodes: [{ url: 'redis://127.0.0.1:' + process.env.PORT }],"
                " defaults: { " + JS_USER + " } })")
IOREDIS = "new (require('%s'))(process.env.PLACE, { " + JS_USER + ", %s })"
IOREDIS_CLUSTER = "new (require('%s').Cluster)([{ port: Number(process.env.PORT) }], { redisOptions: { " + JS_USER + " } })"
PG = "new (require('%s').Client)()"
PY_KEY, JS_KEY = "{'key': lambda id: '{tvec:%d}' % (id != bytes(id))}", "{ key: (id) => `{tvec:${id.compare(id)}}` }"


def redis_py(what="Redis", more=""):
    return f"redis.{what}(unix_socket_path=os.environ['PLACE'], {PY_USER}, {more})"


# Of each: language, package, expression, options of the worker, and for one that is refused what is said of it.
STREAM = [
    ("py", "redis", redis_py(), "{}", None),
    ("py", "redis", f"like_protocol_3({redis_py()}, lambda entries: entries)", "{}", None),
    ("py", "redis", f"like_protocol_3({redis_py()}, lambda entries: [entries])", "{}", None),
    ("py", "redis", redis_py(more="decode_responses=True"), "{}", "without decode_responses=True"),
    ("py", "redis", redis_py("asyncio.Redis"), "{}", "such as redis.Redis"),
    *(("js", package, NODE_REDIS % (package, ""), "{}", None) for package in ("redis-4", "redis-5", "redis")),
    *(("js", package, NODE_REDIS % (package, "RESP: 3"), "{}", None) for package in ("redis-5", "redis")),
    *(("js", package, IOREDIS % (package, ""), "{}", None) for package in ("ioredis-5", "ioredis")),
    ("js", "ioredis", IOREDIS % ("ioredis", "lazyConnect: true"), "{}", None),
    ("js", "redis-4", NODE_REDIS % ("redis-4", "legacyMode: true"), "{}", "a client of redis 4 or later, or of ioredis"),
    ("js", "redis-3", "require('redis-3').createClient(process.env.PLACE)", "{}", "a client of redis 4 or later, or of ioredis"),
]
CLUSTER = [
    ("py", "redis", f"redis.RedisCluster(host='127.0.0.1', port=int(os.environ['PORT']), {PY_USER})", PY_KEY, None),
    *(("js", package, NODE_CLUSTER % package, JS_KEY, None) for package in ("redis-4", "redis-5", "redis")),
    *(("js", package, IOREDIS_CLUSTER % package, JS_KEY, None) for package in ("ioredis-5", "ioredis")),
]
TABLE = [
    ("py", "psycopg2", "psycopg2.connect('')", "{}", None),
    ("py", "psycopg2", "psycopg2.connect('')", "{'outside': True}", None),
    ("py", "psycopg2", "psycopg2.connect('', cursor_factory=psycopg2.extras.RealDictCursor)", "{}", None),
    ("py", "psycopg", "__import__('psycopg').connect('')", "{}", "a connection of psycopg2"),
    *(("js", package, PG % package, "{}", None) for package in ("pg-8", "pg")),
    ("js", "pg", PG % "pg", "{ outside: true }", None),
    ("js", "pg", "new (require('pg').Pool)()", "{}", "a new Client of pg"),
]


def need(test, language, package):
    """Skips a test without a package. With --all this fails, and so does a version that no page names."""
    if language == "js":
        words = ["node", "-p", f"require('{package}/package.json').version"]
    else:
        words = ["/usr/bin/python3", "-c", f"import importlib.metadata as m; print(m.version('{package}'))"]
    version = subprocess.run(words, capture_output=True, text=True).stdout.strip()
    if not version:
        (test.fail if ALL else test.skipTest)(f"there is no {package}")
    elif ALL:
        pages = "".join(page.read_text(encoding="utf-8") for page in (SOURCES / "durable/docs").glob("*.md"))
        test.assertRegex(pages, rf"(?<![\d.]){re.escape(version)}(?!\.?\d)", package)


# --- the tests -----------------------------------------------------------------------------------------------------------


class Clients(serving.Case):
    """Cases that share a server and a process that delivers from it. The ids of each begin with its number."""

    number = 0

    @classmethod
    def share(cls, store, to, environment, *words):
        cls.shared, cls.environment = store, environment
        subprocess.run([cls.tool, "--store", store, "install", *words], check=True, capture_output=True, timeout=PATIENCE)
        # Longer than a handler takes on a slow machine, and shorter than the patience: so late is an end whose hint was lost.
        serve = serving.Serve(cls.tool, store, to, "--lease-ms", 20_000, "--plan", "retry fixed 50ms").wait_until_ready()
        cls.addClassCleanup(serve.log.close)
        cls.addClassCleanup(serve.kill)

    @classmethod
    def new_folder(cls):
        folder = tempfile.TemporaryDirectory(prefix="tvec-clients-")
        cls.addClassCleanup(folder.cleanup)
        return pathlib.Path(folder.name)

    def setUp(self):
        super().setUp()
        self.store, self.handled, self.number = self.shared, self.folder / "handled", Clients.number + 1
        Clients.number += 1
        self.handled.touch()

    def start_worker(self, language, connect, options):
        program = {"py": ["/usr/bin/python3", HERE, "work"], "js": ["node", HERE.with_suffix(".js")]}[language]
        worker = SOURCES / f"durable/examples/any-language/{self.worker}.{language}"
        with open(self.folder / "said", "w") as said:
            child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, program), worker, connect, options],
                                     env={**os.environ, **self.environment, "HANDLED": str(self.handled)},
                                     stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def said(self):
        return (self.folder / "said").read_text(errors="replace")

    def come_due(self, *kinds):
        """Puts timers. Returns how often each is to be handled."""
        names = [b"%d %s \xff%d" % (self.number, kind.encode(), n) for kind in kinds for n in range(3)]
        self.put_all(names)
        return collections.Counter({name: 2 if b" again " in name or b" throws " in name else 1 for name in names})

    def deliveries(self):
        """(id, attempt, body) of each call of a handler for a timer of this case."""
        lines = (line.split(" ") for line in self.handled.read_text().splitlines(keepends=True) if line.endswith("\n"))
        all = ((bytes.fromhex(name), int(attempt), bytes.fromhex(body)) for name, attempt, body in lines)
        return [delivery for delivery in all if delivery[0].startswith(b"%d " % self.number)]

    def wait_until_handled(self, worker, expected):
        def are_over():
            self.assertIsNone(worker.poll(), self.said())
            missing = expected - collections.Counter(name for name, _, _ in self.deliveries())
            return not missing and not self.json_of("list", "--prefix", f"{self.number} ")
        try:
            wait_for(are_over, "all are handled")
        finally:
            self.assertEqual(collections.Counter(name for name, _, _ in self.deliveries()), expected, self.said())
        self.assertEqual({body for _, _, body in self.deliveries()}, {BODY})

    def works(self, *client):
        expected = self.come_due("plain", "again", "throws", "extends")
        worker = self.start_worker(*client)
        self.wait_until_handled(worker, expected)
        self.cut()
        expected += self.come_due("later")
        self.wait_until_handled(worker, expected)

    def is_refused(self, words, *client):
        self.run_tool("put", f"far {self.number}", "--due-ms", 4102444800000)
        [far] = self.json_of("get", f"far {self.number}")  # no attempt of it is given out
        expected = self.come_due("plain")
        worker = self.start_worker(*client)
        try:
            wait_for(lambda: worker.poll() is not None, "its end")
        finally:
            self.assertIn(words, self.said())
        self.wait_until_handled(self.start_worker(self.cases[0][0], *self.cases[0][2:4]), expected)
        self.assertEqual({attempt for _, attempt, _ in self.deliveries()}, {far["attempts"] + 1})


class OnRedis(Clients):
    worker = "tvec_stream_worker"

    @classmethod
    def setUpClass(cls):
        cls.nodes = cls.start_servers(cls.new_folder())
        for node in cls.nodes:
            cls.addClassCleanup(node.kill)
        store = f"redis:127.0.0.1:{cls.nodes[0].port}"
        cls.share(store, "stream:due", {"PLACE": str(cls.nodes[0].socket), "PORT": str(cls.nodes[0].port)}, "--shards", "1")
        page = (SOURCES / "durable/docs/operating.md").read_text(encoding="utf-8")
        rights = " ".join(re.findall(r"(?m)^ +ACL SETUSER worker (.*)$", page)).split()
        asked = re.findall(r"\+[a-z|]+", page.split("Clients ask for more in a cluster:")[1].split(".")[0])
        for node in cls.nodes:
            node.say("ACL", "SETUSER", "worker", *rights, *(asked if len(cls.nodes) > 1 else ()))

    def put_all(self, names):
        for name in names:
            words = "FCALL", "tvec_put", 1, self.key, os.fsdecode(name), 0, os.fsdecode(BODY)
            self.assertTrue(any("stored" in node.say(*words) for node in self.nodes))  # the others answer that it has moved

    def cut(self):
        for node in self.nodes:
            node.say("CLIENT", "KILL", "TYPE", "normal")


class Stream(OnRedis):
    key, cases = "tvec", STREAM

    @classmethod
    def start_servers(cls, folder):
        return [redis_server.Server(folder, "server", fsync="everysec")]


class Cluster(OnRedis):
    """The timers, of one shard, are on another node than the stream."""

    key, cases = "{tvec:0}", CLUSTER

    @classmethod
    def start_servers(cls, folder):
        return redis_cluster.Cluster(folder).nodes


class Table(Clients):
    worker, cases = "tvec_worker", TABLE

    @classmethod
    def setUpClass(cls):
        cls.server = postgres_server.Server(cls.new_folder(), "server")
        cls.addClassCleanup(cls.server.kill)
        cls.share("postgres:" + cls.server.conninfo, "table",
                  {"PGHOST": str(cls.server.data), "PGUSER": "postgres", "PGDATABASE": "postgres"})

    def put_all(self, names):
        self.server.say(";".join(f"select tvec.put('\\x{name.hex()}'::bytea, now(), '\\x{BODY.hex()}'::bytea)" for name in names))

    def cut(self):
        self.server.say("select pg_terminate_backend(pid) from pg_stat_activity"
                        " where pid <> pg_backend_pid() and backend_type = 'client backend'")


    def start_pooler(self):
        at = self.server.data
        (at / "users").write_text('"postgres" ""\n')
        (at / "pool.ini").write_text("\n".join((
            "[databases]", f"postgres = host={at} pool_size=1", "[pgbouncer]", "pool_mode = transaction", "listen_addr =",
            "listen_port = 7000", f"unix_socket_dir = {at}", "auth_type = trust", f"auth_file = {at}/users", "")))
        pooler = subprocess.Popen([*postgres_server.user(), "setpriv", "--pdeathsig", "KILL", "/usr/sbin/pgbouncer", "-q",
                                   at / "pool.ini"])
        self.addCleanup(pooler.wait)
        self.addCleanup(pooler.kill)
        wait_for((at / ".s.PGSQL.7000").exists, "the pooler")

    def runs(self, language, package, program, **environment):
        """Runs a program that puts a timer and cancels it."""
        need(self, language, package)
        done = subprocess.run([{"py": "/usr/bin/python3", "js": "node"}[language], {"py": "-c", "js": "-e"}[language], program],
                              env={**os.environ, **self.environment, **environment}, capture_output=True, text=True,
                              timeout=PATIENCE)
        self.assertEqual(done.stdout, "stored cancelled\n", done.stderr)

    def test_asyncpg_takes_bytes_with_a_cast(self):
        self.runs("py", "asyncpg", r"""
import asyncio, asyncpg
async def run():
    db = await asyncpg.connect()
    print(await db.fetchval("select tvec.put($1::bytea, now() + interval '1 hour', $2::bytea)", b"\xff", b"\xff"),
          await db.fetchval("select tvec.cancel($1::bytea)", b"\xff"))
asyncio.run(run())""")

    def test_the_pg_client_of_node_passes_cast_bytes(self):
        self.runs("js", "pg", """
const db = new (require("pg").Client)({ host: process.env.PGHOST }), id = Buffer.from([255]);
const say = async (sql, ...values) => (await db.query(`select ${sql} as said`, values)).rows[0].said;
db.connect().then(async () => {
  console.log(await say("tvec.put($1::bytea, now() + interval '1 hour', $2::bytea)", id, id),
    await say("tvec.cancel($1::bytea)", id));
  await db.end();
});""")

    def test_psycopg_3_works_behind_a_pooler_without_preparing(self):
        self.start_pooler()
        self.runs("py", "psycopg", r"""
import psycopg
for _ in range(20):
    for db in [psycopg.connect(prepare_threshold=None) for _ in range(2)]:
        with db:
            put = [db.execute("select tvec.put(%s, now() + interval '1 hour')", [b"\xff"]).fetchone()[0] for _ in range(10)]
            cancelled = db.execute("select tvec.cancel(%s)", [b"\xff"]).fetchone()[0]
print(put[0], cancelled)""", PGPORT="7000")


class Hook(serving.Case):
    def answers(self, to, *words):
        """Each timer ends in its first attempt."""
        for n in range(12):
            self.put(f"{n}", "--body", "body")
        self.serve(to, "--lease-ms", 60_000, "--attempts", 1, *words)
        self.wait_until_empty()
        self.assertEqual(self.json_of("dead"), [])

    def test_single_threaded_hooks_take_one_at_a_time(self):
        self.answers(self.hook(has_threads=False).to, "--in-flight", 1)

    def test_fastify_takes_bodies_with_the_documented_parser(self):
        need(self, "js", "fastify")
        [parser] = re.findall(r"(?ms)^```js\n(app\.add.*?)```", (SOURCES / "durable/docs/using.md").read_text())
        server = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "node", "-e", f"""
            const app = require("fastify")();
            {parser}
            app.post("/due", async (request, reply) => reply.code(String(request.body) === "body" ? 204 : 500).send());
            app.listen({{ port: 0, host: "127.0.0.1" }}).then(() => console.log(app.server.address().port));"""],
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        self.answers(f"http://127.0.0.1:{int(server.stdout.readline())}/due")


def test_of(language, package, connect, options, refusal):
    def test(self):
        need(self, language, package)
        self.is_refused(refusal, language, connect, options) if refusal else self.works(language, connect, options)
    return test


def main(tool, sources, kind, *words):
    global SOURCES, ALL
    serving.Case.tool, SOURCES, ALL = tool, pathlib.Path(sources).resolve(), words == ("--all",)
    missing = {"redis": not shutil.which("redis-server"), "postgres": not postgres_server.is_there(), "hook": False}
    if missing[kind]:
        print("skipped: there is no server", file=sys.stderr)
        sys.exit(77)
    suite = unittest.TestSuite()
    for tests in {"redis": (Stream, Cluster), "postgres": (Table,), "hook": (Hook,)}[kind]:
        for case in getattr(tests, "cases", ()):
            setattr(tests, "test " + " ".join((case[0], *case[2:4])), test_of(*case))
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(tests))
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())


if __name__ == "__main__":
    (work if sys.argv[1] == "work" else main)(*sys.argv[1 + (sys.argv[1] == "work"):])
