"""Reads a manifest in fixed, independent byte ranges, so that many processes can share one huge file.

A range is 16 MiB of the file, whichever process reads it, or 2 MiB if no digest of the file is wanted. A line belongs
to the range in which it begins.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prepcli.errors import UsageError
from prepcli.manifest.columns import LineBlocks
from prepcli.manifest.parquet_rows import open_rows
from prepcli.manifest.parts import Columns, Part
from prepcli.manifest.sources import Reader, is_gzip, open_bytes
from prepcli.storage.containers import MOVED_TEXT

RANGE_BYTES = 16 << 20
MAX_LINE_BYTES = 64 << 20
INLINE_BYTES = 8 << 20
"""If files have fewer bytes, they are read without worker processes, because starting these takes longer than reading.
Bytes of compressed files count eight times."""
_BLOCK_BYTES = 512 << 10
_REST_BYTES = 32 << 10
"""Bytes that are read at a time for the end of a line that crosses the end of a range."""
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes `start` to `stop` of a manifest; if `stop` is None, all bytes from `start`.

    `stop` is None for a manifest whose uncompressed length is not known: a compressed file, or the rows of Parquet.
    `begin`: the byte of the file `path` at which the manifest begins; one file may have several manifests.
    """

    path: str
    start: int
    stop: int | None
    begin: int = 0


def ranges_of(path: str, num_bytes: int, short: bool = False, begin: int = 0) -> list[Range]:
    """The ranges of one manifest of `num_bytes` bytes; a compressed manifest is a single range.

    `short`: the ranges have an eighth of the usual length, so that workers end at about the same time. It must be False
    if a digest of the manifest is wanted, because this is made from the digests of ranges of the usual length.
    """
    if is_gzip(path):
        return [Range(path, 0, None)]
    step = max(RANGE_BYTES // 8, 1) if short else RANGE_BYTES
    return [Range(path, start, min(start + step, num_bytes), begin) for start in range(0, num_bytes, step)]


def workers_for(files: Iterable[tuple[str, int]], num_workers: int) -> int:
    """The number of processes to read `files` (path, bytes): `num_workers`, or one if that is faster."""
    return num_workers if sum(size * (8 if is_gzip(path) else 1) for path, size in files) >= INLINE_BYTES else 1


def scan(part: Range, columns: Columns) -> Iterator[Part]:
    """Read the lines that begin in one range, as one `Part`; for a compressed file, a `Part` for each 16 MiB.

    Raises `UsageError` if a compressed file is damaged or cut short, or a line is longer than 64 MiB.
    """
    with open_rows(part.path, columns) if columns.parquet else open_bytes(part.path) as file:
        reader = Reader(part.path, file, part.begin)
        if part.stop is not None:
            yield _scan_range(reader, part.start, part.stop, reader.seek_to(part.start), columns)
        else:
            yield from scan_all(reader, columns)


def scan_all(reader: "Reader", columns: Columns) -> Iterator[Part]:
    """Read all that `reader` has, a `Part` for each 16 MiB; raises as `scan` does."""
    start, in_line = 0, False
    while data := reader.read(1):
        reader.give_back(data)
        yield _scan_range(reader, start, start + RANGE_BYTES, in_line, columns)
        start += RANGE_BYTES
        in_line = reader.in_line


def _scan_range(reader: Reader, start: int, stop: int, in_line: bool, columns: Columns) -> Part:
    """Read the lines that begin from byte `start` to `stop`; `in_line`: the first bytes belong to an earlier line."""
    digest = hashlib.sha256() if columns.digest else None
    blocks = LineBlocks(columns)
    is_found, num_moved = columns.looks_for is None, 0
    for data, at in _whole_lines(reader, start, stop, in_line, digest.update if digest else None):
        blocks.add(data, at)
        is_found = is_found or (columns.looks_for is not None and columns.looks_for(data))
        num_moved += data.count(MOVED_TEXT) if columns.counts_moved else 0
    part = blocks.finish(digest.digest() if digest else b"", reader.num_bytes)
    part.found, part.num_moved = is_found and columns.looks_for is not None, num_moved
    return part


def lines_of(part: Range) -> Iterator[bytes]:
    """The lines that begin in one range, without newlines; all lines of a compressed file. Raises as `scan` does.

    Blank lines are included, so that a caller can count lines. `manifest.lines.read_line` makes a record of a line.
    """
    for block in blocks_of(part):
        yield from block.removesuffix(b"\n").split(b"\n")


def blocks_of(part: Range) -> Iterator[bytes]:
    """The lines of `lines_of` in blocks with their newlines, for functions that handle many lines at once."""
    with open_bytes(part.path) as file:
        reader = Reader(part.path, file, part.begin)
        in_line = reader.seek_to(part.start)
        stop = sys.maxsize if part.stop is None else part.stop
        for data, _ in _whole_lines(reader, part.start, stop, in_line, None):
            yield data


def _whole_lines(
    reader: Reader, start: int, stop: int, in_line: bool, seen: Callable[[bytes], None] | None
) -> Iterator[tuple[bytes, int]]:
    """Blocks of whole lines, each with the byte at which it begins; `seen` gets all bytes from `start` to `stop`."""
    position = start
    pending: list[bytes] = []  # pieces of an incomplete line
    pending_bytes = 0
    while position < stop and (data := reader.read(min(_BLOCK_BYTES, stop - position))):
        if seen:
            seen(data)
        at, position = position, position + len(data)
        if at == 0 and data.startswith(_BOM):
            data, at = data[len(_BOM) :], len(_BOM)
        if in_line:
            end = data.find(b"\n") + 1
            if not end:
                continue
            data, at, in_line = data[end:], at + end, False
        end = data.rfind(b"\n") + 1
        if end:
            pending.append(data[:end])
            yield b"".join(pending), at - pending_bytes
            pending, pending_bytes = [], 0
        if end < len(data):
            pending.append(data[end:])
            pending_bytes += len(data) - end
        _check_length(reader.path, position - pending_bytes, pending_bytes)
    reader.num_bytes = position - start
    reader.in_line = in_line or bool(pending)
    if pending:
        _finish_line(reader, pending, position - pending_bytes)
        yield b"".join(pending), position - pending_bytes


def _finish_line(reader: Reader, pending: list[bytes], line_start: int) -> None:
    """Complete `pending`, the beginning of the line that crosses the end of the range, with the rest of this line.

    The bytes after the end of the range are given back, because they are part of the next range.
    """
    beyond: list[bytes] = []
    while data := reader.read(_REST_BYTES):
        beyond.append(data)
        end = data.find(b"\n") + 1
        pending.append(data[:end] if end else data)
        if end:
            break
        _check_length(reader.path, line_start, sum(map(len, pending)))
    reader.give_back(b"".join(beyond))


def _check_length(path: str, line_start: int, num_bytes: int) -> None:
    if num_bytes > MAX_LINE_BYTES:
        raise UsageError(
            f"{path} is not a manifest with one JSON object per line: "
            f"the line at byte {line_start} is longer than {MAX_LINE_BYTES >> 20} MiB"
        )
