"""Unpacks an archive in a temporary folder, after fetching it if needed, and moves the result to the data root."""

import bz2
import errno
import gzip
import hashlib
import os
import posixpath
import shutil
import stat
import tarfile
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from prepcli.commands.download.data_set import Archive, CorpusPart
from prepcli.commands.download.fetch import MAX_DAMAGED, algorithm_of, fetch, note
from prepcli.engine.publishing.recorded import set_aside
from prepcli.engine.ranks.progress import LINE_INTERVAL
from prepcli.engine.run.report import format_bytes
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import PrepcliError, UsageError, naming, option
from prepcli.interface.bars import progress_bar
from prepcli.processes.pools import map_in_order
from prepcli.storage.transfer import FetchError, Progress

_BLOCK = 1 << 20
_TAR_BLOCK = 64 << 10
"""Bytes of tarfile's buffer. Each read copies the rest of the buffer; with 1 MiB, copying took half of the time."""
_END_OF_TAR = bytes(1024)
_MALFORMED = (
    *(EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile, ValueError, ArithmeticError, LookupError),
    RuntimeError,
)
"""Exceptions that Python raises for archives that are cut, damaged or encrypted. `ValueError`, `ArithmeticError` and
`LookupError` come from `tarfile`, which parses extended headers without checks."""
_BAD_NAMES = frozenset({errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG})
"""Error numbers that the archive causes, not the disk: a name is too long, or is the name of a file and a folder."""
MAX_RATIO, MAX_SMALL = 100, 1 << 30
"""An archive may unpack to `MAX_RATIO` times its size, or to `MAX_SMALL` bytes if that is more. Without this limit, a
small archive could fill the disk."""
_MAGIC: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open}
_ZIP = b"PK"


class DamagedArchiveError(Exception):
    """The archive is not the published one, or is truncated. The message starts with the name of the archive."""


class UnsafeArchiveError(PrepcliError):
    """The archive is not safe to unpack, e.g. a member would be outside of the folder; nothing of it is kept."""


def unpack_checked(archive: Path, into: Path, checksum: str | None) -> None:
    """Unpack `archive` in `into`, and compare its checksum in another thread (unless `checksum` is None).

    The caller removes `into` after an error.

    Raises:
        DamagedArchiveError: the checksum differs, or the archive cannot be read to its end.
        UnsafeArchiveError: see `unpack`.
    """
    if checksum is None:
        unpack(archive, into)
        return
    stop, problem = threading.Event(), None
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(file_checksum, archive, algorithm_of(checksum), stop)
        try:
            try:
                unpack(archive, into)
            except DamagedArchiveError as error:
                problem = error
            actual = digest.result()
        finally:
            stop.set()
    if actual != checksum:
        raise DamagedArchiveError(f"{archive.name} is damaged ({actual} instead of {checksum})")
    if problem is not None:
        raise problem


def file_checksum(path: Path, algorithm: str, stop: threading.Event | None = None) -> str:
    """Return the checksum of a file, such as `sha256:<hex>`.

    If another thread sets `stop`, reading ends early, and the result is wrong.
    """
    digest = hashlib.new(algorithm)
    with naming(path), path.open("rb") as file:
        while (block := file.read(_BLOCK)) and not (stop and stop.is_set()):
            digest.update(block)
    return f"{algorithm}:{digest.hexdigest()}"


def unpack(archive: Path, into: Path) -> None:
    """Unpack a zip archive, or a tar archive, plain or compressed with gzip or bzip2, in `into`.

    Only folders and files are made, with the permissions of the user's umask. Links within the folder are skipped,
    because no corpus needs links. An archive with members of other kinds is refused.

    Raises:
        DamagedArchiveError: the archive is truncated, a CRC differs, or it is neither tar nor zip.
        UnsafeArchiveError: the archive has absolute paths, `..`, links to the outside, devices, sparse files or names
            that cannot be written, or unpacks to more bytes than `MAX_RATIO` and `MAX_SMALL` allow.
    """
    with naming(archive), archive.open("rb") as raw:
        magic = raw.read(2)
        opener = _MAGIC.get(magic)
        raw.seek(0)
        limit = max(MAX_RATIO * archive.stat().st_size, MAX_SMALL)
        try:
            if magic == _ZIP:
                _unpack_members(_members_of_zip(raw, archive.name, limit), into, archive.name)
                return
            with opener(raw, "rb") if opener else raw as plain:
                _unpack_members(_members_of_tar(_Tail(plain, archive.name, limit), archive.name), into, archive.name)
        except (*_MALFORMED, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # the disk is full, ...
                raise
            raise DamagedArchiveError(f"{archive.name} is damaged ({error})") from error


class _Tail:
    """Reads a stream, and keeps its last 1,024 bytes in `tail`. At the end of a complete tar, they are zeros.

    Raises:
        UnsafeArchiveError: the stream is longer than `limit` bytes.
    """

    def __init__(self, stream: Any, name: str, limit: int) -> None:
        self._stream, self._name, self._left = stream, name, limit
        self.tail = b""

    def read(self, size: int) -> bytes:
        data: bytes = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _far_too_large(self._name)
        self.tail = (self.tail + data[-len(_END_OF_TAR) :])[-len(_END_OF_TAR) :]
        return data


def _far_too_large(archive: str) -> UnsafeArchiveError:
    return UnsafeArchiveError(
        f"{archive} is not to be trusted: it unpacks to more than {MAX_RATIO} times its size; nothing of it is kept"
    )


class _Member(NamedTuple):
    """A member of an archive.

    Attributes:
        name: its path.
        target: the path of a link's target; empty for all other members.
        is_plain: whether it is a file, a folder or a link.
        is_folder: whether it is a folder.
        open: opens the content of a file; None for a folder and for a link.
    """

    name: str
    target: str
    is_plain: bool
    is_folder: bool
    open: Callable[[], IO[bytes] | None] | None


def _members_of_zip(raw: IO[bytes], name: str, limit: int) -> Iterator[_Member]:
    """Yield the members of a zip archive, at most `limit` bytes; `zipfile` compares the CRC of each."""
    with zipfile.ZipFile(raw) as archive:
        members = archive.infolist()
        # zipfile unpacks no more bytes of a member than its `file_size`
        if sum(member.file_size for member in members) > limit:
            raise _far_too_large(name)
        for member in members:
            is_plain = stat.S_IFMT(member.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)
            content = None if member.is_dir() else partial(archive.open, member)
            yield _Member(member.filename, "", is_plain, member.is_dir(), content)


def _members_of_tar(stream: _Tail, name: str) -> Iterator[_Member]:
    """Yield the members of a tar archive, and read it to its end, which must be there."""
    source: Any = stream  # tarfile needs only `read` of a stream
    with tarfile.open(fileobj=source, mode="r|", bufsize=_TAR_BLOCK) as tar:
        for member in tar:
            target = posixpath.join(posixpath.dirname(member.name), member.linkname) if member.issym() else ""
            target = member.linkname if member.islnk() else target
            # A sparse file is a few bytes that stand for any number of zeros, so it is refused.
            is_known = member.isdir() or member.isreg() or member.issym() or member.islnk()
            content = partial(tar.extractfile, member) if member.isreg() else None
            yield _Member(member.name, target, is_known and not member.issparse(), member.isdir(), content)
    while stream.read(_BLOCK):  # reads the CRC at the end
        pass
    if stream.tail != _END_OF_TAR:
        raise DamagedArchiveError(f"{name} is damaged (its tar ends early)")


def _unpack_members(members: Iterable[_Member], into: Path, archive: str) -> None:
    """Write the members in the folder `into`. Links are left out, so that none redirects a later member.

    A later member replaces an earlier one of the same name, as in `tar`.
    """
    into.mkdir(parents=True, exist_ok=True)
    for member in members:
        for path in (member.name, member.target):
            if path.startswith("/") or "\0" in path or posixpath.normpath(path).split("/")[0] == "..":
                raise _not_to_be_trusted(archive, member, "would be outside of the folder that it is unpacked in")
        if not member.is_plain:
            raise _not_to_be_trusted(archive, member, "is not a plain file or folder")
        place = into / posixpath.normpath(member.name)
        try:
            if member.is_folder:
                place.mkdir(parents=True, exist_ok=True)
            elif member.open is not None:
                content = member.open()
                assert content is not None
                place.parent.mkdir(parents=True, exist_ok=True)
                with content, naming(place), place.open("wb") as file:
                    shutil.copyfileobj(content, file, _BLOCK)
        except OSError as error:
            if error.errno not in _BAD_NAMES:
                raise
            raise _not_to_be_trusted(archive, member, f"cannot be unpacked ({error.strerror})") from error


def _not_to_be_trusted(archive: str, member: _Member, why: str) -> UnsafeArchiveError:
    name = repr(member.name if len(member.name) <= 200 else f"{member.name[:200]}...")
    return UnsafeArchiveError(f"{archive} is not to be trusted: its member {name} {why}; nothing of it is kept")


def staging_of(workspace: Workspace) -> Path:
    """Return the folder in which a data set is unpacked; it is removed after its files are moved."""
    return workspace.root / "unpacking"


def get_unpacked(archive: Archive, fetched: Path, staging: Path) -> None:
    """Unpack the archive in `staging`; a fetched archive that is damaged is reported, removed and fetched again.

    An archive that is not given (`--archive`) is fetched to the path `fetched`, unless it is there.

    Raises:
        UsageError: the given archive is damaged.
        FetchError: the archive cannot be fetched undamaged.
        UnsafeArchiveError: the archive is not safe to unpack.
    """
    given = archive.given
    for attempt in range(1, MAX_DAMAGED + 1):
        checksum = archive.checksum
        if given is None and not fetched.exists():
            with fetch_bar(archive.name) as show:
                fetch(archive, fetched.parent, show)
            checksum = None  # compared during the download
        shutil.rmtree(staging, ignore_errors=True)
        try:
            return unpack_checked(given or fetched, staging, checksum)
        except (DamagedArchiveError, UnsafeArchiveError) as error:
            shutil.rmtree(staging, ignore_errors=True)
            if given is None:
                fetched.unlink()
            if isinstance(error, UnsafeArchiveError):
                raise
            if given is not None:
                remedy = "give a good copy, or leave it out to fetch it"
                raise UsageError(f"{option('--archive', given)}: {error}; {remedy}") from None
            if attempt == MAX_DAMAGED:
                remedy = f"give another {option('--base-url')} or {option('--archive')}"
                raise FetchError(f"{error}, {MAX_DAMAGED} times; {remedy}") from None
            note(f"{error}: fetching it again")
    return None


def unpack_nested(data_set: CorpusPart, archive: Archive, staging: Path, num_workers: int) -> None:
    """Unpack the archives within the archive in worker processes, each in the folder that it is in.

    Raises:
        FetchError: an archive within the archive is damaged.
    """
    nested = sorted(staging.glob(data_set.nested)) if data_set.nested is not None else []
    try:
        for _ in map_in_order(_unpack_in_place, nested, num_workers):
            pass
    except DamagedArchiveError as error:
        shutil.rmtree(staging, ignore_errors=True)
        raise FetchError(f"within {archive.name}, {error}") from error


def _unpack_in_place(archive: Path) -> None:
    unpack(archive, archive.parent)
    archive.unlink()


def move_in(data_set: CorpusPart, workspace: Workspace) -> None:
    """Move the unpacked folders of a data set, and the files next to these folders, to the data root.

    If the data root has a folder already, that folder is moved to `kept/` in the workspace. Existing files next to the
    folders, such as README.TXT, are not replaced. All other unpacked files are removed, so that an archive cannot write
    files elsewhere.
    """
    staging, folder = staging_of(workspace), workspace.folder
    moved = []
    for tree in data_set.trees:
        if (staging / tree).exists():
            if os.path.lexists(folder / tree):
                set_aside(workspace, folder / tree, tree, "was there already, and is replaced by what was unpacked")
            (folder / tree).parent.mkdir(parents=True, exist_ok=True)
            os.replace(staging / tree, folder / tree)
            moved.append(folder / tree)
    beside = {staging / Path(tree).parent for tree in data_set.trees} - {staging}
    left_out = 0
    for path in sorted(path for path in staging.rglob("*") if path.is_file()):
        target = folder / path.relative_to(staging)
        if path.parent not in beside:
            left_out += 1
        elif not os.path.lexists(target):
            os.rename(path, target)
            moved.append(target)
    workspace.flush(moved)  # before `staging` is removed, from which another process could move the files again
    if left_out:
        note(f"warning: files of the archive that are not part of {data_set.name} were left out: {left_out:,}")
    shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def fetch_bar(name: str) -> Iterator[Progress]:
    """Yield a function that shows the progress of a download: a bar, or a line per minute without a terminal."""
    last, bar = time.monotonic(), progress_bar(unit="B", unit_scale=True, desc=name, delay=0.5)

    def show(num_bytes: int, total: int | None) -> None:
        nonlocal last
        if bar is not None:
            bar.total = total
            bar.update(num_bytes - bar.n)
        elif time.monotonic() - last > LINE_INTERVAL:
            last = time.monotonic()
            note(f"{name}: {format_bytes(num_bytes)} of {format_bytes(total) if total else 'unknown size'}")

    try:
        yield show
    finally:
        if bar is not None:
            bar.close()
