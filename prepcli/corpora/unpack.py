"""Unpacking untrusted archives: inside one folder, only plain files, and completely or not at all."""

import bz2
import errno
import gzip
import hashlib
import os
import posixpath
import shutil
import tarfile
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from prepcli.corpora.fetch import algorithm_of
from prepcli.errors import PrepcliError, naming

_BLOCK = 1 << 20
_TAR_BLOCK = 64 << 10
"""At each read tarfile copies the rest of its buffer; with 1 MiB that took half of the time."""
_END_OF_TAR = bytes(1024)
_MALFORMED = (EOFError, zlib.error, tarfile.TarError, ValueError, ArithmeticError, LookupError, RecursionError)
"""What Python raises for archives that are cut or damaged; `tarfile` parses extended headers without checks."""
_BAD_NAMES = frozenset({errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG})
"""The archive's fault, not the disk's: a name is too long, or is that of a file and of a folder."""
MAX_RATIO, MAX_SMALL = 100, 1 << 30
"""An archive may unpack to so many times its own bytes, or to so many bytes: a few could stand for petabytes."""
_MAGIC: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open}


class DamagedArchiveError(Exception):
    """The archive is not the published one, or is truncated. The message starts with its name."""


class UnsafeArchiveError(PrepcliError):
    """A member of the archive would be outside of its folder, or is not a plain file; nothing is kept."""


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
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(file_checksum, archive, algorithm_of(checksum), stop)
        try:
            problem: DamagedArchiveError | None = None
            try:
                unpack(archive, into)
            except DamagedArchiveError as error:
                problem = error
            found = digest.result()
        except BaseException:
            stop.set()
            raise
    if found != checksum:
        raise DamagedArchiveError(f"{archive.name} is damaged ({found} instead of {checksum})")
    if problem is not None:
        raise problem


def file_checksum(path: Path, algorithm: str, stop: threading.Event | None = None) -> str:
    """Return the checksum of a file, such as `sha256:<hex>`; `stop` ends it early with a wrong result."""
    digest = hashlib.new(algorithm)
    with naming(path), path.open("rb") as file:
        while (block := file.read(_BLOCK)) and not (stop and stop.is_set()):
            digest.update(block)
    return f"{algorithm}:{digest.hexdigest()}"


def unpack(archive: Path, into: Path) -> None:
    """Unpack a tar archive, plain or compressed with gzip or bzip2, in `into`.

    Only folders and files are made, with the permissions of the user's umask. Links within the folder are skipped (no
    corpus needs one); an archive with anything else is refused.

    Raises:
        DamagedArchiveError: the archive is truncated, a CRC differs, or it is not a tar archive.
        UnsafeArchiveError: absolute paths, `..`, links to the outside, devices, sparse files, members that exclude each
            other, or far more data than the archive's size can be expected to hold.
    """
    with naming(archive), archive.open("rb") as raw:
        opener = _MAGIC.get(raw.read(2))
        raw.seek(0)
        try:
            with opener(raw, "rb") if opener else raw as plain:
                limit = max(MAX_RATIO * archive.stat().st_size, MAX_SMALL)
                _unpack(_Tail(plain, archive.name, limit), into, archive.name)
        except _MALFORMED as error:
            raise DamagedArchiveError(f"{archive.name} is damaged ({error})") from error
        except OSError as error:
            if error.errno is not None:  # the disk is full, ...
                raise
            raise DamagedArchiveError(f"{archive.name} is damaged ({error})") from error


class _Tail:
    """Reads a stream, and keeps its last bytes: a tar that is truncated between two members looks complete otherwise.

    Raises:
        UnsafeArchiveError: the stream is longer than `limit` bytes.
    """

    def __init__(self, stream: Any, name: str, limit: int) -> None:
        self._stream = stream
        self._name = name
        self._left = limit
        self.tail = b""

    def read(self, size: int) -> bytes:
        data: bytes = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise UnsafeArchiveError(
                f"{self._name} is not to be trusted: it unpacks to more than {MAX_RATIO} times its size; nothing of it "
                "is kept"
            )
        if data:
            end = data[-len(_END_OF_TAR) :]
            self.tail = (self.tail + end)[-len(_END_OF_TAR) :]
        return data


def _unpack(stream: _Tail, into: Path, name: str) -> None:
    source: Any = stream  # tarfile needs only `read` of a stream
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=source, mode="r|", bufsize=_TAR_BLOCK) as tar:
        for member in tar:
            target = into / _safe_name(member, name)
            try:
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                elif member.isreg():
                    content = tar.extractfile(member)
                    assert content is not None
                    _write(content, target)
            except OSError as error:
                if error.errno not in _BAD_NAMES:
                    raise
                raise UnsafeArchiveError(
                    f"{name} is not to be trusted: its member {_short(member.name)} cannot be unpacked "
                    f"({error.strerror}); nothing of it is kept"
                ) from error
    while stream.read(_BLOCK):  # the CRC is at the end
        pass
    if stream.tail != _END_OF_TAR:
        raise DamagedArchiveError(f"{name} is damaged (its tar ends early)")


def _safe_name(member: tarfile.TarInfo, archive: str) -> str:
    """Return the name of a member without `.` and `..`.

    Links are never made, so no later member is written through one.

    Raises:
        UnsafeArchiveError: the member or the target of a link is outside of the folder, or it is not a file.
    """
    name = member.name
    target = name
    if member.issym():
        target = posixpath.join(posixpath.dirname(name), member.linkname)
    elif member.islnk():
        target = member.linkname
    for path in (name, target):
        if path.startswith("/") or "\0" in path or posixpath.normpath(path).split("/")[0] == "..":
            raise UnsafeArchiveError(
                f"{archive} is not to be trusted: its member {name!r} would be outside of the folder that it is "
                "unpacked in; nothing of it is kept"
            )
    # A sparse file is a few bytes that stand for any number of zeros.
    if not (member.isdir() or member.isreg() or member.issym() or member.islnk()) or member.issparse():
        raise UnsafeArchiveError(
            f"{archive} is not to be trusted: its member {name!r} is not a plain file or folder; nothing of it is kept"
        )
    return posixpath.normpath(name)


def _short(name: str) -> str:
    """A member's name for a message, at most 200 characters of it."""
    return repr(name if len(name) <= 200 else f"{name[:200]}...")


def _write(content: IO[bytes], target: Path) -> None:
    """Write a member; a later one of the same name replaces it, as in other programs.

    Raises:
        FileExistsError: the member has the name of another one in a file system that ignores case.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and target.name not in os.listdir(target.parent):
        raise FileExistsError(errno.EEXIST, "the file system does not distinguish its name from that of another member")
    with naming(target), target.open("wb") as file:
        shutil.copyfileobj(content, file, _BLOCK)
