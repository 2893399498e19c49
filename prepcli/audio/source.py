"""Encoded audio in memory or in a file, with a common interface: its size, and ranges of its bytes."""

import errno
import io
import os
import stat
import zlib
from contextlib import suppress
from typing import IO, Any, NoReturn, Protocol

from prepcli.audio.info import unreadable
from prepcli.errors import FAULTS_OF_THE_MACHINE, RecordRejected, RejectReason, named
from prepcli.storage.addresses import ByteRange
from prepcli.storage.input_files import read_at
from prepcli.storage.paths import AnyPath
from prepcli.storage.unicode_forms import OTHER_FORM, other_forms

READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Flags to open a file of unknown kind for reading: with them, a named pipe does not block."""


class Source(Protocol):
    """Encoded audio that can be read in parts."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from byte `offset` on."""

    def everything(self) -> bytes:
        """Return all bytes."""

    def for_libsndfile(self) -> Any:
        """Return a file object or a descriptor for `soundfile.SoundFile`, never a name with an extension."""

    def for_process(self) -> IO[bytes] | int:
        """Return an open file or a descriptor that a subprocess gets as its standard input; it is seekable."""


class Window:
    """The bytes of a source for code that goes through them once: slices, `len` and `find`, read in blocks of 1 MiB."""

    _BLOCK = 1 << 20

    def __init__(self, source: Source) -> None:
        self._source = source
        self._start, self._block = 0, b""

    def __len__(self) -> int:
        return self._source.size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._source.size)
        at = start - self._start
        if at < 0 or stop > self._start + len(self._block):
            self._start, self._block = start, self._source.read(start, max(stop - start, self._BLOCK))
            at = 0
        return self._block[at : max(stop - self._start, at)]

    def find(self, wanted: bytes, start: int, end: int) -> int:
        """Return the byte from `start` on at which `wanted`, a single byte, is first; -1 if it is not before `end`."""
        while start < end:
            block = self[start : min(start + self._BLOCK, end)]
            if (at := block.find(wanted)) >= 0:
                return start + at
            if not block:
                break
            start += len(block)
        return -1


class _Bytes(io.BytesIO):
    """A file object that ignores seeks to before its start; libsndfile makes such seeks in damaged files.

    libsndfile calls `seek` from C, where an exception cannot be caught: Python would print it with its traceback.
    """

    def seek(self, offset: int, whence: int = 0, /) -> int:
        with suppress(ValueError):
            return super().seek(offset, whence)
        return self.tell()


class ByteSource:
    """Encoded audio in memory."""

    __slots__ = ("data", "size")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from byte `offset` on."""
        return self.data[offset : offset + length]

    def everything(self) -> bytes:
        """Return all bytes."""
        return self.data

    def for_libsndfile(self) -> io.BytesIO:
        """Return a file object over the bytes."""
        return _Bytes(self.data)

    def for_process(self) -> IO[bytes]:
        """Return an unnamed temporary file with all bytes, positioned at its start."""
        import tempfile

        file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller's process inherits it; closed with the object
        file.write(self.data)
        file.seek(0)
        return file


class Watched(Protocol):
    """Encoded audio that libsndfile reads. If a read fails, `failure` keeps the error; otherwise it is None."""

    size: int
    failure: Exception | None


class ForLibsndfile:
    """A file object that libsndfile calls from C. An exception there would only be printed, so none is raised.

    A seek to before the start, as libsndfile makes in damaged files, is ignored. A read error is stored in
    `source.failure`, and for libsndfile the file ends there.
    """

    def __init__(self, source: "Watched", raw: io.RawIOBase | io.BufferedReader) -> None:
        self._source = source
        self._raw = raw

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        try:
            return self._raw.seek(offset, whence)
        except (ValueError, OSError):
            return self._raw.tell()

    def tell(self) -> int:
        """Return the position."""
        return self._raw.tell()

    def read(self, length: int = -1) -> bytes:
        """Return up to `length` bytes; fewer only at the end."""
        data = bytearray(self._source.size - self._raw.tell() if length < 0 else length)
        return bytes(data[: self.readinto(data)])

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer`; returns the number of bytes, fewer only at the end."""
        view = memoryview(buffer).cast("B")
        got = 0
        try:
            while got < len(view) and (read := self._raw.readinto(view[got:])):
                got += read
        except Exception as error:
            self._source.failure = error
        return got


class FileSource:
    """Encoded audio in an open file, which a `with` block closes; `name` is for messages.

    Read errors are raised by `refuse`.
    """

    __slots__ = ("fd", "is_decoded", "name", "size")

    def __init__(self, fd: int, size: int, name: str) -> None:
        self.fd = fd
        self.size = size
        self.name = name
        self.is_decoded = False
        """Whether libsndfile or a program has read the file. If so, it may have reported a read error as damage."""

    def __enter__(self) -> "FileSource":
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self.fd)

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from byte `offset` on."""
        # Both may come from a damaged header: pread allocates `length` first, and does not accept offsets of 64 bits.
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        try:
            return read_at(self.fd, length, offset)
        except OSError as error:
            refuse(error, self.name)

    def everything(self) -> bytes:
        """Return all bytes."""
        return self.read(0, self.size)

    def for_libsndfile(self) -> int:
        """Return the open file's descriptor, after a seek to its start.

        libsndfile does not get the name, so it cannot judge the file by its extension.
        """
        return self.for_process()

    def for_process(self) -> int:
        """Return the open file's descriptor, after a seek to its start."""
        self.is_decoded = True
        os.lseek(self.fd, 0, os.SEEK_SET)
        return self.fd


class _Reader(io.RawIOBase):
    """A file object over a source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        if at < 0:
            raise ValueError(f"negative position {at}")
        self._at = at
        return at

    def readinto(self, buffer: Any, /) -> int:
        data = self._source.read(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


_SHORT, _BUFFER = 1 << 22, 1 << 18
"""Bytes of a range that is read at once, and of one read of a longer range."""


class RangeSource:
    """Encoded audio in a part of an open file, such as a member of a tar; read errors are raised by `refuse`."""

    __slots__ = ("_file", "_part", "_start", "failure", "size")

    def __init__(self, fd: int, part: ByteRange, name: str) -> None:
        self._file = FileSource(fd, part.start + part.length, name)
        self.failure: Exception | None = None
        """The error of a read by libsndfile, which cannot raise the error itself."""
        self._part = part
        self._start = part.start
        self.size = part.length

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from byte `offset` on."""
        return self._file.read(self._start + offset, length) if offset < self.size else b""

    def everything(self) -> bytes:
        """Return all bytes of the range; raises `RecordRejected` if the range has a checksum that does not fit them."""
        return intact(self.read(0, self.size), self._part, self._file.name)

    @property
    def key(self) -> object:
        """A key of the range, as of `identity`."""
        return identity(self._file), self._start, self.size

    def for_libsndfile(self) -> Any:
        """Return a file object; the bytes are in memory if they are few, or if they have a checksum."""
        if self.size <= _SHORT or self._part.crc32 is not None:
            return _Bytes(self.everything())
        return ForLibsndfile(self, io.BufferedReader(_Reader(self), _BUFFER))

    def for_process(self) -> IO[bytes]:
        """Return an unnamed temporary file with all bytes, positioned at its start."""
        return ByteSource(self.everything()).for_process()


def identity(source: Source) -> object:
    """Return a key of the source: equal keys mean equal content."""
    if isinstance(source, FileSource):
        state = os.fstat(source.fd)
        return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
    return source.key if isinstance(source, RangeSource) else source.everything()


_NEAR = (ByteSource, FileSource, RangeSource)


def is_near(source: Source) -> bool:
    """Return whether small reads all over the source are cheap, unlike of an object in a store."""
    return isinstance(source, _NEAR)


def intact(data: bytes, part: ByteRange, name: str) -> bytes:
    """Return `data`, the bytes of a range; raises `RecordRejected` if the range has a checksum that does not fit."""
    if part.crc32 is not None and zlib.crc32(data) != part.crc32:
        raise RecordRejected(
            RejectReason.UNREADABLE_AUDIO,
            f"{name} differs from its checksum in {part.path}: the archive is damaged or has changed; copy it again",
        )
    return data


class WatchedSource(FileSource):
    """A file that libsndfile reads through Python, several times slower, so that `failure` can keep a read error."""

    __slots__ = ("failure",)

    def __init__(self, file: FileSource) -> None:
        super().__init__(file.fd, file.size, file.name)
        self.failure: Exception | None = None

    def for_libsndfile(self) -> Any:
        """Return a file object, positioned at the start of the file."""
        os.lseek(self.fd, 0, os.SEEK_SET)
        return ForLibsndfile(self, io.FileIO(self.fd, closefd=False))


def open_file(path: str | AnyPath, name: str) -> int:
    """Return a descriptor for reading `path`; to open a named pipe does not block.

    Raises:
        RecordRejected: MISSING_AUDIO if the file does not exist, UNREADABLE_AUDIO if it cannot be opened.
    """
    try:
        return os.open(str(path), READING)
    except OSError as error:
        refuse(error, name)
    except ValueError as error:  # a NUL in the path
        unreadable(name, f"cannot be opened: {error}")


def refuse(error: OSError, name: str) -> NoReturn:
    """Raise the reject for a file that the operating system cannot open or read.

    Raises:
        RecordRejected: MISSING_AUDIO or UNREADABLE_AUDIO.
        OSError: `error` itself, if the machine is the cause and not the file.
    """
    if error.errno in FAULTS_OF_THE_MACHINE:  # such errors stop the run; otherwise all records would be rejected
        raise named(error, name)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        shown = name if name.isprintable() else repr(name)
        hint = f"; {OTHER_FORM}" if any(map(os.path.exists, other_forms(name))) else ""
        raise RecordRejected(RejectReason.MISSING_AUDIO, f"{shown} does not exist{hint}") from None
    unreadable(name, f"cannot be read: {error.strerror or error}")


def regular_size(fd: int, name: str) -> int:
    """Return the size of an open file in bytes; raises `RecordRejected` if it is not a regular file."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        unreadable(name, "is a directory" if stat.S_ISDIR(status.st_mode) else "is not a regular file")
    return status.st_size
