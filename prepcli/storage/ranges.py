"""Reads an object as a file: in ranges, each of which is requested when it is needed."""

import io
from typing import Any, BinaryIO

from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.addresses import ObjectInfo, is_address
from prepcli.storage.ahead import requested

FIRST_BYTES = 256 << 10
MAX_BYTES = 8 << 20
"""Maximum bytes of a request while a file is read in order. The first request for a file has `FIRST_BYTES`; each
further one is twice as long as the one before.
"""


class RangeFile(io.RawIOBase):
    """A readable, seekable file over an object. Raises `InputChangedError` if the object is replaced meanwhile."""

    def __init__(self, info: ObjectInfo, beginning: bytes = b"") -> None:
        """`beginning`: the first bytes of the object, if they are known."""
        self.info = info
        self.name = info.address
        self._at = 0
        self._start = 0
        self._data = beginning
        self._step = FIRST_BYTES

    @classmethod
    def open(cls, address: str) -> "RangeFile":
        """Open an object. Its properties and first bytes are requested together, unless they were requested ahead.

        Raises:
            FileNotFoundError: there is no such object.
        """
        beginning, info = requested(address) or call(client.read_beginning, address, FIRST_BYTES)
        return cls(info, beginning)

    @property
    def beginning(self) -> bytes:
        """The bytes from the start of the object that are in memory; empty if those in memory begin later."""
        return b"" if self._start else self._data

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a position; nothing is requested."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.info.num_bytes}[whence]
        if base + offset < 0:
            raise ValueError(f"negative position {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        """Read bytes into `buffer`, and return their number: 0 at the end of the object."""
        view = memoryview(buffer).cast("B")
        data = self._available(len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def read_at(self, offset: int, length: int) -> bytes:
        """Read up to `length` bytes from byte `offset` on, without moving the position."""
        length = min(length, self.info.num_bytes - offset)
        if length <= 0:
            return b""
        inside = offset - self._start
        if inside >= 0 and inside + length <= len(self._data):
            return self._data[inside : inside + length]
        return call(client.read_range, self.info.address, offset, length, self.info.etag)

    def read_near(self, length: int, offset: int) -> bytes:
        """Move to byte `offset`, and read up to `length` bytes. Requests may fetch more bytes and keep them."""
        self._at = offset
        parts: list[bytes] = []
        while length > 0 and (data := self._available(length)):
            parts.append(data)
            length -= len(data)
            self._at += len(data)
        return b"".join(parts)

    def _available(self, wanted: int) -> bytes:
        """The bytes at the current position, at most `wanted`; if none are held, the next range is requested."""
        left = self.info.num_bytes - self._at
        if left <= 0 or not wanted:
            return b""
        inside = self._at - self._start
        if not 0 <= inside < len(self._data):
            follows = inside == len(self._data)
            self._step = min(self._step * 2, MAX_BYTES) if follows else FIRST_BYTES
            length = min(max(self._step, min(wanted, MAX_BYTES)), left)
            self._data = call(client.read_range, self.info.address, self._at, length, self.info.etag)
            self._start, inside = self._at, 0
        return self._data[inside : inside + wanted]


def openable(path: object) -> str | BinaryIO:
    """Return a source for a library that opens files itself: a path on a disk, or the opened object of an address."""
    return open_object(str(path)) if is_address(path) else str(path)


def open_object(address: str) -> BinaryIO:
    """Open an object for reading, with a buffer; raises as `RangeFile.open` does."""
    return io.BufferedReader(RangeFile.open(address), 1 << 20)
