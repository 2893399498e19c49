"""Cuts files of lines into units of work by bytes, without parsing lines: for jobs that read each line once."""

import hashlib
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from pathlib import Path
from typing import BinaryIO

from prepcli.engine.state.plan import InputFile, Unit
from prepcli.manifest.missing import spread_over
from prepcli.manifest.sources import Reader, check_file, open_bytes
from prepcli.manifest.spool import is_copied, plain_copy
from prepcli.storage.input_files import check_unchanged, read_at, state_of
from prepcli.storage.paths import size_of

MAX_UNIT_BYTES = 512 << 10
MIN_UNIT_BYTES = 8 << 10
MIN_UNITS = 64
"""Minimum number of units for large files."""
_BLOCK_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class LineSlice(Unit):
    """A unit of whole lines of one file.

    `source` is the number of the file, from 0. `offset` and `length` are the unit's first byte and its number of bytes.
    `first_line` is the number of its first line, from 1.
    """

    source: int
    offset: int
    length: int
    first_line: int


@dataclass
class LineSlices:
    """The units of some files. `num_records` counts lines that are not blank."""

    units: list[LineSlice] = field(default_factory=list)
    inputs: list[InputFile] = field(default_factory=list)
    num_records: int = 0
    plain: list[str] = field(default_factory=list)
    """For each file, the path of a file with its uncompressed bytes; empty for an open file without a name."""
    _files: dict[int, BinaryIO] = field(default_factory=dict)

    def block(self, unit: LineSlice) -> bytes:
        """The bytes of a unit, without a byte order mark."""
        plain = self.plain[unit.source]
        if unit.source not in self._files:
            self._files[unit.source] = open_bytes(plain)
        file = self._files[unit.source]
        if is_copied(plain):  # there is no spool, and so no copy: only a sample of the lines is read, in order
            file.seek(unit.offset)
            data = Reader(plain, file).read_all(unit.length)
        else:
            data = read_at(file.fileno(), unit.length, unit.offset)
        return _without_mark(data, unit.offset)

    def lines(self, unit: LineSlice) -> Iterator[tuple[int, bytes]]:
        """The lines of a unit that are not blank, without line ends, each with its line number in the file, from 1."""
        for number, line in enumerate(self.block(unit).split(b"\n"), start=unit.first_line):
            if line.strip():
                yield number, line.rstrip(b"\r")

    def sample(self) -> Iterator[tuple[int, bytes]]:
        """Yield a few lines in order, evenly spread over those that are not blank, each with the number of its file."""
        ends = list(accumulate(unit.num_records for unit in self.units))
        for at, numbers in groupby(spread_over(self.num_records), lambda number: bisect_right(ends, number)):
            lines = _not_blank(self.block(self.units[at]))
            for number in numbers:
                yield self.units[at].source, lines[number - ends[at]].rstrip(b"\r")


def slice_lines(
    paths: Sequence[str], spool: Path | None, on_block: Callable[[bytes], None] | None = None
) -> LineSlices:
    """Read files once and cut them into units. Files that are compressed or in an object store are copied to `spool`.

    If `spool` is None, they are not copied; then their lines may be read only by `LineSlices.sample`. `on_block` is
    called with all lines of all files, in blocks of whole lines.

    Raises:
        UsageError: a file is missing or damaged.
        InputChangedError: a file changes during reading.
    """
    slices = LineSlices()
    for path in paths:
        check_file(path, "input")
        state = state_of(path)
        plain = str(plain_copy(path, spool)) if spool and is_copied(path) else path
        with open_bytes(plain) as file:
            digest = _cut(slices, Reader(path, file), min(MAX_UNIT_BYTES, size_of(plain) // MIN_UNITS), on_block)
        check_unchanged(path, state)
        slices.plain.append(plain)
        slices.inputs.append(InputFile(path, digest, state))
    return slices


def slice_catalog(file: BinaryIO, max_bytes: int, min_units: int) -> LineSlices:
    """Cut the lines of an open file without a name into units; worker processes inherit the file.

    A unit has about `max_bytes` bytes. In a small file units are smaller, so that there are `min_units` of them, but
    not below `MIN_UNIT_BYTES`. The `inputs` of the result are one entry, with the file's digest and an empty path.
    """
    slices = LineSlices(plain=[""], _files={0: file})
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    slices.inputs.append(InputFile("", _cut(slices, Reader("", file), min(max_bytes, size // min_units))))
    return slices


def _cut(slices: LineSlices, reader: Reader, per_unit: int, on_block: Callable[[bytes], None] | None = None) -> str:
    """Add the units of a file to `slices`, each of about `per_unit` bytes; returns the SHA-256 of the content."""
    per_unit = max(MIN_UNIT_BYTES, per_unit)
    digest = hashlib.sha256()
    source, offset, line, rest = len(slices.inputs), 0, 1, b""
    while True:
        block = reader.read(_BLOCK_BYTES)
        digest.update(block)
        data = rest + block
        # Whole lines; at the end of the file, all remaining bytes.
        end = data.rfind(b"\n") + 1 if block else len(data)
        data, rest = data[:end], data[end:]
        at = 0
        while at < len(data):
            cut = data.find(b"\n", at + per_unit - 1) + 1 or len(data)
            piece = data[at:cut]
            count = len(_not_blank(_without_mark(piece, offset)))
            if count:
                number = len(slices.units)
                unit = LineSlice(f"lines_{number:06d}", float(count), count, source, offset, len(piece), line)
                slices.units.append(unit)
                slices.num_records += count
            if on_block is not None:
                on_block(piece)
            line += piece.count(b"\n")
            offset += len(piece)
            at = cut
        if not block:
            return digest.hexdigest()


def _not_blank(data: bytes) -> list[bytes]:
    """Lines that are not blank, with the CR of their line ends."""
    return list(filter(bytes.strip, data.split(b"\n")))


def _without_mark(data: bytes, offset: int) -> bytes:
    return data.removeprefix(_BOM) if offset == 0 else data
