"""The first half of `download`: one process fetches a data set's archives, unpacks them, and indexes what they hold."""

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prepcli.corpora.data_set import DataSet
from prepcli.corpora.fetch import Archive, FetchError, fetch, note
from prepcli.corpora.unpack import DamagedArchiveError, UnsafeArchiveError, unpack_checked
from prepcli.corpus import INDEX_NAME, workspace_of
from prepcli.corpus_index import write_index
from prepcli.errors import UsageError
from prepcli.processes import map_in_order
from prepcli.run.progress import LINE_INTERVAL
from prepcli.run.report import format_bytes
from prepcli.run.signals import stop_on_signals
from prepcli.run.workspace import Workspace, read_json, write_json

ARCHIVES = "archives"
"""Folder below the data root for archives, while they are needed or with `--keep-archives`."""
MOST_DAMAGED = 3
"""How often an archive may turn out damaged while it is unpacked (where no checksum told so before)."""


@dataclass(frozen=True, slots=True)
class Fetching:
    """Where archives come from. None of it shapes the output: whoever has them, they are the same.

    `archives` are files that are there already; `checksums` (name -> checksum) take the place of the published ones.
    """

    base_url: str | None = None
    archives: Sequence[Path] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)
    keep_archives: bool = False
    overwrite: bool = False
    num_workers: int = 1


def is_ready(data_set: DataSet, data_root: Path) -> bool:
    """Whether all of the data set has been unpacked, and indexed as its settings want it.

    Converting needs nothing else; of a corpus that is on the disk already, each process makes the index.
    """
    marker = _marker(workspace_of(data_set, data_root))
    return not data_set.archives or (
        marker is not None and marker["settings"] == data_set.settings and not _staging(data_set, data_root).exists()
    )


def plan_fetching(data_set: DataSet, data_root: Path, fetching: Fetching) -> list[dict[str, Any]]:
    """What `ensure_unpacked` would fetch: name, address, bytes in all (None: nobody says) and bytes there already."""
    planned = []
    for archive in data_set.archives:
        wanted = archive.at(fetching.base_url, fetching.checksums)
        given = _given(archive, data_set, fetching)
        there = given or data_root / ARCHIVES / archive.name
        part = there if there.exists() else there.with_name(f"{archive.name}.part")
        planned.append(
            {
                "archive": archive.name,
                "from": str(given) if given else wanted.urls[0],
                "num_bytes": archive.num_bytes,
                "num_bytes_there": part.stat().st_size if part.exists() else 0,
                "checksum": wanted.checksum,
            }
        )
    return planned


def ensure_unpacked(data_set: DataSet, data_root: Path, fetching: Fetching) -> None:
    """Fetch, check and unpack what is not there yet; done once, the archives are needed no more.

    The tree is unpacked aside and appears in the data root when it is whole, then the marker says so.

    Raises:
        FetchError, UnsafeArchiveError, IncompleteError: see `prepcli.corpora`.
        UsageError: something else stands in the way, or an archive of `--archive` is damaged.
    """
    workspace = workspace_of(data_set, data_root)
    with stop_on_signals(), _alone(workspace, data_set):
        marker = _marker(workspace)
        if marker is not None:
            _move_in(data_set, data_root)
            if fetching.overwrite and not all((data_root / tree).is_dir() for tree in data_set.trees):
                marker = None
        if marker is None:
            _refuse_foreign(data_set, data_root, workspace, fetching.overwrite)
            staging = _staging(data_set, data_root)
            archives = [_unpack_one(archive, data_set, data_root, staging, fetching) for archive in data_set.archives]
            _unpack_nested(data_set, staging, fetching.num_workers)
            if not write_index(data_set, staging, workspace.root / INDEX_NAME):
                shutil.rmtree(staging)
                raise FetchError(f"{data_set.archives[0].name} holds no transcripts of {data_set.name}")
            os.sync()  # thousands of small files: once for all is far cheaper than each
            _mark(data_set, workspace, archives)
            _move_in(data_set, data_root)
        elif marker["settings"] != data_set.settings and (fetching.overwrite or not workspace.plan_file.exists()):
            write_index(data_set, data_root, workspace.root / INDEX_NAME)
            _mark(data_set, workspace, marker["archives"])
        if not fetching.keep_archives:
            for archive in data_set.archives:
                (data_root / ARCHIVES / archive.name).unlink(missing_ok=True)
            if (data_root / ARCHIVES).is_dir() and not any((data_root / ARCHIVES).iterdir()):
                (data_root / ARCHIVES).rmdir()


def ensure_index(data_set: DataSet, data_root: Path, folder: Path) -> Path:
    """The data set's index; of a corpus that is on the disk already it is made now, in `folder`."""
    if data_set.archives:
        return workspace_of(data_set, data_root).root / INDEX_NAME
    folder.mkdir(parents=True, exist_ok=True)
    write_index(data_set, data_root, folder / INDEX_NAME)
    return folder / INDEX_NAME


def _mark(data_set: DataSet, workspace: Workspace, archives: Any) -> None:
    content = {"trees": data_set.trees, "settings": data_set.settings, "archives": archives}
    write_json(workspace.root / "unpacked.json", content)


def _marker(workspace: Workspace) -> Any:
    marker = read_json(workspace.root / "unpacked.json")
    return marker if (workspace.root / INDEX_NAME).exists() else None


def _staging(data_set: DataSet, data_root: Path) -> Path:
    return workspace_of(data_set, data_root).root / "unpacking"


@contextmanager
def _alone(workspace: Workspace, data_set: DataSet) -> Iterator[None]:
    """One process fetches a data set; the lock goes with it, whatever ends it."""
    try:
        workspace.root.mkdir(parents=True, exist_ok=True)
        workspace.out.mkdir(parents=True, exist_ok=True)
        lock = (workspace.root / "lock").open("w")
    except OSError as error:
        raise UsageError(f"cannot write to {error.filename}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another process is fetching {data_set.name} for {workspace.out}; let it finish"
            ) from error
        yield


def _refuse_foreign(data_set: DataSet, data_root: Path, workspace: Workspace, overwrite: bool) -> None:
    """Nothing that we did not make is replaced, and that is said before hours of fetching."""
    if overwrite or read_json(workspace.plan_file) is not None:
        return
    patterns = (*data_set.trees, *data_set.converted, *data_set.manifests, *data_set.derived)
    foreign = next(workspace.outputs(patterns), None)
    if foreign is not None:
        raise UsageError(
            f"{foreign} is there, but {workspace.root} does not tell that prepcli made it; choose another --data-root, "
            "or give --overwrite to replace it"
        )


def _given(archive: Archive, data_set: DataSet, fetching: Fetching) -> Path | None:
    """The file of `--archive` that is meant for `archive`: by its name, unless there is but one archive."""
    for path in fetching.archives:
        if path.name == archive.name:
            return path
    return fetching.archives[0] if len(data_set.archives) == len(fetching.archives) == 1 else None


def _unpack_one(
    archive: Archive, data_set: DataSet, data_root: Path, staging: Path, fetching: Fetching
) -> dict[str, Any]:
    """Get hold of the archive and unpack it; a damaged one is named, removed and fetched again."""
    wanted = archive.at(fetching.base_url, fetching.checksums)
    given = _given(archive, data_set, fetching)
    there = data_root / ARCHIVES / archive.name
    for attempt in range(MOST_DAMAGED):
        checksum = wanted.checksum
        if given is None and not there.exists():
            with _Bar(archive.name) as bar:
                fetch(wanted, there.parent, bar)
            checksum = None  # it was compared on the way
        shutil.rmtree(staging, ignore_errors=True)
        try:
            num_files = unpack_checked(given or there, staging, checksum)
        except DamagedArchiveError as error:
            shutil.rmtree(staging, ignore_errors=True)
            if given is not None:
                raise UsageError(f"--archive {given}: {error}; give a good copy, or leave it out to fetch it") from None
            there.unlink()
            if attempt == MOST_DAMAGED - 1:
                raise FetchError(f"{error}, {MOST_DAMAGED} times; give another --base-url or --archive") from None
            note(f"{error}: fetching it again")
        except UnsafeArchiveError:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        else:
            return {"name": archive.name, "checksum": wanted.checksum, "files": num_files}
    raise AssertionError("the loop returns or raises")


def _unpack_nested(data_set: DataSet, staging: Path, num_workers: int) -> None:
    if data_set.nested is None:
        return
    try:
        for _ in map_in_order(_unpack_in_place, sorted(staging.glob(data_set.nested)), num_workers):
            pass
    except DamagedArchiveError as error:
        shutil.rmtree(staging, ignore_errors=True)
        raise FetchError(f"within {data_set.archives[0].name}, {error}") from error


def _unpack_in_place(archive: Path) -> None:
    unpack_checked(archive, archive.parent, None)
    archive.unlink()


def _move_in(data_set: DataSet, data_root: Path) -> None:
    """Move what was unpacked to its place: whole trees at once, and the files beside them one by one."""
    staging = _staging(data_set, data_root)
    for tree in data_set.trees:
        if (staging / tree).exists():
            target = data_root / tree
            if target.exists():
                shutil.rmtree(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.rename(staging / tree, target)
    for path in sorted(staging.rglob("*")):
        if path.is_file():
            target = data_root / path.relative_to(staging)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
    shutil.rmtree(staging, ignore_errors=True)


class _Bar:
    """One bar an archive; a line a minute where stderr is no terminal."""

    def __init__(self, name: str) -> None:
        from tqdm import tqdm

        self._name = name
        self._last = time.monotonic()
        self._bar: Any = None
        if sys.stderr.isatty():
            self._bar = tqdm(unit="B", unit_scale=True, desc=name, delay=0.5)

    def __call__(self, num_bytes: int, total: int | None) -> None:
        if self._bar is not None:
            self._bar.total = total
            self._bar.update(num_bytes - self._bar.n)
        elif time.monotonic() - self._last > LINE_INTERVAL:
            self._last = time.monotonic()
            note(f"{self._name}: {format_bytes(num_bytes)} of {format_bytes(total) if total else 'unknown size'}")

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
