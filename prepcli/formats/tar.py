"""Tars: a writer that makes the headers itself, and a reader that checks the archive.

The writer makes one 512-byte header per member, as POSIX ustar defines it. Python's `tarfile` spends 70 % of its time
on the header; here a header takes about a microsecond. Values that could differ from run to run (times, owners, modes)
are fixed, so equal members give equal bytes.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Protocol

from prepcli.engine.publishing.hashes import OTHER_BYTES, ContentHash
from prepcli.storage.paths import AnyPath

if TYPE_CHECKING:
    import tarfile

BLOCK = 512
END_BYTES = 2 * BLOCK
"""The size of the two zero blocks that end an archive. Readers accept a tar without them, so a tar that was cut off
between two members looks complete to readers.
"""
_MAX_OCTAL_SIZE = 8**11 - 1
_SMALL = 4096
"""Data of fewer bytes are copied next to their header and written together with it: this is faster than two writes."""
MAX_PLAIN_NAME = 100
"""Maximum bytes of a name in a header. A longer name takes two or more blocks before the member's own header."""

# name[100] mode[8] uid[8] gid[8] size[12] mtime[12] chksum[8] typeflag linkname[100] magic[6] version[2] ... = 512
_AFTER_NAME = b"\0".join((b"0000644", b"0000000", b"0000000", b""))
_MTIME = b"00000000000\0"
_AFTER_TYPE = bytes(100) + b"ustar\0" + b"00" + bytes(247)
# The checksum counts its own field as eight blanks.
_FIXED_SUM = sum(_AFTER_NAME) + sum(_MTIME) + 8 * ord(" ") + sum(_AFTER_TYPE)


class Sink(Protocol):
    """The target that a writer appends to: an open binary file, or the engine's hashing file."""

    def write(self, data: bytes, /) -> int:
        """Append `data`."""
        ...


class TarWriter:
    """Appends regular files to a tar stream.

    Examples:
        tar = TarWriter(file)
        tar.add("utt1.flac", data)
        tar.close()
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._padding = b""
        self.num_bytes = 0

    def add(self, name: str, data: bytes) -> int:
        """Append one member; returns its offset.

        Data of 4096 bytes or more are not copied. The padding after the data is written with the next member.
        """
        header = member_header(name.encode("utf-8"), len(data))
        if len(data) < _SMALL:
            self._sink.write(b"".join((self._padding, header, data)))
        else:
            self._sink.write(self._padding + header)
            self._sink.write(data)
        self._padding = bytes(-len(data) % BLOCK)
        offset = self.num_bytes
        self.num_bytes += len(header) + len(data) + len(self._padding)
        return offset

    def close(self) -> None:
        """Write the two zero blocks that end an archive; readers accept an archive without them."""
        self._sink.write(self._padding + bytes(END_BYTES))
        self.num_bytes += END_BYTES


def member_header(name: bytes, size: int) -> bytes:
    """The header of a regular file; for a name over 100 bytes, preceded by GNU's long-name member."""
    if len(name) <= MAX_PLAIN_NAME:
        return _header(name, size, b"0")
    long_name = name + b"\0"
    padded = long_name + bytes(-len(long_name) % BLOCK)
    return _header(b"././@LongLink", len(long_name), b"L") + padded + _header(name[:MAX_PLAIN_NAME], size, b"0")


def _header(name: bytes, size: int, kind: bytes) -> bytes:
    if size <= _MAX_OCTAL_SIZE:
        size_field = b"%011o\0" % size
    else:
        size_field = b"\x80" + size.to_bytes(11, "big")  # GNU's base-256 number, for members of 8 GiB or more
    checksum = _FIXED_SUM + sum(name) + sum(size_field) + kind[0]
    return b"".join(
        (
            name.ljust(MAX_PLAIN_NAME, b"\0"),
            _AFTER_NAME,
            size_field,
            _MTIME,
            b"%06o\0 " % checksum,
            kind,
            _AFTER_TYPE,
        )
    )


class _HashingReader:
    """Reads a file for `tarfile`, updates its hash, and counts the zero bytes at its end."""

    def __init__(self, file: IO[bytes], published: str | None) -> None:
        self._file = file
        self._hash = ContentHash(published)
        self._last, self._start = b"", 0
        self.trailing_zeros = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._last, self._start = data, self._start + len(self._last)
        self._hash.update(data)
        stripped = len(data.rstrip(b"\0"))
        self.trailing_zeros = len(data) - stripped + (self.trailing_zeros if not stripped else 0)
        return data

    def is_zero_at(self, at: int) -> bool:
        """Whether the block at byte `at` has only zero bytes, or is not among the bytes that were read last."""
        return at < self._start or not self._last[at - self._start :][:BLOCK].strip(b"\0")

    def differs(self) -> bool:
        """Read the rest of the file; returns whether its hash is not the published one."""
        while self.read(1 << 20):
            pass
        return self._hash.differs


def open_regular(path: AnyPath) -> IO[bytes]:
    """Open a file to read its bytes.

    Raises:
        OSError: the file cannot be opened, or is a pipe or a device, whose opening may wait forever.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file")
    return path.open("rb")


@contextmanager
def open_tar(path: AnyPath) -> "Iterator[tarfile.TarFile]":
    """Open a tar, which may be compressed, to read its members in any order."""
    import tarfile

    with path.open("rb") as file, tarfile.open(fileobj=file) as tar:
        yield tar


def read_members(
    path: AnyPath, where: str, published: str | None, problems: list[str]
) -> "Iterator[tuple[tarfile.TarInfo, bytes]]":
    """Yield the members with their bytes (empty if a member is not a file).

    After the last member, problems of the archive itself are appended to `problems`, as "<where>: ...": it cannot be
    read, breaks off, lacks its end, or does not have the hash `published` (None: not compared).
    """
    import tarfile

    count = 0
    try:
        with open_regular(path) as file:
            reader = _HashingReader(file, published)
            try:
                with tarfile.open(fileobj=reader, mode="r|") as tar:  # type: ignore[call-overload]
                    for member in tar:
                        content = tar.extractfile(member)
                        yield member, content.read() if content is not None else b""
                        count += 1
                if not reader.is_zero_at(tar.offset):  # `tarfile` takes a damaged header for the end
                    raise tarfile.ReadError(f"the header at byte {tar.offset:,} is damaged")
                differs = reader.differs()
                if reader.trailing_zeros < END_BYTES:
                    problems.append(f"{where}: cut off: the two zero blocks that end a tar are missing")
            except (tarfile.TarError, EOFError) as error:
                differs = reader.differs()
                problems.append(f"{where}: broken after {count} members: {error}")
            if differs:
                problems.append(f"{where}: {OTHER_BYTES}")
    except OSError as error:
        problems.append(f"{where}: cannot be read: {error.strerror or error}")


def walk_headers(tar: "tarfile.TarFile") -> "Iterator[tarfile.TarInfo]":
    """Yield the headers of an open tar in order, without keeping them in memory."""
    for member in tar:
        yield member
        tar.members = []  # type: ignore[attr-defined]


def read_content(tar: "tarfile.TarFile", member: "tarfile.TarInfo") -> bytes:
    """The bytes of a member; empty if the member is not a regular file."""
    content = tar.extractfile(member) if member.isreg() else None
    return content.read() if content is not None else b""
