"""The store under the address of an AIStore: `ENDPOINT/s3/bucket/key`, with a token in the place of signatures.

It passes requests on to the store of the tests, signed with its keys (AWS Signature Version 4, payload not signed).
"""

import hashlib
import hmac
import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.storage.object_store import ACCESS_KEY, REGION, SECRET_KEY, ObjectStore

TOKEN = "a-token-that-nobody-may-print"
_KEPT = ("Range", "If-Match", "Content-Length", "Content-Type", "Content-MD5")
_RETURNED = ("Content-Length", "Content-Range", "Content-Type", "ETag", "Last-Modified")


@contextmanager
def gateway(store: ObjectStore) -> Iterator[str]:
    """Serve on a port of its own; yields the endpoint."""

    class Handler(_Handler):
        port = store.port

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    port: int
    protocol_version = "HTTP/1.1"

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}" or not self.path.startswith("/s3/"):
            self._answer(401, {}, b"no token")
            return
        path, _, query = self.path.removeprefix("/s3").partition("?")
        own = {name: self.headers[name] for name in _KEPT if name in self.headers}
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        try:
            headers = own | signature(self.command, f"127.0.0.1:{self.port}", path, query)
            connection.request(self.command, f"{path}?{query}" if query else path, body, headers)
            answer = connection.getresponse()
            found = {name: value for name in _RETURNED if (value := answer.getheader(name)) is not None}
            self._answer(answer.status, found, answer.read())
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815 - the names of the base class

    def log_message(self, *_: object) -> None:
        pass


def signature(method: str, host: str, path: str, query: str) -> dict[str, str]:
    """The headers that sign a request without a body, or whose body need not be signed."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    headers = {"host": host, "x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": now}
    pairs = sorted(one if "=" in one else f"{one}=" for one in query.split("&") if one)
    lines = [f"{name}:{value}" for name, value in headers.items()]
    canonical = "\n".join([method, path, "&".join(pairs), *lines, "", ";".join(headers), "UNSIGNED-PAYLOAD"])
    scope = f"{now[:8]}/{REGION}/s3/aws4_request"
    key = f"AWS4{SECRET_KEY}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signed = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"Credential={ACCESS_KEY}/{scope}, SignedHeaders={';'.join(headers)}, Signature={signed}"
    return headers | {"authorization": f"AWS4-HMAC-SHA256 {credential}"}
