"""Copies a manifest that is compressed or in an object store once, so that its lines can be read in any order."""

import hashlib
import os
import uuid
from pathlib import Path
from typing import BinaryIO

from prepcli.engine.publishing.hashes import sha256_of
from prepcli.errors import naming
from prepcli.manifest.sources import Reader, is_gzip, open_bytes
from prepcli.storage.addresses import is_address
from prepcli.storage.containers import Catalogue
from prepcli.storage.input_files import FileState, check_unchanged, state_of
from prepcli.storage.paths import absolute
from prepcli.storage.ranges import open_object

DRAFT_SUFFIX = ".tmp"
"""The suffix of copies that are not complete."""
_CHUNK_BYTES = 1 << 20


def is_copied(path: str) -> bool:
    """Whether lines of the file are read from a copy: it is compressed, or in an object store."""
    return is_gzip(path) or is_address(path)


def plain_copy(path: str, directory: Path, *, again: bool = False) -> Path:
    """Copy a file, uncompressed, into `directory` once; returns the path of the copy. Raises as `spool_gzip` does.

    The copy of a container's catalogue is named after the path and the state of the container, because hashing the
    container's bytes takes long. `again`: lines for which audio files were measured are made again, because the audio
    may have been repaired.
    """
    if isinstance(path, Catalogue):
        before = state_of(path)
        key = hashlib.sha256(f"{absolute(path)}\0{path.how}\0{before}".encode(errors="surrogateescape")).hexdigest()
        return _make_once(directory, key, ".jsonl", path, open_bytes(path), before, again=again and path.measures)
    if not is_address(path):
        return spool_gzip(path, directory)
    fetched = _fetch(path, directory)
    return spool_gzip(str(fetched), directory) if is_gzip(path) else fetched


def is_whole(copy: Path) -> bool:
    """Whether a copy exists and has the size that its name states; False if it was cut short or emptied."""
    try:
        return copy.stat().st_size == int(copy.name.partition(".")[0].rpartition("-")[2])
    except (FileNotFoundError, ValueError):
        return False


def remove_drafts(directory: Path) -> None:
    """Remove incomplete copies of killed processes."""
    for draft in directory.glob(f"*{DRAFT_SUFFIX}"):
        draft.unlink(missing_ok=True)


def _fetch(address: str, directory: Path) -> Path:
    """Fetch an object into `directory` once; returns the path of the file.

    A compressed object is not unpacked. The name of the file depends on the object's address and state.
    """
    before = state_of(address)
    key = hashlib.sha256(f"{address}\0{before}".encode()).hexdigest()
    return _make_once(directory, key, f".jsonl{'.gz' * is_gzip(address)}", address, open_object(address))


def spool_gzip(path: str, directory: Path) -> Path:
    """Unpack the file `path` once into `directory`; returns the path of the unpacked file.

    Its name is `<SHA-256 of the compressed file>-<size of the unpacked file in bytes>.jsonl`.

    The file appears whole or not at all, also if several ranks unpack it at once. Raises `UsageError` if the compressed
    data are damaged or cut short, and `InputChangedError` if the file changes during reading.
    """
    before = state_of(path)
    with naming(path):
        digest = sha256_of(Path(path))
    return _make_once(directory, digest, ".jsonl", path, open_bytes(path), before)


def _make_once(
    directory: Path,
    key: str,
    suffix: str,
    path: str,
    source: BinaryIO,
    before: FileState | None = None,
    *,
    again: bool = False,
) -> Path:
    """Write the content of `source`, a file opened from `path`, to a file in `directory`, and return its path.

    Its name is `<key>-<size in bytes><suffix>`. If a complete file of this key exists already, nothing is written,
    unless it is to be made `again`.

    `before`: the state of the file at `path` before it was read; raises `InputChangedError` if it has changed since.
    """
    copy = next(filter(is_whole, directory.glob(f"{key}-*{suffix}")), None)
    if copy is not None and not again:
        source.close()
        return copy
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / f"{key}.{uuid.uuid4().hex}{DRAFT_SUFFIX}"
    try:
        with naming(partial), source as packed, partial.open("wb") as file:
            reader = Reader(path, packed)
            while chunk := reader.read(_CHUNK_BYTES):
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        if before is not None:
            check_unchanged(path, before)  # otherwise the content would not match the name
        spooled = directory / f"{key}-{partial.stat().st_size}{suffix}"
        made = partial.replace(spooled)
        for other in set(directory.glob(f"{key}-*{suffix}")) - {made}:
            other.unlink(missing_ok=True)  # else a later start would take one of them
        return made
    finally:
        partial.unlink(missing_ok=True)
