"""The lines of texts or of pairs of texts, found by their places in the files, and the shards that are made of them."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.publishing.rejects import Origin
from prepcli.engine.state.plan import InputFile
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.interface.printing import number_of
from prepcli.jobs.record_job import RecordUnit
from prepcli.jobs.selection import scratch_folder
from prepcli.manifest.fields import decode_line
from prepcli.manifest.foreign import check_is_text
from prepcli.manifest.line_slices import slice_lines
from prepcli.manifest.sources import open_bytes
from prepcli.planning.arrays import Growing, Scratch
from prepcli.planning.split import Indices, in_order
from prepcli.storage.input_files import read_at

_BOM = b"\xef\xbb\xbf"


def names_of(num_sides: int) -> tuple[str, ...]:
    """The names of the files of a shard, with `{}` for its number: of texts, or of both sides of pairs."""
    return ("texts_{}.txt",) if num_sides == 1 else ("source_{}.txt", "target_{}.txt")


@dataclass(frozen=True)
class _Side:
    """The files of texts, or of one side of pairs.

    Attributes:
        paths: the files.
        plain: for each file, the path of its uncompressed bytes.
        first: for each file the number of its first line, counted over all files, and the number of all lines.
        starts: for each file, the bytes at which its lines begin, and its size; shape (lines of the file + 1,).
    """

    paths: Sequence[str]
    plain: list[str] = field(default_factory=list)
    first: list[int] = field(default_factory=lambda: [0])
    starts: list[Indices] = field(default_factory=list)
    _files: dict[int, BinaryIO] = field(default_factory=dict)

    def place(self, number: int) -> tuple[int, int]:
        """The number of the file of a line, and the number of the line in the file; all from 0."""
        file = bisect_right(self.first, number) - 1
        return file, number - self.first[file]

    def line(self, number: int) -> bytes:
        """A line without its end, and without a byte order mark."""
        at, place = self.place(number)
        if at not in self._files:
            self._files[at] = open_bytes(self.plain[at])
        start, end = self.starts[at][place : place + 2].tolist()
        line = read_at(self._files[at].fileno(), end - start, start)
        return (line if start else line.removeprefix(_BOM)).removesuffix(b"\n").removesuffix(b"\r")


@dataclass(frozen=True)
class Lines:
    """The lines of all files in the order of the shards.

    Attributes:
        sides: texts, or both sides of pairs.
        inputs: the files, for the engine.
        count: number of lines, or of pairs.
        order: their numbers in the order of the shards; shape (count,).
    """

    sides: list[_Side]
    inputs: list[InputFile]
    count: int
    order: Indices

    @classmethod
    def read(cls, sides: Sequence[Sequence[str]], workspace: Workspace, seed: int | None) -> "Lines":
        """Find the lines of all files, and shuffle them with `seed`, unless it is None.

        Raises:
            UsageError: a file is missing, damaged or not text, or two files of pairs have different numbers of lines.
        """
        inputs: list[InputFile] = []
        folder = scratch_folder(workspace)
        read = [_Side(paths) for paths in sides]
        for side in read:
            for path in side.paths:
                check_is_text(path)
                starts = Growing(folder, np.int64)
                starts.append([0])
                at = 0

                def add(block: bytes, starts: Growing = starts) -> None:
                    nonlocal at
                    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 10) + 1
                    starts.append(ends + at)
                    at += len(block)
                    if not block.endswith(b"\n"):  # the last line of the file
                        starts.append([at])

                slices = slice_lines([path], workspace.spool, add)
                side.plain.extend(slices.plain)
                side.starts.append(starts.array())
                side.first.append(side.first[-1] + len(side.starts[-1]) - 1)
                inputs += slices.inputs
        for place, (path, other) in enumerate(zip(read[0].paths, read[-1].paths, strict=True)):
            numbers = [len(side.starts[place]) - 1 for side in read]
            if numbers[0] != numbers[-1]:
                raise UsageError(
                    f"{path} has {number_of(numbers[0], 'line')} and {other} {numbers[-1]:,}: they do not belong "
                    "together"
                )
        count = read[0].first[-1]
        if not count:
            raise UsageError(f"no texts in {', '.join(read[0].paths)}: the files are empty")
        return cls(read, inputs, count, in_order(count, seed, Scratch(folder)))


def write_shard(lines: Lines, unit: RecordUnit, writer: UnitWriter, names: Sequence[str]) -> None:
    """Write the lines of a shard to its file or, of pairs, its two files."""
    files = [writer.open(name.format(unit.number)) for name in names]

    def write(number: int) -> float:
        found = [side.line(number) for side in lines.sides]
        for line in found:
            _check(line)
        for file, line in zip(files, found, strict=True):
            file.write(line + b"\n")
        return 0.0

    def original(number: int) -> tuple[bytes, Origin]:
        file, place = lines.sides[0].place(number)
        return b"\t".join(side.line(number) for side in lines.sides), Origin(lines.sides[0].paths[file], place + 1)

    writer.write_each(lines.order[unit.lo : unit.hi].tolist(), write, original, writer.advance)


def _check(line: bytes) -> None:
    """Raise `RecordRejected` for a line that NeMo would read as something else."""
    if not decode_line(line).strip():
        raise RecordRejected(RejectReason.EMPTY_TEXT, "the line is empty")
    if b"\r" in line:
        raise RecordRejected(RejectReason.BAD_FIELD, "a carriage return within the line, at which Python divides it")
