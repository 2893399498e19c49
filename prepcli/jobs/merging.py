"""Merges the lines of all units in the order of the input.

Each unit writes a file with its lines, which is its part, and an index of these lines.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.engine.publishing.output_files import OutputFile
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.formats.npy import npy_bytes
from prepcli.jobs.line_job import LINES_NAME
from prepcli.storage.input_files import read_at

_INDEX_NAME = "parts/{}.npy"
CHUNK_RECORDS = 1 << 16
"""Number of records whose lines are sorted at a time."""
_PLACE = (("record", "<i8"), ("end", "<i8"))
"""The columns of every index, for each line: the record's number, and the byte of the part at which the line ends."""


class PartWriter:
    """Writes the part of a unit: its lines, in ascending order of their records, and the index for merging."""

    def __init__(self, writer: UnitWriter, *columns: tuple[str, str]) -> None:
        """`columns`: names and types of further numbers that the index holds for each line, for statistics."""
        self._writer = writer
        self._dtype = np.dtype([*_PLACE, *columns])
        self._lines: OutputFile = writer.open_part(LINES_NAME.format(writer.unit.id))
        self._rows: list[tuple[float, ...]] = []

    def add(self, record: int, line: bytes, *values: float) -> None:
        """Append the line of a record, with its line end; `values`: the numbers for further columns of the index."""
        self._lines.write(line)
        self._rows.append((record, self._lines.num_bytes, *values))

    def close(self) -> None:
        """Write the index."""
        index = np.array(self._rows, self._dtype)
        self._writer.open_part(_INDEX_NAME.format(self._writer.unit.id)).write(npy_bytes(index))


def index_of(marker: Marker, writer: UnitWriter) -> NDArray[Any]:
    """Read the index of the lines that a unit wrote: an array with a row for each line."""
    index: NDArray[Any] = np.load(writer.part(_INDEX_NAME.format(marker.unit)))
    return index


def write_merged(name: str, markers: Sequence[Marker], writer: UnitWriter) -> None:
    """Make `OUT/name` of the lines of all units, in the order of the records.

    The lines of a range of records are contiguous in each part. They are read from all parts, and sorted together.
    Memory: 16 bytes per record, and the lines of `CHUNK_RECORDS` records.
    """
    merged = writer.open(name)
    indexes = [index_of(marker, writer) for marker in markers]
    numbers, ends = ([np.ascontiguousarray(index[name]) for index in indexes] for name in ("record", "end"))
    paths = [writer.part(LINES_NAME.format(marker.unit)) for marker in markers]
    first = np.array([own[0] if len(own) else np.iinfo(np.int64).max for own in numbers])
    last = np.array([own[-1] if len(own) else -1 for own in numbers])
    for start in range(0, int(last.max(initial=-1)) + 1, CHUNK_RECORDS):
        stop = start + CHUNK_RECORDS
        lines: dict[int, bytes] = {}
        for part in np.flatnonzero((first < stop) & (last >= start)).tolist():
            lo, hi = np.searchsorted(numbers[part], (start, stop)).tolist()
            if lo < hi:
                begin = int(ends[part][lo - 1]) if lo else 0
                lines.update(
                    zip(numbers[part][lo:hi].tolist(), _lines(paths[part], begin, ends[part][lo:hi]), strict=True)
                )
        if lines:
            merged.write(b"".join(lines[record] for record in sorted(lines)))


def _lines(path: Path, begin: int, ends: NDArray[np.int64]) -> Iterator[bytes]:
    """Yield consecutive lines of a part. The first begins at byte `begin`, and line i ends before byte `ends[i]`."""
    with path.open("rb") as file:
        data = read_at(file.fileno(), int(ends[-1]) - begin, begin)
    at = 0
    for end in ends.tolist():
        yield data[at : end - begin]
        at = end - begin
