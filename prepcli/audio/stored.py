"""Encoded audio in an object store, as a `Source`: small objects whole, of long ones the ranges that are needed."""

import io
from typing import IO, Any

from prepcli.audio.source import ByteSource, Source
from prepcli.storage.ahead import beginning_of
from prepcli.storage.ranges import RangeFile


def open_stored(address: str) -> Source:
    """Open the object at `address`.

    Raises:
        FileNotFoundError: there is no such object.
    """
    beginning, info = beginning_of(address)
    if len(beginning) == info.num_bytes:
        return ByteSource(beginning)
    return ObjectSource(RangeFile(info, beginning))


class ObjectSource:
    """A long object; bytes are requested when they are needed."""

    __slots__ = ("failure", "file", "size")

    def __init__(self, file: RangeFile) -> None:
        self.file = file
        self.size = file.info.num_bytes
        self.failure: Exception | None = None
        """The error of a request that libsndfile has made, which cannot raise it itself."""

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from byte `offset` on."""
        return self.file.read_at(offset, length)

    def everything(self) -> bytes:
        """Return all bytes."""
        beginning = self.file.read_at(0, min(self.size, len(self.file.held)))
        return beginning + self.file.read_at(len(beginning), self.size - len(beginning))

    def for_libsndfile(self) -> Any:
        """Return a file object."""
        return _ForLibsndfile(self)

    def for_process(self) -> IO[bytes] | int:
        """Return an unnamed temporary file with the bytes, at its start."""
        return ByteSource(self.everything()).for_process()


class _ForLibsndfile:
    """A file object for libsndfile, which calls it from C: what it raises would only be printed.

    A seek to before the start is ignored, as in damaged files. After an error the file seems to end.
    """

    def __init__(self, source: ObjectSource) -> None:
        self._source = source
        self._raw = RangeFile(source.file.info, source.file.held)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        try:
            return self._raw.seek(offset, whence)
        except ValueError:
            return self._raw.tell()

    def tell(self) -> int:
        """Return the position."""
        return self._raw.tell()

    def read(self, length: int = -1) -> bytes:
        """Return up to `length` bytes; fewer only at the end."""
        data = bytearray(self._source.size - self._raw.tell() if length < 0 else length)
        return bytes(data[: self.readinto(data)])

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer`; fewer bytes only at the end."""
        view = memoryview(buffer).cast("B")
        got = 0
        try:
            while got < len(view) and (read := self._raw.readinto(view[got:])):
                got += read
        except Exception as error:
            self._source.failure = error
        return got
