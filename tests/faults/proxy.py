"""An HTTP proxy before the test object store: it counts requests, and disturbs one of a kind or all from it on."""

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

WAYS = ("fail", "break", "cut", "twice")
"""An answer 500; none, though the store has done what was asked; half of an answer; a request that is sent twice."""


@dataclass
class Disturbance:
    """What happens to the `nth` request of a `kind`: GET, PUT, POST, HEAD, DELETE or LIST."""

    kind: str = ""
    nth: int = 1
    way: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def way_of(self, kind: str) -> str:
        """What happens to the next request of a kind; "" for nothing."""
        with self.lock:
            self.counts[kind] += 1
            count = self.counts[kind]
        return self.way if (kind, count) == (self.kind, self.nth) else ""


class Proxy(ThreadingHTTPServer):
    """Passes requests on to `endpoint` as they are: signatures hold, because they name this proxy as the host."""

    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store = urlsplit(endpoint)
        self.disturbance = Disturbance()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_list = self.command == "GET" and ("list-type=" in self.path or "uploads" in self.path)
        way = self.server.disturbance.way_of("LIST" if is_list else self.command)
        if way == "fail":
            return self._answer(500, [("Content-Length", "0")], b"")
        for _ in range(2 if way == "twice" else 1):
            connection = http.client.HTTPConnection(self.server.store.hostname or "", self.server.store.port)
            try:
                connection.request(self.command, self.path, body, dict(self.headers.items()))
                answer = connection.getresponse()
                data = answer.read()
            finally:
                connection.close()
        if way == "break":
            self.close_connection = True
            return None
        headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in ("connection", "date")]
        if way == "cut":
            self.close_connection = True
            data = data[: len(data) // 2]
        return self._answer(answer.status, headers, data)

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815 - the names of the base class

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def proxied(endpoint: str) -> Iterator[Proxy]:
    """A proxy before a store."""
    with Proxy(endpoint) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
