"""Unpack many small compressed manifests into one file; to make and flush one for each takes longer than to read it."""

import hashlib
import os
import uuid
import zlib
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from prepcli.manifest.sources import is_gzip
from prepcli.manifest.spool import DRAFT_SUFFIX
from prepcli.storage.addresses import is_address
from prepcli.storage.input_files import FileState, check_unchanged, state_of

MAX_PACKED_BYTES = 256 << 10
"""A longer compressed file is unpacked to a file of its own, ..."""
MAX_CONTENT_BYTES = 4 << 20
"""... and one with longer content."""
_GZIP = 31
_BOM = b"\xef\xbb\xbf"


class Place(NamedTuple):
    """Where the content of a file is in a pack: its first byte, and the number of bytes."""

    begin: int
    num_bytes: int


class Pack:
    """A file with the content of small compressed manifests, each with a line end behind its last line.

    It appears whole or not at all, in `folder`, under a name that follows from the compressed files.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._draft = folder / f"{uuid.uuid4().hex}{DRAFT_SUFFIX}"
        self._file = self._draft.open("xb")
        self._digest = hashlib.sha256()

    def add(self, path: str, state: FileState) -> Place | None:
        """Add a file; None if it is not small, or not one gzip member without damage: to be unpacked alone.

        Raises:
            InputChangedError: it is not in `state` anymore.
        """
        if not is_gzip(path) or is_address(path) or state.num_bytes > MAX_PACKED_BYTES:
            return None
        with Path(path).open("rb", buffering=0) as file:
            packed = file.read(state.num_bytes + 1)
            if state_of(file.fileno()) != state:
                check_unchanged(path, state)
        content = _unpacked(packed)
        if content is None or content.startswith(_BOM):
            return None
        self._digest.update(hashlib.sha256(packed).digest())
        begin = self._file.tell()
        self._file.write(content)
        if not content.endswith(b"\n"):
            self._file.write(b"\n")
        return Place(begin, len(content))

    def publish(self) -> Path:
        """The complete file."""
        self._file.flush()
        path = self._folder / f"{self._digest.hexdigest()}-{self._file.tell()}.jsonl"
        os.fsync(self._file.fileno())
        self._draft.replace(path)
        return path

    def __enter__(self) -> "Pack":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
        self._draft.unlink(missing_ok=True)


def _unpacked(packed: bytes) -> bytes | None:
    """The content of a small gzip file; None if it is long, damaged, or of several members."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        content = unpacker.decompress(packed, MAX_CONTENT_BYTES)
    except zlib.error:
        return None
    return content if unpacker.eof and not unpacker.unused_data else None
