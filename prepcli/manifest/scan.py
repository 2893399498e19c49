"""Read a manifest in fixed, independent byte ranges, so that many processes can share one huge file.

A range is 16 MiB of the file, whoever reads it (2 MiB where no digest is wanted); a line belongs to the range in which
it begins.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from prepcli.errors import FAULTS_OF_THE_MACHINE, UsageError, named
from prepcli.manifest.columns import LineBlocks
from prepcli.manifest.parquet_rows import open_rows
from prepcli.manifest.parts import Columns, Part
from prepcli.manifest.sources import is_gzip, open_bytes

RANGE_BYTES = 16 << 20
MAX_LINE_BYTES = 64 << 20
INLINE_BYTES = 8 << 20
"""For fewer bytes than this, starting workers takes longer than reading; compressed files count eight times."""
_BLOCK_BYTES = 256 << 10
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes `start` to `stop` of a file; `stop` None: the whole of it, however long (compressed files, Parquet)."""

    path: str
    start: int
    stop: int | None


def ranges_of(path: str, num_bytes: int, short: bool = False) -> list[Range]:
    """The ranges of one file of `num_bytes` bytes; a compressed one can only be read from its start.

    `short`: an eighth as long, so that workers end together. Only without a digest, which needs whole ranges.
    """
    if is_gzip(path):
        return [Range(path, 0, None)]
    step = max(RANGE_BYTES // 8, 1) if short else RANGE_BYTES
    return [Range(path, start, min(start + step, num_bytes)) for start in range(0, num_bytes, step)]


def workers_for(files: Iterable[tuple[str, int]], num_workers: int) -> int:
    """The number of processes to read `files` (path, bytes): `num_workers`, or one if that is faster."""
    return num_workers if sum(size * (8 if is_gzip(path) else 1) for path, size in files) >= INLINE_BYTES else 1


def scan(part: Range, columns: Columns) -> Iterator[Part]:
    """Read one range: the lines that begin in it, as one `Part`; of a compressed file a `Part` for each 16 MiB.

    Raises `UsageError` when a compressed file is damaged or cut short, or a line is longer than 64 MiB.
    """
    with open_rows(part.path, columns) if columns.parquet else open_bytes(part.path) as file:
        reader = Reader(part.path, file)
        if part.stop is not None:
            yield _scan_range(reader, part.start, part.stop, reader.begin_at(part.start), columns)
        else:
            yield from scan_all(reader, columns)


def scan_all(reader: "Reader", columns: Columns) -> Iterator[Part]:
    """Read from the start to the end, a `Part` for each 16 MiB; raises as `scan` does."""
    start, in_line = 0, False
    while data := reader.read(1):
        reader.give_back(data)
        yield _scan_range(reader, start, start + RANGE_BYTES, in_line, columns)
        start += RANGE_BYTES
        in_line = reader.in_line


class Reader:
    """Reads a file sequentially; bytes read beyond a range can be returned for the next one.

    `num_bytes`: the bytes of the last range; `in_line`: it ended inside a line.
    """

    def __init__(self, path: str, file: BinaryIO) -> None:
        self.path = path
        self.num_bytes = 0
        self.in_line = False
        self._file = file
        self._kept = b""

    def begin_at(self, start: int) -> bool:
        """Go to byte `start` and return whether it is inside a line; a compressed file starts at 0."""
        if not start:
            return False
        self._file.seek(start - 1)
        return self.read(1) != b"\n"

    def read(self, num_bytes: int) -> bytes:
        """Up to `num_bytes` bytes, none at the end; raises `UsageError` for damaged compressed data."""
        if self._kept:
            data, self._kept = self._kept[:num_bytes], self._kept[num_bytes:]
            return data
        try:
            return self._file.read(num_bytes)
        except EOFError:
            raise UsageError(f"{self.path} is cut short: its compressed data end too early; make it again") from None
        except OSError as error:
            if not is_gzip(self.path) or error.errno in FAULTS_OF_THE_MACHINE:
                raise named(error, self.path) from None
            raise UsageError(
                f"{self.path} is damaged or not a gzip file: {error}; make it again, or take .gz off its name"
            ) from None
        except Exception as error:
            if type(error).__module__ != "zlib":  # zlib.error, without importing zlib
                raise
            raise UsageError(f"{self.path} is damaged: {error}; make it again") from None

    def read_all(self, num_bytes: int) -> bytes:
        """`num_bytes` bytes, fewer only at the end; raises as `read` does."""
        found = self.read(num_bytes)
        while len(found) < num_bytes and (more := self.read(num_bytes - len(found))):
            found += more
        return found

    def give_back(self, data: bytes) -> None:
        """Return `data` first in the next `read`."""
        self._kept = data + self._kept


def _scan_range(reader: Reader, start: int, stop: int, in_line: bool, columns: Columns) -> Part:
    """Read from `start`; `in_line`: the first bytes belong to a line of an earlier range."""
    digest = hashlib.sha256() if columns.digest else None
    blocks = LineBlocks(columns)
    found = columns.looks_for is None
    for data, at in _whole_lines(reader, start, stop, in_line, digest.update if digest else None):
        blocks.add(data, at)
        found = found or (columns.looks_for is not None and columns.looks_for(data))
    part = blocks.finish(digest.digest() if digest else b"", reader.num_bytes)
    part.found = found and columns.looks_for is not None
    return part


def lines_of(part: Range) -> Iterator[bytes]:
    """The lines that begin in one range (of a compressed file: all), without newlines; raises as `scan` does.

    Blank lines are among them, so that a caller can count. `manifest.lines.read_line` makes a record of a line.
    """
    for block in blocks_of(part):
        yield from block.removesuffix(b"\n").split(b"\n")


def blocks_of(part: Range) -> Iterator[bytes]:
    """The same lines in blocks of many, with their newlines, for what handles many at once."""
    with open_bytes(part.path) as file:
        reader = Reader(part.path, file)
        in_line = reader.begin_at(part.start)
        stop = sys.maxsize if part.stop is None else part.stop
        for data, _ in _whole_lines(reader, part.start, stop, in_line, None):
            yield data


def _whole_lines(
    reader: Reader, start: int, stop: int, in_line: bool, seen: Callable[[bytes], None] | None
) -> Iterator[tuple[bytes, int]]:
    """Blocks of whole lines, each with the byte that it begins at; `seen` gets all bytes from `start` to `stop`."""
    position = start
    pending: list[bytes] = []  # the pieces of an unfinished line
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
    """Read to the end of the line that crosses the end of the range; the next range contains those bytes as well."""
    beyond: list[bytes] = []
    while data := reader.read(_BLOCK_BYTES):
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
