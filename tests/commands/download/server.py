"""A web server on loopback that serves files with ranges, and misbehaves as it is told."""

import hashlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Site:
    """What is served, how badly, and who asked for what.

    `cut_after`: bytes of the body after which the next connections break, one number each. `refusals`: answers
    (status, headers) to the next requests. `headers`: of every answer with a file. `damaged`: how often a byte in the
    middle is wrong. `without`: headers that are not sent. `hold_after`: bytes of the body after which
    the next connections wait until the client ends.
    """

    files: dict[str, bytes]
    cut_after: list[int] = field(default_factory=list)
    refusals: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    damaged: int = 0
    without: frozenset[str] = frozenset()
    hold_after: list[int] = field(default_factory=list)
    url: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    proxy_authorization: str | None = None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_GET(self) -> None:
        site = self.server.site
        wanted = self.headers.get("Range")
        site.asked.append((self.path, wanted))
        site.proxy_authorization = self.headers.get("Proxy-Authorization")
        if site.refusals:
            status, headers = site.refusals.pop(0)
            return self._answer(status, headers, b"")
        data = site.files.get(self.path.lstrip("/"))
        if data is None:
            return self._answer(404, {}, b"not here")
        etag = f'"{hashlib.md5(data).hexdigest()}"'
        headers = {"ETag": etag, "Last-Modified": "Tue, 03 Oct 2017 23:41:05 GMT"}
        headers = {name: value for name, value in headers.items() if name not in site.without} | site.headers
        if site.damaged:
            site.damaged -= 1
            middle = len(data) // 2
            data = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        condition = self.headers.get("If-Range")
        if wanted and site.ranges and condition in (None, etag, headers.get("Last-Modified")):
            start = int(wanted.removeprefix("bytes=").partition("-")[0])
            if start >= len(data):
                return self._answer(416, {"Content-Range": f"bytes */{len(data)}"}, b"")
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            return self._answer(206, headers, data[start:])
        return self._answer(200, headers, data)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        site = self.server.site
        site.answered.append(status)
        self.send_response(status)
        if "Content-Length" in site.without:
            headers["Connection"] = "close"
        else:
            headers["Content-Length"] = str(len(body))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if site.cut_after and status in (200, 206):
            self.wfile.write(body[: site.cut_after.pop(0)])
            self.close_connection = True
        elif site.hold_after and status in (200, 206):
            self.wfile.write(body[: site.hold_after.pop(0)])
            self.rfile.read(1)
            self.close_connection = True
        else:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    """A server whose end is the end of its connections and threads: a later test compares threads and open files."""

    site: Site

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self._connections: list[tuple[socket.socket, threading.Thread]] = []

    def process_request(self, request: Any, client_address: object) -> None:
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        self._connections.append((request, thread))
        thread.start()

    def server_close(self) -> None:
        super().server_close()
        for request, thread in self._connections:
            with suppress(OSError):  # the client has ended the connection
                request.shutdown(socket.SHUT_RDWR)
            thread.join()

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that was killed


@contextmanager
def serving(site: Site, port: int = 0) -> Iterator[Site]:
    """Serve within the context; `site.url` tells where."""
    server = _Server(port)
    server.site = site
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
