"""Files of lines cut into units of work by bytes, without looking into the lines: for jobs that read each one once."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from prepcli.engine.state.plan import InputFile, Unit
from prepcli.manifest.missing import spread_over
from prepcli.manifest.scan import Reader
from prepcli.manifest.sources import check_file, open_bytes
from prepcli.manifest.spool import is_copied, plain_copy
from prepcli.storage.input_files import check_unchanged, read_at, state_of
from prepcli.storage.paths import size_of

MAX_UNIT_BYTES = 512 << 10
MIN_UNIT_BYTES = 8 << 10
MIN_UNITS = 64
"""Units of files that are neither small nor large."""
_BLOCK_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class LineSlice(Unit):
    """Whole lines of a file: its number, the first byte, the number of bytes, and the number of the first line."""

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
    """For each file where its uncompressed bytes are."""
    _open: dict[int, int] = field(default_factory=dict)

    def lines(self, unit: LineSlice) -> Iterator[tuple[int, bytes]]:
        """The lines of a unit that are not blank, without line ends, with their numbers from 1."""
        if unit.source not in self._open:
            self._open[unit.source] = os.open(self.plain[unit.source], os.O_RDONLY | os.O_CLOEXEC)
        data = read_at(self._open[unit.source], unit.length, unit.offset)
        for number, line in enumerate(_without_mark(data, unit.offset).split(b"\n"), start=unit.first_line):
            if line and not line.isspace():
                yield number, line.rstrip(b"\r")

    def sample(self) -> Iterator[tuple[int, bytes]]:
        """A few lines, evenly over all that are not blank, each with the number of its file; read once, in order."""
        ends = np.cumsum([unit.num_records for unit in self.units])
        for source, plain in enumerate(self.plain):
            with open_bytes(plain) as file:
                for number in spread_over(self.num_records):
                    at = int(np.searchsorted(ends, number, side="right"))
                    unit = self.units[at]
                    if unit.source == source:
                        file.seek(unit.offset)
                        read = Reader(plain, file).read_all(unit.length)
                        lines = _without_mark(read, unit.offset).split(b"\n")
                        whole = [line for line in lines if line and not line.isspace()]
                        yield source, whole[number - int(ends[at])]


def slice_lines(
    paths: Sequence[str], spool: Path | None, see: Callable[[bytes], None] | None = None, name: str = "lines"
) -> LineSlices:
    """Read files once and cut them into units; a compressed one is unpacked in `spool`.

    Without `spool` a compressed file is only counted. `see` is called with blocks of whole lines.

    Raises:
        UsageError: a file is missing or damaged.
        InputChangedError: it is written to meanwhile.
    """
    found = LineSlices()
    for path in paths:
        check_file(path, "input")
        state = state_of(path)
        plain = str(plain_copy(path, spool)) if spool and is_copied(path) else path
        _slice_one(found, path, plain, see, name)
        check_unchanged(path, state)
        found.inputs[-1] = InputFile(path, found.inputs[-1].sha256, state)
    return found


def _slice_one(found: LineSlices, path: str, plain: str, see: Callable[[bytes], None] | None, name: str) -> None:
    size = size_of(plain)
    per_unit = min(MAX_UNIT_BYTES, max(MIN_UNIT_BYTES, size // MIN_UNITS))
    digest = hashlib.sha256()
    source, offset, line, rest = len(found.plain), 0, 1, b""
    with open_bytes(plain) as file:
        reader = Reader(path, file)
        while True:
            block = reader.read(_BLOCK_BYTES)
            digest.update(block)
            data = rest + block
            # Whole lines, and at the end of the file what is left.
            end = data.rfind(b"\n") + 1 if block else len(data)
            data, rest = data[:end], data[end:]
            at = 0
            while at < len(data):
                cut = data.find(b"\n", at + per_unit - 1) + 1 or len(data)
                piece = data[at:cut]
                count = sum(1 for one in _without_mark(piece, offset).split(b"\n") if one and not one.isspace())
                if count:
                    number = len(found.units)
                    unit = LineSlice(f"{name}_{number:06d}", float(count), count, source, offset, len(piece), line)
                    found.units.append(unit)
                    found.num_records += count
                if see is not None:
                    see(piece)
                line += piece.count(b"\n")
                offset += len(piece)
                at = cut
            if not block:
                break
    found.plain.append(plain)
    found.inputs.append(InputFile(path, digest.hexdigest()))


def _without_mark(data: bytes, offset: int) -> bytes:
    return data.removeprefix(_BOM) if offset == 0 else data
