"""An nginx with a configuration and a folder of its own, on this machine's loopback alone."""

import pathlib
import signal
import socket
import subprocess
import tempfile
import time

PATIENCE = 30  # seconds, for what takes a moment

CONFIGURATION = """
pid nginx.pid;
error_log stderr alert;
worker_processes 1;
%(main)s
events { worker_connections 10000; }
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    %(http)s
    upstream itself { server 127.0.0.1:%(port)d; keepalive 1000; keepalive_requests 100000000; }
    server {
        listen 127.0.0.1:%(port)d backlog=8192;
        location = /status { stub_status; }
        location = /hello { return 200 "hello\\n"; }
        location = /proxied {
            proxy_pass http://itself/hello; proxy_http_version 1.1; proxy_set_header Connection "";
        }
        %(server)s
    }
}
"""


def free_port():
    """One that nobody listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(is_so, what):
    """Returns what is_so() does once that is true; raises TimeoutError if that takes too long."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if result := is_so():
            return result
        time.sleep(0.01)
    raise TimeoutError(f"nginx: waited {PATIENCE} s for {what}")


class Nginx:
    """Runs from `with` to its end; then it is told to stop, and killed if it does not. It does not
    outlive who has started it."""

    def __init__(self, binary, main="", http="", server="", before=()):
        self.port = free_port()
        self.words = ["setpriv", "--pdeathsig", "TERM", *before, str(binary)]
        self.text = CONFIGURATION % dict(main=main, http=http, server=server, port=self.port)

    def __enter__(self):
        self.keeper = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.keeper.name)
        self.folder.chmod(0o755)  # workers are nobody, if it is root who starts this
        (self.folder / "nginx.conf").write_text(self.text, encoding="utf-8")
        self.process = subprocess.Popen(
            [*self.words, "-p", self.folder, "-c", "nginx.conf", "-e", "stderr",
             "-g", "daemon off;"], stdin=subprocess.DEVNULL)
        wait_until(self.answers, "its first answer")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.keeper.cleanup()

    def answers(self):
        """Whether anybody listens."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.words[-1]} ended with {self.process.returncode}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def workers(self):
        """The process ids of its workers; none where there is no master."""
        of = self.process.pid
        return pathlib.Path(f"/proc/{of}/task/{of}/children").read_text(encoding="utf-8").split()

    def requests(self):
        """How many requests it has answered, this one among them."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as asking:
            asking.sendall(b"GET /status HTTP/1.0\r\n\r\n")
            said = b"".join(iter(lambda: asking.recv(4096), b""))
        return int(said.split(b"requests")[1].split()[2])
