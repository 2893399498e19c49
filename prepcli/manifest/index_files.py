"""Files of an index: the parts that ranks write, and the columns (`.npy`) that are joined from the parts.

Any number of processes map the columns into memory.
"""

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from prepcli.engine.state.workspace import atomic_file, read_document, write_json
from prepcli.errors import naming
from prepcli.manifest.index import KEY_PREFIX, IndexBuilder, ManifestIndex, SourceFile, part_columns
from prepcli.manifest.parts import Columns, Part, Problem
from prepcli.manifest.spool import is_whole
from prepcli.planning.arrays import map_array
from prepcli.storage.input_files import FileState

INDEX_NAME = "index.json"
"""The file that is written last: an index without it is not complete."""
_GAPS = "gaps"
_PROBLEMS = "problems.msgpack"
_LENGTH = struct.Struct("<q")
_DTYPES = {"start": "<i8", "length": "<i4", "duration": "<f8", "offset": "<f8", _GAPS: "<i8"}
_KEY_DTYPE = "<u8"


class _StoredPart(msgspec.Struct, array_like=True):
    """A `Part` as it is stored, and the number of its manifest (`file`)."""

    file: int
    digest: bytes
    num_bytes: int
    num_lines: int
    num_skipped: int
    num_problems: int
    num_moved: int
    columns: dict[str, memoryview]
    found: bool
    gaps: list[int]
    problems: list[Problem]


class StoredSource(msgspec.Struct):
    """A manifest in `index.json`.

    `first` is the number of its first record, `num_gaps` the number of its lines without a record. `spooled` is the
    name of the file with its uncompressed copy, which begins at byte `begin`; empty for a manifest that is not copied.
    """

    path: str
    sha256: str
    num_bytes: int
    num_lines: int
    spooled: str
    state: FileState
    first: int
    num_gaps: int
    begin: int


class StoredIndex(msgspec.Struct):
    """The content of `index.json`: all data of an index except the columns and the problems."""

    sources: list[StoredSource]
    num_records: int
    num_skipped: int
    num_moved: int
    keys: list[str]
    found: bool


def write_parts(path: Path, states: Sequence[FileState], parts: Iterable[tuple[int, Part]]) -> None:
    """Write parts of manifests to a file, each with the number of its manifest. The file appears when it is complete.

    `states`: the states of the manifests from which the parts were read. They are stored in the file too, so that
    `has_parts` can find out whether a manifest has changed.
    """
    with atomic_file(path) as file:
        _write_block(file, msgspec.msgpack.encode(list(states)))
        for number, part in parts:
            stored = _StoredPart(
                number,
                part.digest,
                part.num_bytes,
                part.num_lines,
                part.num_skipped,
                part.num_problems,
                part.num_moved,
                {name: _bytes_of(column, _dtype(name)) for name, column in part_columns(part)},
                part.found,
                part.gaps,
                part.problems,
            )
            _write_block(file, msgspec.msgpack.encode(stored))


def read_parts(path: Path) -> Iterator[tuple[int, Part]]:
    """Yield the parts in a file of `write_parts`, each with its manifest's number; columns are mapped from the file."""
    decoder = msgspec.msgpack.Decoder(_StoredPart)
    blocks = _blocks(np.memmap(path, np.uint8, "r").data)
    next(blocks)
    for stored in map(decoder.decode, blocks):
        columns = {name: np.frombuffer(data, _dtype(name)) for name, data in stored.columns.items()}
        part = Part(stored.digest, stored.num_bytes, stored.num_lines, stored.num_skipped, stored.num_problems)
        part.start, part.length = columns["start"], columns["length"]
        part.duration, part.offset = columns["duration"], columns["offset"]
        part.keys = {
            name.removeprefix(KEY_PREFIX): column for name, column in columns.items() if name.startswith(KEY_PREFIX)
        }
        part.found, part.num_moved = stored.found, stored.num_moved
        part.gaps, part.problems = stored.gaps, stored.problems
        yield stored.file, part


def has_parts(path: Path, states: Sequence[FileState]) -> bool:
    """Whether `path` is a file of `write_parts` whose parts were read from files in these states."""
    try:
        with path.open("rb") as file:
            return msgspec.msgpack.decode(_read_block(file), type=list[FileState]) == list(states)
    except (OSError, msgspec.MsgspecError):
        return False


class ColumnFiles:
    """Writes the columns of an index, piece by piece, as `.npy` files that appear when all are complete.

    Several ranks may do this at once: each writes drafts of its own, and all of them rename the same bytes.
    """

    def __init__(self, folder: Path, names: Iterable[str], own: str) -> None:
        """Open a draft, a file with a temporary name, for each column in `folder`.

        `own`: a suffix of the drafts' names that no other process uses.
        """
        self._folder = folder
        self._drafts = {name: folder / f".{name}~{own}" for name in names}
        self._files = {name: draft.open("wb") for name, draft in self._drafts.items()}
        self._counts = dict.fromkeys(self._drafts, 0)
        for name in self._files:
            self._write_header(name)

    def append(self, name: str, values: npt.NDArray[Any]) -> None:
        """Add values to the end of a column."""
        with naming(self._drafts[name]):
            self._files[name].write(np.ascontiguousarray(values, _dtype(name)).data)
        self._counts[name] += len(values)

    def publish(self) -> None:
        """Flush all files to the disk, and give them their final names."""
        for name, file in self._files.items():
            with naming(self._drafts[name]):
                file.seek(0)
                self._write_header(name)
                file.flush()
                os.fsync(file.fileno())
                file.close()
        for name, draft in self._drafts.items():
            draft.replace(self._folder / f"{name}.npy")

    def _write_header(self, name: str) -> None:
        # NumPy leaves space for more digits, so headers for all lengths have the same size.
        header = {"descr": _dtype(name), "fortran_order": False, "shape": (self._counts[name],)}
        np.lib.format.write_array_header_1_0(self._files[name], header)

    def __enter__(self) -> "ColumnFiles":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name, file in self._files.items():
            file.close()
            self._drafts[name].unlink(missing_ok=True)


def column_names(columns: Columns) -> list[str]:
    """The names of all columns that an index with these `columns` has."""
    return ["start", "length", "duration", "offset", *(KEY_PREFIX + name for name in _keys(columns)), _GAPS]


def save_index(folder: Path, builder: IndexBuilder, files: ColumnFiles, columns: Columns) -> None:
    """Publish an index whose columns are in `files`; `index.json` comes last."""
    index = builder.index
    for gaps in filter(len, index.records_before_gaps):
        files.append(_GAPS, gaps)
    files.publish()
    with atomic_file(folder / _PROBLEMS) as file:
        file.write(msgspec.msgpack.encode(index.problems))
    sources = [
        StoredSource(
            path=source.path,
            sha256=source.sha256,
            num_bytes=source.num_bytes,
            num_lines=source.num_lines,
            spooled="" if source.plain_path in (None, source.path) else os.path.basename(str(source.plain_path)),
            state=source.state,
            first=first,
            num_gaps=len(gaps),
            begin=source.begin,
        )
        for source, first, gaps in zip(index.sources, index.first[:-1], index.records_before_gaps, strict=True)
    ]
    counts = index.first[-1], index.num_skipped, index.num_moved
    save_stored(folder, StoredIndex(sources, *counts, _keys(columns), index.found))


def save_stored(folder: Path, stored: StoredIndex) -> None:
    """Write `index.json` into the folder of an index."""
    write_json(folder / INDEX_NAME, stored)


def read_stored(folder: Path) -> StoredIndex | None:
    """The content of `index.json`; None if the index is not complete."""
    return read_document(folder / INDEX_NAME, StoredIndex)


def load_index(folder: Path, stored: StoredIndex, spool: Path) -> ManifestIndex:
    """Map a complete index into memory; its columns are read only when they are used.

    Args:
        folder: the folder of the index.
        stored: the content of its `index.json`.
        spool: the folder of the uncompressed copies of manifests.

    Raises:
        OSError: a file of the index is missing.
        ValueError: a file of the index, or the uncompressed copy of a manifest, is cut short, as a power failure may
            leave it.
    """
    index = ManifestIndex(folder=folder)
    for name in ("start", "length", "duration", "offset"):
        setattr(index, name, map_array(folder / f"{name}.npy", stored.num_records))
    index.keys = {name: map_array(folder / f"{KEY_PREFIX}{name}.npy", stored.num_records) for name in stored.keys}
    gaps = map_array(folder / f"{_GAPS}.npy", sum(source.num_gaps for source in stored.sources))
    copies = {name: spool / name for name in {source.spooled for source in stored.sources} if name}
    if not all(map(is_whole, copies.values())):
        raise ValueError(spool)
    done = 0
    for entry in stored.sources:
        plain = str(copies.get(entry.spooled, entry.path))
        source = SourceFile(entry.path, entry.sha256, entry.num_bytes, entry.num_lines, plain, entry.state, entry.begin)
        index.sources.append(source)
        index.records_before_gaps.append(gaps[done : done + entry.num_gaps])
        done += entry.num_gaps
    index.first = [*(source.first for source in stored.sources), stored.num_records]
    index.num_skipped, index.num_moved, index.found = stored.num_skipped, stored.num_moved, stored.found
    index.problems = msgspec.msgpack.decode((folder / _PROBLEMS).read_bytes(), type=list[Problem])
    return index


def _keys(columns: Columns) -> list[str]:
    return [name for name, _ in (*columns.keys, *columns.field_keys)]


def _dtype(name: str) -> str:
    return _DTYPES.get(name, _KEY_DTYPE)


def _write_block(file: BinaryIO, block: bytes) -> None:
    file.write(_LENGTH.pack(len(block)))
    file.write(block)


def _blocks(data: memoryview) -> Iterator[memoryview]:
    at = 0
    while at < len(data):
        begin = at + _LENGTH.size
        at = begin + _LENGTH.unpack(data[at:begin])[0]
        yield data[begin:at]


def _bytes_of(column: npt.NDArray[Any], dtype: str) -> memoryview:
    return np.ascontiguousarray(column, dtype).data.cast("B")


def _read_block(file: BinaryIO) -> bytes:
    """The next block; empty at the end of the file."""
    head = file.read(_LENGTH.size)
    if not head:
        return b""
    return file.read(_LENGTH.unpack(head)[0])
