"""Buckets in the store of the tests, and what is in them, through obstore in a process of its own.

obstore's threads do not survive a fork, and commands in the tests' own process fork workers.
"""

import atexit
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from tests.storage.object_store import ObjectStore
from tests.support.running import HANG_SECONDS, Process, clean_environment

_CODE = """
import json, sys, traceback, urllib.parse, urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
import obstore
from obstore.store import S3Store

def make(bucket):
    url = obstore.sign(store(bucket), "PUT", "", timedelta(minutes=5))
    urllib.request.urlopen(urllib.request.Request(url, method="PUT"))

@lru_cache
def store(bucket):
    return S3Store(bucket, client_options={"allow_http": True})

def upload(bucket, prefix, folder):
    def put(path):
        obstore.put(store(bucket), f"{prefix}/{path.relative_to(folder)}", path.read_bytes())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, filter(Path.is_file, sorted(Path(folder).rglob("*")))))

def download(bucket, prefix, folder):
    for page in obstore.list(store(bucket), prefix=prefix + "/"):
        for meta in page:
            path = Path(folder, meta["path"].removeprefix(prefix + "/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(obstore.get(store(bucket), meta["path"]).bytes()))

def put(bucket, key, text):
    obstore.put(store(bucket), key, text.encode())

def put_raw(bucket, key, data):
    import os
    name, endpoint = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_ENDPOINT_URL"]
    keys = {"X-Storage-User": name, "X-Storage-Pass": os.environ["AWS_SECRET_ACCESS_KEY"]}
    login = urllib.request.urlopen(urllib.request.Request(f"{endpoint}/auth/v1.0", headers=keys))
    url = login.headers["X-Storage-Url"] + urllib.parse.quote(f"/{bucket}/{key}")
    token = {"X-Auth-Token": login.headers["X-Auth-Token"]}
    urllib.request.urlopen(urllib.request.Request(url, bytes.fromhex(data), token, method="PUT"))

def delete(bucket, key):
    obstore.delete(store(bucket), key)

def names(bucket, prefix):
    return sorted(meta["path"] for page in obstore.list(store(bucket), prefix=prefix) for meta in page)

def begin_upload(bucket, key):
    file = obstore.open_writer(store(bucket), key, buffer_size=5 << 20)
    file.write(bytes(12 << 20))
    file.flush()

def unfinished(bucket, key):
    import os, re
    from tests.storage.gateway import signature
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    query = "prefix=" + urllib.parse.quote(key, safe="") + "&uploads="
    headers = signature("GET", endpoint.partition("//")[2], f"/{bucket}", query)
    answer = urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{bucket}?{query}", headers=headers))
    keys = re.findall("<Key>(.*?)</Key>", answer.read().decode())
    return [one for one in keys if one == key or one.startswith(key + "/")]

for line in sys.stdin:
    try:
        name, *arguments = json.loads(line)
        answer = [True, globals()[name](*arguments)]
    except Exception:
        answer = [False, traceback.format_exc()]
    print(json.dumps(answer), flush=True)
import os
os._exit(0)
"""


class Bucket:
    """A bucket of the store."""

    def __init__(self, store: ObjectStore, name: str) -> None:
        self.store = store
        self.name = name
        self._do("make", name)

    def __truediv__(self, key: str) -> str:
        return f"s3://{self.name}/{key}"

    def upload(self, folder: Path, prefix: str) -> str:
        """Upload the files of a folder; returns their address."""
        self._do("upload", self.name, prefix, str(folder))
        return self / prefix

    def download(self, prefix: str, folder: Path) -> Path:
        """Download what is below a prefix."""
        self._do("download", self.name, prefix, str(folder))
        return folder

    def put(self, key: str, text: str) -> str:
        """Write an object; returns its address."""
        self._do("put", self.name, key, text)
        return self / key

    def put_raw(self, key: str, data: bytes = b"") -> str:
        """Write an object with a key that obstore cannot name, by the store's own interface; returns its address."""
        self._do("put_raw", self.name, key, data.hex())
        return self / key

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._do("delete", self.name, key)

    def names(self, prefix: str = "") -> list[str]:
        """The keys below a prefix."""
        found: list[str] = self._do("names", self.name, prefix)
        return found

    def begin_upload(self, key: str) -> None:
        """Begin an upload that nobody finishes."""
        self._do("begin_upload", self.name, key)

    def unfinished(self, key: str) -> list[str]:
        """The keys, this one or below it, to which an upload is unfinished; obstore cannot list these."""
        found: list[str] = self._do("unfinished", self.name, key)
        return found

    def wait_for_upload(self, key: str, process: Process) -> None:
        """Until an upload to an object below a key is under way, or the process has ended."""
        deadline = time.monotonic() + HANG_SECONDS
        while time.monotonic() < deadline and process.poll() is None and not self.unfinished(key):
            time.sleep(0.01)

    def _do(self, name: str, *arguments: Any) -> Any:
        return _Client.of(self.store.environ).call(name, *arguments)


class _Client:
    """The process that talks to the store; it ends when this one does, because its input closes."""

    known: ClassVar[dict[str, "_Client"]] = {}

    def __init__(self, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(**environ),
        )
        atexit.register(self._process.communicate)

    @classmethod
    def of(cls, environ: dict[str, str]) -> "_Client":
        """The one for this store."""
        endpoint = environ["AWS_ENDPOINT_URL"]
        if endpoint not in cls.known:
            cls.known[endpoint] = cls(environ)
        return cls.known[endpoint]

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of `_CODE`; returns its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self._process.stdin.flush()
        succeeded, value = json.loads(self._process.stdout.readline())
        assert succeeded, value
        return value
