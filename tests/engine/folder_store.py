"""A store whose objects are files of a folder, in place of the process that talks to a real one."""

import hashlib
import os
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.state.workspace import Workspace
from prepcli.storage.addresses import ObjectInfo
from prepcli.storage.paths import StorePath
from tests.engine.toy import ToyJob
from tests.support.one_process import one_process

BUCKET = "s3://bucket/"


class FolderStore:
    """The functions of `prepcli.storage.client` that runs call. `salt` makes other ETags, as encryption does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.salt = b""
        self.event: Callable[[str], object] = lambda _: None
        self._uploads: dict[int, tuple[str, list[bytes]]] = {}

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        self.event(function.__name__)
        return getattr(self, function.__name__)(*arguments)

    def _path(self, text: str) -> Path:
        return self.folder / urllib.parse.quote(text.removeprefix(BUCKET), safe="")

    def object_info(self, text: str) -> ObjectInfo:
        path = self._path(text)
        found, data = path.stat(), path.read_bytes()
        return ObjectInfo(text, found.st_size, found.st_mtime_ns, data[:32].decode())._replace(num_bytes=len(data) - 32)

    def read_object(self, text: str) -> bytes:
        return self._path(text).read_bytes()[32:]

    def read_range(self, text: str, start: int, length: int, etag: str = "") -> bytes:
        return self.read_object(text)[start : start + length]

    def read_beginning(self, text: str, length: int) -> tuple[bytes, ObjectInfo]:
        return self.read_object(text)[:length], self.object_info(text)

    def list_objects(self, text: str) -> list[ObjectInfo]:
        names = sorted(urllib.parse.unquote(name) for name in os.listdir(self.folder))
        return [self.object_info(BUCKET + name) for name in names if (BUCKET + name).startswith(f"{text}/")]

    def put_object(self, text: str, data: bytes) -> str:
        etag = hashlib.md5(self.salt + data, usedforsecurity=False).hexdigest()
        draft = self.folder.with_name("draft")
        draft.write_bytes(etag.encode() + data)
        draft.rename(self._path(text))
        return etag

    def put_file(self, text: str, data: bytes, num_bytes: int) -> str:
        return self.put_object(text, data)

    def delete_objects(self, texts: Sequence[str]) -> None:
        for text in texts:
            self._path(text).unlink(missing_ok=True)


class Stored:
    """Runs of the toy job into a store; their state is in a folder."""

    def __init__(self, folder: Path) -> None:
        self.store = FolderStore(folder / "store")
        self.out, self.work = StorePath(f"{BUCKET}out"), folder

    @property
    def state(self) -> Path:
        return self.work / "bucket_out.prepcli"

    def workspace(self) -> Workspace:
        return Workspace(self.out, work_dir=self.work)

    def job(self, **options: Any) -> ToyJob:
        return ToyJob(self.out, **options)  # type: ignore[arg-type]

    def run(self, job: ToyJob | None = None, **options: Any) -> Report:
        given: dict[str, Any] = {"budget": Budget(24), "steal": False} | options
        with one_process():
            return run_job(job or self.job(), self.workspace(), RunOptions(**given))

    def objects(self) -> dict[str, bytes]:
        """The content of the objects of the output, by name."""
        infos = self.store.list_objects(str(self.out))
        return {info.address.removeprefix(f"{self.out}/"): self.store.read_object(info.address) for info in infos}

    def put(self, name: str, data: bytes) -> None:
        self.store.put_object(f"{self.out}/{name}", data)


@contextmanager
def stored(folder: Path) -> Iterator[Stored]:
    """For a while all requests go to a store in a folder."""
    runs = Stored(folder)
    with patch("prepcli.storage.access.start_helper", lambda: runs.store):
        yield runs
