"""Pieces of the inputs of a job: ranges of large manifests and whole small ones, and the columns of each."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from prepcli.errors import InputChangedError
from prepcli.manifest.columns import LineBlocks
from prepcli.manifest.foreign import check_is_json_lines
from prepcli.manifest.index import check_is_manifest
from prepcli.manifest.parts import Columns, Part, WholeFile
from prepcli.manifest.scan import Range, ranges_of, scan
from prepcli.storage.input_files import FileState, check_unchanged, read_at, state_of

MAX_SMALL_BYTES = 128 << 10
"""A longer file is read alone."""
TOGETHER_BYTES = 512 << 10
"""About as many bytes of small files are read together."""
_BOM = b"\xef\xbb\xbf"


class SmallFile(NamedTuple):
    """The number of a manifest among those of a job, and its whole content."""

    number: int
    content: bytes


def scan_together(files: Sequence[SmallFile], columns: Columns) -> Iterator[tuple[int, Part | None]]:
    """The lines of consecutive small files: parts with the number of their first file.

    None instead of a part: something in the file is unusual, so that it must be read alone.
    """
    part = _part_of(files, columns)
    if part is not None:
        yield files[0].number, part
    elif len(files) == 1:
        yield files[0].number, None
    else:
        middle = len(files) // 2
        yield from scan_together(files[:middle], columns)
        yield from scan_together(files[middle:], columns)


def _part_of(files: Sequence[SmallFile], columns: Columns) -> Part | None:
    """The part with all lines of `files`, if each of them is certainly usable."""
    contents = [one.content for one in files]
    if not all(contents) or any(one.startswith(_BOM) for one in contents):
        return None
    whole = [one if one.endswith(b"\n") else one + b"\n" for one in contents]
    data = b"".join(whole)
    blocks = LineBlocks(columns)
    if not blocks.add_usable(data, 0):
        return None
    part = blocks.finish(b"", sum(map(len, contents)))
    part.found = columns.looks_for is not None and columns.looks_for(data)
    counts = [one.count(b"\n") for one in whole]
    lengths = list(map(len, whole))
    part.start -= np.repeat(np.cumsum([0, *lengths[:-1]]), counts)  # from the beginning of each file
    part.files = [
        WholeFile(hashlib.sha256(one).digest(), len(one), count) for one, count in zip(contents, counts, strict=True)
    ]
    return part


COMPRESSION = 8
"""How many times longer a manifest is than its compressed file, about."""
_SMALL_BYTES = 1 << 20
"""Of another kind of file as small as this, each line is a problem before anything else is."""


@dataclass(frozen=True, slots=True)
class Input:
    """A manifest, and its state before anything was read."""

    path: str
    state: FileState


class Plain(NamedTuple):
    """Where the uncompressed bytes of an input are: a file, the first of its bytes, and their number."""

    path: str
    begin: int
    num_bytes: int


class Piece(NamedTuple):
    """A range of the uncompressed bytes of an input, and the number of the input among all.

    `begin`: where the input begins in the file of the range; `is_whole`: the input has no other ranges.
    """

    number: int
    input: Input
    range: Range
    begin: int = 0
    is_whole: bool = True

    @property
    def num_bytes(self) -> int:
        """The number of uncompressed bytes; of a compressed file about so many."""
        stop = self.range.stop
        return self.input.state.num_bytes * COMPRESSION if stop is None else stop - self.range.start

    @property
    def is_small(self) -> bool:
        """Whether it is read together with others."""
        return self.is_whole and self.num_bytes <= MAX_SMALL_BYTES


def pieces_of(inputs: Sequence[Input], plain: Sequence[Plain]) -> Iterator[Piece]:
    """All ranges that are to be read."""
    for number, (path, begin, size) in enumerate(plain):
        ranges = ranges_of(path, size)
        for one in ranges:
            moved = Range(path, begin + one.start, begin + one.stop) if begin and one.stop is not None else one
            yield Piece(number, inputs[number], moved, begin, len(ranges) == 1)


def read_pieces(pieces: Iterable[Piece], columns: Columns) -> Iterator[tuple[int, Part]]:
    """The columns of pieces, each with the number of its (first) input.

    Raises:
        UsageError: an input is another kind of file.
        InputChangedError: one was written to meanwhile.
    """
    for is_small, some in groupby(pieces, lambda piece: piece.is_small):
        if is_small:
            yield from _read_small(some, columns)
            continue
        for piece in some:
            yield from _read_alone(piece, columns)


def _read_small(pieces: Iterable[Piece], columns: Columns) -> Iterator[tuple[int, Part]]:
    for group in _neighbours(pieces):
        for number, part in scan_together([SmallFile(one.number, _content(one)) for one in group], columns):
            if part is None:
                yield from _read_alone(group[number - group[0].number], columns)
            else:
                yield number, part


def _neighbours(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Consecutive inputs, as many as are read together."""
    group: list[Piece] = []
    size = 0
    for piece in pieces:
        if group and (size >= TOGETHER_BYTES or piece.number != group[-1].number + 1):
            yield group
            group, size = [], 0
        group.append(piece)
        size += piece.num_bytes
    if group:
        yield group


def _content(piece: Piece) -> bytes:
    path, size = piece.input.path, piece.num_bytes
    file = os.open(piece.range.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = read_at(file, size, piece.begin)
        if piece.range.path == path and state_of(file) != piece.input.state:
            check_unchanged(path, piece.input.state)
    finally:
        os.close(file)
    if len(content) != size:
        raise InputChangedError(f"{path} became shorter while it was read; run the same command again")
    return content


def _read_alone(piece: Piece, columns: Columns) -> Iterator[tuple[int, Part]]:
    path, is_first = piece.input.path, piece.range.start == piece.begin
    is_small = piece.input.state.num_bytes <= _SMALL_BYTES
    if is_first and not is_small:
        check_is_json_lines(path)
    for part in scan(piece.range, columns):
        if is_small and part.num_problems:  # thousands of small manifests need not be opened twice
            check_is_json_lines(path)
        if is_first:
            check_is_manifest(path, part, part.num_bytes)
        part.start -= piece.begin
        for problem in part.problems:
            problem.start -= piece.begin
        yield piece.number, part
    check_unchanged(path, piece.input.state)
