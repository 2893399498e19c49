"""Files of a unit that are being written: on a file system, or as uploads to an object store."""

import os
from io import FileIO
from pathlib import Path

import msgspec
from xxhash import xxh3_128

from prepcli.engine.publishing.hashes import XXH3
from prepcli.engine.state.in_the_way import naming_what_is_in_the_way
from prepcli.errors import naming
from prepcli.storage import client
from prepcli.storage.access import call

WRITEBACK_BYTES = 4 << 20
"""Bytes of a file that may wait in the page cache before writeback is started."""
WRITTEN_BYTES = 1 << 20
"""Bytes of a file that are collected before a write: one large write takes half the kernel time of many small ones."""
MAX_PARTS = 512
"""Maximum number of pieces per write; Linux allows 1,024."""
SENT_BYTES = 1 << 20
"""Number of bytes that an upload in parts collects before it sends them."""


class PublishedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of a published file. Resuming and `verify` compare the file with it.

    prepcli removes or replaces a published file only if the file still matches its record.

    Attributes:
        num_bytes: the size.
        xxh3: the XXH3 (128 bits, hex) of the content.
        sha256: in place of `xxh3`, the SHA-256 (hex) of the content, if version 0.3 of prepcli published the file.
        etag: in a store, the store's identifier of the content.
        mtime_ns: on a file system, the time of the last change; 0 if an earlier version of prepcli published the file.
        foreign: whether the file already existed with this content, so that the unit did not publish it.
    """

    num_bytes: int
    xxh3: str = ""
    sha256: str = ""
    etag: str = ""
    mtime_ns: int = 0
    foreign: bool = False

    @property
    def hash(self) -> str:
        """The published hash, which also shows its kind (`ContentHash`)."""
        return XXH3 + self.xxh3 if self.xxh3 else self.sha256


class HashedFile:
    """A file being written; its hash and size are computed during writing, so that the file is not read again.

    The file is written at `path`; only `publish` changes `target`, by renaming the complete file.
    """

    def __init__(self, path: Path, target: Path | None = None) -> None:
        """`target`: the final name; None if the file is in a folder that is renamed."""
        self._path, self._target = path, target or path
        self._file: FileIO = path.open("wb", buffering=0)
        self._hash = xxh3_128()
        self._waiting: list[bytes | memoryview] = []
        self._num_written = 0
        self._begun = 0
        self.num_bytes = 0
        self._published: PublishedFile | None = None

    def write(self, data: bytes | memoryview) -> int:
        """Append `data`; returns the number of its bytes."""
        self._hash.update(data)
        self._waiting.append(data)
        self.num_bytes += len(data)
        is_much = self.num_bytes - self._num_written >= WRITTEN_BYTES or len(self._waiting) >= MAX_PARTS
        if is_much or type(data) is not bytes:  # the caller may change other kinds of buffers later
            self._write()
        return len(data)

    def _write(self) -> None:
        """Write the collected pieces with one call, without joining them in memory."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        with naming(self._path):
            written = os.writev(self._file.fileno(), waiting)
            if written < self.num_bytes - self._num_written:  # the disk is full, or a signal came: continue or fail
                rest = memoryview(b"".join(waiting))[written:]
                while rest:
                    rest = rest[self._file.write(rest) :]
        self._num_written = self.num_bytes
        if self._num_written - self._begun >= WRITEBACK_BYTES:  # the flush at the end then takes a fraction of the time
            write_back(self._file.fileno())
            self._begun = self._num_written

    def release(self) -> None:
        """Write the remaining bytes and close the descriptor. A unit may have too many files to keep all open."""
        self._write()
        self._file.close()

    def close(self) -> PublishedFile:
        """Flush the file to disk, close it, and return its record; further calls only return the record."""
        if self._published is not None:
            return self._published
        self._write()
        was_released = self._file.closed
        if was_released:
            self._file = self._path.open("rb", buffering=0)
        with naming(self._path):
            os.fsync(self._file.fileno())
        mtime_ns = os.fstat(self._file.fileno()).st_mtime_ns
        if self._begun or was_released:
            write_back(self._file.fileno())
        self._file.close()
        self._published = PublishedFile(self.num_bytes, self._hash.hexdigest(), mtime_ns=mtime_ns)
        return self._published

    def publish(self) -> str:
        """Rename the file to its final name; returns "" in place of an ETag."""
        _move(self._path, self._target)
        return ""

    def discard(self) -> None:
        """Close the file without flushing, because its content is not needed."""
        self._file.close()


class UploadedFile:
    """An object being written to a store; a long one is sent in parts. It appears in the store when it is published."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._upload: int | None = None  # the number of the upload in parts
        self._hash = xxh3_128()
        self._waiting: list[bytes | memoryview] = []
        self._num_waiting = 0
        self.num_bytes = 0

    def write(self, data: bytes | memoryview) -> int:
        """Append `data`; returns the number of its bytes."""
        self._hash.update(data)
        self.num_bytes += len(data)
        self._waiting.append(bytes(data))
        self._num_waiting += len(data)
        if self._num_waiting > (client.PART_BYTES if self._upload is None else SENT_BYTES):
            self._send()
        return len(data)

    def _send(self) -> None:
        if self._upload is None:
            self._upload = call(client.open_upload, self._address)
        call(client.write_upload, self._upload, b"".join(self._waiting))
        self._waiting, self._num_waiting = [], 0

    def close(self) -> PublishedFile:
        """Send the remaining bytes if the object is sent in parts; a short object is sent by `publish`.

        Returns the record of the object, which has no ETag yet.
        """
        if self._upload is not None and self._waiting:
            self._send()
        return PublishedFile(self.num_bytes, self._hash.hexdigest())

    def publish(self) -> str:
        """Complete the upload: the object appears, or replaces an earlier object. Returns its ETag."""
        if self._upload is None:
            return call(client.put_file, self._address, b"".join(self._waiting), self.num_bytes)
        return call(client.finish_upload, self._upload, self.num_bytes)

    def discard(self) -> None:
        """Abort the upload, unless it was published."""
        if self._upload is not None:
            call(client.abort_upload, self._upload)


OutputFile = HashedFile | UploadedFile
"""A file of a unit, on a file system or in a store."""


def write_back(descriptor: int) -> None:
    """Start writeback of a file, and drop pages that are already on disk from the page cache.

    So the cache does not fill with output, and the kernel uses the dropped pages again for new data. On a virtual
    machine, writing to used pages takes a third to a half of the time of writing to new pages, because the host must
    provide new pages first.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _move(source: Path, target: Path) -> None:
    with naming_what_is_in_the_way(target):
        try:
            os.replace(source, target)
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)
