"""A server on loopback that answers as the Hugging Face hub: commits, listings in pages, and redirects to a file store.

The store of the files is a second server, on another port, as the hub's is on another host.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

PER_PAGE = 2
Refusal = tuple[int, dict[str, str]]


@dataclass
class Hub:
    """Data sets by owner and name, and how the servers misbehave.

    `commits`: files by data set and commit; `refs`: commits by data set and revision; `tokens`: who may read a data
    set that is not public. `refusals`: answers (status, headers) to the next requests to the hub, `store_refusals`
    to the store. `cut_after`: bytes of the body after which the next connections to the store break. `asked`: the paths
    of the requests to the hub, `authorized`: server and value of each `Authorization`.
    """

    commits: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    refs: dict[tuple[str, str], str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    store_refusals: list[Refusal] = field(default_factory=list)
    cut_after: list[int] = field(default_factory=list)
    ignores_ranges: bool = False
    asked: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    authorized: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""
    store_url: str = ""

    def push(self, name: str, files: dict[str, bytes], revision: str = "main") -> str:
        """Make a commit with these files, and let a revision name it; returns the commit."""
        content = repr((name, sorted((path, hashlib.sha1(data).hexdigest()) for path, data in files.items())))
        commit = hashlib.sha1(content.encode()).hexdigest()
        self.commits[name, commit] = files
        self.refs[name, revision] = commit
        return commit

    @property
    def environ(self) -> dict[str, str]:
        """The variables that make commands read this hub, without a token, and fail soon."""
        return {"HF_ENDPOINT": self.url, "HF_TOKEN": "", "PREPCLI_STORE_PATIENCE": "5"}


class _Server(ThreadingHTTPServer):
    hub: Hub
    is_store: bool


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        hub, is_store = self.server.hub, self.server.is_store
        if (authorization := self.headers.get("Authorization")) is not None:
            hub.authorized.append(("store" if is_store else "hub", authorization))
        refusals = hub.store_refusals if is_store else hub.refusals
        if refusals:
            return self._answer(*refusals.pop(0), b"")
        parts = urlsplit(self.path)
        words = [unquote(one) for one in parts.path.strip("/").split("/")]
        if is_store:
            return self._send_file(hub.commits["/".join(words[:2]), words[2]]["/".join(words[3:])])
        hub.asked.append(parts.path)
        is_api, words = words[0] == "api", words[words[0] == "api" :]
        name, what, revision, path = "/".join(words[1:3]), words[3], words[4], "/".join(words[5:])
        if name not in {one for one, _ in hub.refs}:
            return self._answer(401, {"X-Error-Code": "RepoNotFound"}, b"")
        if hub.tokens.get(name) not in (None, (authorization or "").removeprefix("Bearer ")):
            return self._answer(403, {"X-Error-Code": "GatedRepo"}, b"")
        commit = revision if (name, revision) in hub.commits else hub.refs.get((name, revision))
        if commit is None:
            return self._answer(404, {"X-Error-Code": "RevisionNotFound"}, b"")
        if is_api and what == "revision":
            return self._json({"id": name, "sha": commit})
        if is_api and what == "tree":
            return self._list(hub.commits[name, commit], path, parse_qs(parts.query))
        return self._redirect(name, commit, path)

    def _redirect(self, name: str, commit: str, path: str) -> None:
        data = self.server.hub.commits[name, commit].get(path)
        if data is None:
            return self._answer(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}, b"")
        headers = {
            "X-Repo-Commit": commit,
            "X-Linked-Etag": f'"{hashlib.sha256(data).hexdigest()}"',
            "X-Linked-Size": str(len(data)),
            "Location": f"{self.server.hub.store_url}/{name}/{commit}/{quote(path)}",
        }
        return self._answer(302, headers, b"")

    def _list(self, files: dict[str, bytes], folder: str, query: dict[str, list[str]]) -> None:
        below = {path: data for path, data in files.items() if not folder or path.startswith(f"{folder}/")}
        if not below:
            return self._answer(404, {"X-Error-Code": "EntryNotFound"}, b"")
        is_recursive = query.get("recursive") == ["true"]
        entries: dict[str, dict[str, Any]] = {}
        for path, data in below.items():
            parts = path.removeprefix(f"{folder}/" if folder else "").split("/")
            for depth in range(1, len(parts)):
                inner = "/".join([*([folder] if folder else []), *parts[:depth]])
                entries[inner] = {"type": "directory", "oid": "0" * 40, "size": 0, "path": inner}
            lfs = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
            entries[path] = {"type": "file", "oid": "1" * 40, "size": len(data), "path": path, "lfs": lfs}
        if not is_recursive:
            depth = folder.count("/") + 1 if folder else 0
            entries = {path: one for path, one in entries.items() if path.count("/") == depth}
        first = int(query.get("cursor", ["0"])[0])
        shown = sorted(entries)[first : first + PER_PAGE]
        headers = {}
        if first + PER_PAGE < len(entries):
            following = f"{urlsplit(self.path).path}?recursive={str(is_recursive).lower()}&cursor={first + PER_PAGE}"
            headers["Link"] = f'<{self.server.hub.url}{following}>; rel="next"'
        return self._json([entries[path] for path in shown], headers)

    def _send_file(self, data: bytes) -> None:
        wanted = self.headers.get("Range")
        self.server.hub.ranges.append(wanted or "all")
        status, headers, total = 200, {"ETag": '"of-the-store"'}, len(data)
        if wanted and not self.server.hub.ignores_ranges:
            start, _, stop = wanted.removeprefix("bytes=").partition("-")
            if int(start) >= total:
                return self._answer(416, {"Content-Range": f"bytes */{total}"}, b"")
            data, status = data[int(start) : int(stop) + 1], 206
            headers["Content-Range"] = f"bytes {start}-{int(start) + len(data) - 1}/{total}"
        cut = self.server.hub.cut_after.pop(0) if self.server.hub.cut_after else None
        return self._answer(status, headers, data, cut)

    def _json(self, document: object, headers: dict[str, str] | None = None) -> None:
        self._answer(200, {"Content-Type": "application/json", **(headers or {})}, json.dumps(document).encode())

    def _answer(self, status: int, headers: dict[str, str], body: bytes, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def hub_server() -> Iterator[Hub]:
    """Run both servers for a `with` block."""
    hub = Hub()
    servers = []
    for is_store in (False, True):
        server = _Server(("127.0.0.1", 0), _Handler)
        server.daemon_threads = True
        server.hub, server.is_store = hub, is_store
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
    hub.url, hub.store_url = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
