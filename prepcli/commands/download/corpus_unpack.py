"""From an archive to folders in the data root: fetched if needed, unpacked elsewhere, moved when complete."""

import os
import shutil
import time
from pathlib import Path

from prepcli.commands.download.data_set import DataSet
from prepcli.commands.download.fetch import MAX_DAMAGED, Archive, fetch, note
from prepcli.commands.download.unpack import DamagedArchiveError, UnsafeArchiveError, unpack_checked
from prepcli.engine.publishing.owned import set_aside
from prepcli.engine.ranks.progress import LINE_INTERVAL
from prepcli.engine.run.report import format_bytes
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError
from prepcli.interface.bars import progress_bar
from prepcli.processes.pools import map_in_order
from prepcli.storage.transfer import FetchError


def staging_of(workspace: Workspace) -> Path:
    """Return the folder in which a data set is unpacked; it does not exist any more once its files are moved."""
    return workspace.root / "unpacking"


def get_unpacked(archive: Archive, given: Path | None, there: Path, staging: Path) -> None:
    """Fetch the archive if needed, and unpack it; a damaged one is reported, removed and fetched again.

    Args:
        archive: the archive.
        given: the file of `--archive`, if there is one.
        there: where a fetched archive is stored.
        staging: the folder to unpack in.

    Raises:
        UsageError: the given archive is damaged.
        FetchError: the archive cannot be fetched undamaged.
        UnsafeArchiveError: the archive is not safe to unpack.
    """
    for attempt in range(MAX_DAMAGED):
        checksum = archive.checksum
        if given is None and not there.exists():
            with _Bar(archive.name) as bar:
                fetch(archive, there.parent, bar)
            checksum = None  # compared while it was fetched
        shutil.rmtree(staging, ignore_errors=True)
        try:
            unpack_checked(given or there, staging, checksum)
            return
        except DamagedArchiveError as error:
            shutil.rmtree(staging, ignore_errors=True)
            if given is not None:
                raise UsageError(f"--archive {given}: {error}; give a good copy, or leave it out to fetch it") from None
            there.unlink()
            if attempt == MAX_DAMAGED - 1:
                raise FetchError(f"{error}, {MAX_DAMAGED} times; give another --base-url or --archive") from None
            note(f"{error}: fetching it again")
        except UnsafeArchiveError:
            shutil.rmtree(staging, ignore_errors=True)
            if given is None:
                there.unlink()
            raise


def unpack_nested(data_set: DataSet, archive: Archive, staging: Path, num_workers: int) -> None:
    """Unpack the archives within the archive, each in its folder, in worker processes.

    Raises:
        FetchError: one of them is damaged.
    """
    if data_set.nested is None:
        return
    try:
        for _ in map_in_order(_unpack_in_place, sorted(staging.glob(data_set.nested)), num_workers):
            pass
    except DamagedArchiveError as error:
        shutil.rmtree(staging, ignore_errors=True)
        raise FetchError(f"within {archive.name}, {error}") from error


def _unpack_in_place(archive: Path) -> None:
    unpack_checked(archive, archive.parent, None)
    archive.unlink()


def move_in(data_set: DataSet, workspace: Workspace) -> None:
    """Move what was unpacked to the data root: whole folders at once, and the files next to them one by one.

    A folder that is there already is kept in `OUT.prepcli/kept/`. Files next to the folders, such as README.TXT,
    replace nothing. All others in the archive are left out: it does not decide what else is in the data root.
    """
    staging = staging_of(workspace)
    for tree in data_set.trees:
        if (staging / tree).exists():
            _move(workspace, staging / tree, tree)
    beside = {staging / Path(tree).parent for tree in data_set.trees} - {staging}
    left_out = 0
    for path in sorted(path for path in staging.rglob("*") if path.is_file()):
        target = workspace.out / path.relative_to(staging)
        if path.parent not in beside:
            left_out += 1
        elif not os.path.lexists(target):
            os.rename(path, target)
    if left_out:
        note(f"{left_out:,} files of the archive are not part of {data_set.name}, and were left out")
    shutil.rmtree(staging, ignore_errors=True)


def _move(workspace: Workspace, unpacked: Path, name: str) -> None:
    target = workspace.out / name
    if os.path.lexists(target):
        set_aside(workspace, target, name, "was there already, and is replaced by what was unpacked")
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(unpacked, target)


class _Bar:
    """One progress bar per archive; a line per minute where stderr is not a terminal."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = time.monotonic()
        self._bar = progress_bar(unit="B", unit_scale=True, desc=name, delay=0.5)

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
