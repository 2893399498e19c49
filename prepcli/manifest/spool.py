"""Unpack a compressed manifest once, so that its lines can be read in any order."""

import hashlib
import os
import uuid
from pathlib import Path

from prepcli.input_files import check_unchanged, state_of
from prepcli.manifest.scan import Reader
from prepcli.manifest.sources import open_bytes

_CHUNK_BYTES = 1 << 20


def spool_gzip(path: str, directory: Path) -> Path:
    """Unpack `path` into `directory/<SHA-256 of the compressed file>.jsonl` and return that; once.

    The file appears whole or not at all, also when several ranks unpack it at once. Raises `UsageError` when
    the compressed data are damaged or cut short, and `InputChangedError` when the file is written to meanwhile.
    """
    before = state_of(path)
    with Path(path).open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    spooled = directory / f"{digest.hexdigest()}.jsonl"
    if spooled.exists():
        return spooled
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / f"{spooled.name}.{uuid.uuid4().hex}.tmp"
    try:
        with open_bytes(path) as packed, partial.open("wb") as file:
            reader = Reader(path, packed)
            while chunk := reader.read(_CHUNK_BYTES):
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        check_unchanged(path, before)  # or the content would not be that of its name
        partial.replace(spooled)
    finally:
        partial.unlink(missing_ok=True)
    return spooled
