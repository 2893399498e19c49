"""Encoded audio in an object store, as a `Source`: small objects as a whole, long ones in ranges as needed."""

from typing import IO, Any

from prepcli.audio.source import ByteSource, ForLibsndfile, Source
from prepcli.storage.ahead import beginning_of
from prepcli.storage.ranges import RangeFile


def open_stored(address: str) -> Source:
    """Open the object at `address`.

    Raises:
        FileNotFoundError: the object does not exist.
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
        """The error of a request by libsndfile, which cannot raise the error itself."""

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from byte `offset` on."""
        return self.file.read_at(offset, length)

    def everything(self) -> bytes:
        """Return all bytes."""
        beginning = self.file.read_at(0, min(self.size, len(self.file.beginning)))
        return beginning + self.file.read_at(len(beginning), self.size - len(beginning))

    def for_libsndfile(self) -> Any:
        """Return a file object."""
        return ForLibsndfile(self, RangeFile(self.file.info, self.file.beginning))

    def for_process(self) -> IO[bytes] | int:
        """Return an unnamed temporary file with all bytes, positioned at its start."""
        return ByteSource(self.everything()).for_process()
