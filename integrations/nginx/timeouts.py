#!/usr/bin/env python3
"""Measures how long nginx's timeouts take, on several builds of it at the same time, and prints a
table. Fails if one ends over 20 ms early, over a second late, or not at all. A little early they
may be: nginx counts whole milliseconds, and looks at the clock once in a turn of its loop.

usage: timeouts.py NAME=NGINX...
"""

import asyncio
import contextlib
import random
import select
import socket
import sys
import time

from server import Nginx

TIMES = 20          # connections for each timeout
EARLY, LATE = -20, 1000  # milliseconds that are allowed; what is measured is printed
PATIENCE = 60

HTTP = """
    client_header_timeout 400ms;
    limit_req_zone $arg_key zone=keys:1m rate=10r/s;
    resolver 127.0.0.1:%(dns)d ipv6=off;
    resolver_timeout 450ms;
    reset_timedout_connection on;
    proxy_cache_path cache keys_zone=cached:1m;
"""

SERVER = """
    location /body { client_body_timeout 500ms; proxy_pass http://127.0.0.1:%(silent)d; }
    location /soon { keepalive_timeout 600ms; return 200 "soon"; }
    location /later { keepalive_timeout 17s; return 200 "later"; }
    location /large { send_timeout 700ms; }
    location /silent { proxy_read_timeout 550ms; proxy_pass http://127.0.0.1:%(silent)d; }
    location /full { proxy_connect_timeout 650ms; proxy_pass http://127.0.0.1:%(full)d; }
    location /cached {
        proxy_cache cached; proxy_cache_lock on; proxy_cache_lock_timeout 300ms;
        proxy_read_timeout 550ms; proxy_pass http://127.0.0.1:%(silent)d;
    }
    location /unknown { set $name "$arg_key.test"; proxy_pass http://$name; }
    location /limited { limit_req zone=keys burst=9; empty_gif; }
"""


def ask(path, more=""):
    """A request, as bytes."""
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n".encode()


class Talk:
    """A connection to a server, and the time since it last spoke."""

    async def open(self, port):
        self.since = time.monotonic()
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    def say(self, words):
        self.since = time.monotonic()
        self.writer.write(words)

    def elapsed(self):
        return (time.monotonic() - self.since) * 1000

    async def until_answer(self):
        """Milliseconds since it spoke."""
        await self.reader.readuntil(b"\r\n\r\n")
        return self.elapsed()

    async def until_closed(self):
        with contextlib.suppress(ConnectionResetError):
            await self.reader.read()
        return self.elapsed()


async def header(talk):
    talk.writer.write(b"GET / HTTP/1.1\r\nHos")  # since it was opened, and not since this
    return await talk.until_closed()


async def body(talk):
    talk.say(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
    return await talk.until_closed()


async def body_again(talk):
    talk.say(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
    await asyncio.sleep(0.2)
    talk.say(b"more")
    return await talk.until_closed()


async def idle_after(talk, path, requests):
    for _ in range(requests):
        talk.say(ask(path))
        await talk.reader.readuntil(path[1:].encode())
    return await talk.until_closed()


async def keepalive(talk):
    return await idle_after(talk, "/soon", 1)


async def keepalive_again(talk):
    return await idle_after(talk, "/soon", 50)


async def keepalive_long(talk):
    return await idle_after(talk, "/later", 3)


async def send(talk):
    """Nothing is read; that the connection is reset is seen by epoll."""
    talk.writer.transport.pause_reading()
    talk.say(ask("/large"))
    reset = asyncio.get_running_loop().create_future()
    with select.epoll() as poller:
        poller.register(talk.writer.get_extra_info("socket"), 0)
        asyncio.get_running_loop().add_reader(poller, reset.set_result, None)
        await reset
        asyncio.get_running_loop().remove_reader(poller)
    return talk.elapsed()


async def proxy_read(talk):
    talk.say(ask("/silent"))
    return await talk.until_answer()


async def proxy_connect(talk):
    talk.say(ask("/full"))
    return await talk.until_answer()


async def cache_lock(talk):
    """The second for a page waits for the first, and then asks for it itself."""
    first = await Talk().open(talk.writer.get_extra_info("peername")[1])
    page = ask(f"/cached?{random.randrange(1 << 60)}")
    first.say(page)
    await asyncio.sleep(0.1)
    talk.say(page)
    return await talk.until_answer()


async def resolver(talk):
    talk.say(ask(f"/unknown?key=name{random.randrange(5)}"))
    return await talk.until_answer()


async def limit_req(talk):
    """Of three at once, two too soon, the last."""
    port = talk.writer.get_extra_info("peername")[1]
    key = random.randrange(1 << 60)
    talks = [talk, *[await Talk().open(port) for _ in range(2)]]
    for each in talks:
        each.say(ask(f"/limited?key={key}"))
    return max([await each.until_answer() for each in talks])


CASES = [("client_header_timeout", 400, header),
         ("client_body_timeout", 500, body),
         ("keepalive_timeout", 600, keepalive),
         ("keepalive_timeout, the 50th request", 600, keepalive_again),
         ("keepalive_timeout", 17000, keepalive_long),
         ("send_timeout", 700, send),
         ("proxy_connect_timeout", 650, proxy_connect),
         ("proxy_read_timeout", 550, proxy_read),
         ("proxy_cache_lock_timeout, and that", 850, cache_lock),
         ("resolver_timeout", 450, resolver),
         ("limit_req, two beyond 10 a second", 200, limit_req)]
# nginx does not arm a timer again for less than 300 ms more, so that as much is missing.
AGAIN = ("client_body_timeout, again after 200 ms", 500, body_again)


async def measure(port, case):
    """Milliseconds beyond what was configured."""
    _, nominal, act = case
    await asyncio.sleep(random.random())
    talk = await Talk().open(port)
    try:
        return await asyncio.wait_for(act(talk), PATIENCE) - nominal
    finally:
        talk.writer.close()


async def measure_all(server, cases):
    """The extremes of each case."""
    found = []
    for case in cases:
        beyond = await asyncio.gather(*[measure(server.port, case) for _ in range(TIMES)])
        found.append((min(beyond), max(beyond)))
    return found


@contextlib.contextmanager
def neighbours():
    """The ports of those who let nginx wait: a listener that never answers, one that takes no more
    connections, and a name server that knows nothing."""
    with socket.socket() as silent, socket.socket() as full, contextlib.ExitStack() as more, \
            socket.socket(type=socket.SOCK_DGRAM) as dns:
        for each in (silent, full, dns):
            each.bind(("127.0.0.1", 0))
        silent.listen(4096)
        full.listen(0)
        for _ in range(4):
            waiting = more.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield {"silent": silent.getsockname()[1], "full": full.getsockname()[1],
               "dns": dns.getsockname()[1]}


def show(cases, names, found):
    print("| timeout | ms | " + " | ".join(f"{name}: ms beyond it" for name in names) + " |")
    print("|---|--:" + "|--:" * len(names) + "|")
    for row, (what, nominal, _) in enumerate(cases):
        cells = [f"{found[name][row][0]:.1f} to {found[name][row][1]:.1f}" for name in names]
        print(f"| {what} | {nominal} | " + " | ".join(cells) + " |")


async def main(builds):
    cases = [*CASES, AGAIN]
    with neighbours() as ports, contextlib.ExitStack() as running:
        servers = {}
        for name, binary in builds.items():
            server = servers[name] = running.enter_context(
                Nginx(binary, http=HTTP % ports, server=SERVER % ports))
            (server.folder / "html").mkdir()
            with open(server.folder / "html/large", "wb") as large:
                large.truncate(1 << 25)
        results = await asyncio.gather(*[measure_all(each, cases) for each in servers.values()])
    found = dict(zip(servers, results))
    show(cases, servers, found)
    faults = [f"timeouts: {name}: {what}: {least:.1f} to {most:.1f} ms beyond"
              for name, rows in found.items()
              for (what, _, _), (least, most) in zip(CASES, rows) if least < EARLY or most > LATE]
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not all("=" in word for word in sys.argv[1:]):
        sys.exit(__doc__.strip().splitlines()[-1])
    try:
        asyncio.run(main(dict(word.split("=", 1) for word in sys.argv[1:])))
    except (OSError, RuntimeError, TimeoutError) as fault:
        sys.exit(f"timeouts: {fault!r}")
