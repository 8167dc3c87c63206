#!/usr/bin/python3
"""A hook for `tvec-timers serve --to unix:SOCKET:/PATH`, which prints each due timer.

usage: hook.py SOCKET
"""

import contextlib
import http.server
import os
import socketserver
import sys
import urllib.parse


# [hook]
class Hook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open

    def do_POST(self):
        timer = urllib.parse.unquote_to_bytes(self.headers["Tvec-Id"]).decode()
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        print(f"due: {timer}, with the body {body!r}", flush=True)
        self.send_response(204)  # done. An exception before this is a failure, and the timer comes again
        self.end_headers()


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
# [hook]

    def get_request(self):
        return self.socket.accept()[0], ["a socket"]  # the log wants an address


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(sys.argv[1])  # of one that was killed
    Server(sys.argv[1], Hook).serve_forever()
