"""Lines in, NumPy columns out: the inner loop of every reader of manifests."""

from hashlib import blake2b
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np

from prepcli.errors import RecordRejected
from prepcli.manifest.fields import is_skipped, parse_fields
from prepcli.manifest.parts import Columns, Floats, Ints, Part, Problem
from prepcli.manifest.record import Record


class _NemoLine(msgspec.Struct):
    """The fields that decide whether a line is usable; msgspec checks the rest of its syntax and drops it."""

    audio_filepath: str
    duration: float
    offset: float | None = 0.0
    skipme: Any = msgspec.field(default=None, name="_skipme")


class _CutLine(msgspec.Struct):
    duration: float


class _Values(NamedTuple):
    """One block's or one line's values, equally long; `paths` only where keys are asked for."""

    duration: list[float]
    offset: list[float]
    paths: list[str]


_skipme = attrgetter("skipme")
_decode_nemo = msgspec.json.Decoder(_NemoLine).decode
_decode_cut = msgspec.json.Decoder(_CutLine).decode


class LineBlocks:
    """Gathers the columns of a range, block of lines by block of lines."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.num_lines = 0
        self.num_skipped = 0
        self.num_problems = 0
        self.gaps: list[int] = []
        self.problems: list[Problem] = []
        self._starts: list[Ints] = []
        self._lengths: list[Ints] = []
        self._durations: list[Floats] = []
        self._offsets: list[Floats] = []
        self._hashes: dict[str, list[bytes]] = {name: [] for name, _ in columns.keys}

    def add(self, data: bytes, at: int) -> None:
        """Take whole lines, the first of which begins at byte `at` of the file."""
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        self._add_lines(lines, data, at)

    def finish(self, digest: bytes, num_bytes: int) -> Part:
        """The columns of all blocks."""
        return Part(
            digest=digest,
            num_bytes=num_bytes,
            num_lines=self.num_lines,
            num_skipped=self.num_skipped,
            num_problems=self.num_problems,
            start=np.concatenate([np.empty(0, np.int64), *self._starts]),
            length=np.concatenate([np.empty(0, np.int64), *self._lengths]).astype(np.int32),
            duration=np.concatenate([np.empty(0), *self._durations]),
            offset=np.concatenate([np.empty(0), *self._offsets]),
            keys={name: np.frombuffer(b"".join(hashes), "<u8") for name, hashes in self._hashes.items()},
            gaps=self.gaps,
            problems=self.problems,
        )

    def _add_lines(self, lines: list[bytes], data: bytes, at: int) -> None:
        values = self._read_fast(lines, data)
        if values is not None:
            self._keep(values, lines, at)
            self.num_lines += len(lines)
        elif len(lines) == 1:
            self._add_odd_line(lines[0], at)
        else:
            # Something in the block wants a closer look: halve it until only the odd lines are left.
            middle = len(lines) // 2
            for half in (lines[:middle], lines[middle:]):
                joined = b"\n".join(half)
                self._add_lines(half, joined, at)
                at += len(joined) + 1

    def _read_fast(self, lines: list[bytes], data: bytes) -> _Values | None:
        """The values of lines that are all usable beyond doubt; None otherwise (then `Record` decides)."""
        try:
            if not data.isascii():
                data.decode("utf-8")
            if self.columns.cuts:
                duration = [_decode_cut(line).duration for line in lines]
                return _Values(duration, [], []) if min(duration) > 0 else None
            records = [_decode_nemo(line) for line in lines]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        duration = [record.duration for record in records]
        offset = [record.offset or 0.0 for record in records]
        paths = [record.audio_filepath for record in records]
        if not (min(duration) > 0 and min(offset) >= 0 and all(paths)) or b"\\u0000" in data:
            return None
        if any(map(_skipme, records)):
            return None
        return _Values(duration, offset, paths)

    def _add_odd_line(self, line: bytes, at: int) -> None:
        values = None
        try:
            values = _read_odd_line(line, self.columns.cuts)
            self.num_skipped += values is None and bool(line.strip())
        except RecordRejected as rejected:
            self.num_problems += 1
            if self.columns.spans or not self.problems:
                length = len(line.rstrip(b"\r"))
                problem = Problem(0, self.num_lines, at, length, rejected.reason, rejected.detail)
                self.problems.append(problem)
        if values is not None:
            self._keep(values, [line], at)
        elif self.columns.spans:
            self.gaps.append(self.num_lines)
        self.num_lines += 1

    def _keep(self, values: _Values, lines: list[bytes], at: int) -> None:
        self._durations.append(np.array(values.duration, np.float64))
        if self.columns.spans:
            lengths = np.fromiter(map(len, lines), np.int64, len(lines))
            starts = np.empty(len(lines), np.int64)
            starts[0] = at
            np.cumsum(lengths[:-1] + 1, out=starts[1:])
            starts[1:] += at
            self._starts.append(starts)
            self._lengths.append(lengths)
            self._offsets.append(np.array(values.offset, np.float64))
        for name, function in self.columns.keys:
            self._hashes[name].append(b"".join([_hash(function(path)) for path in values.paths]))


def _read_odd_line(line: bytes, cut: bool) -> _Values | None:
    """One line, slowly and by the rules of `Record`; None: passed over (blank, or asks for it)."""
    if not line.strip():
        return None
    fields = parse_fields(line)
    if cut:
        from prepcli.manifest.cuts import cut_duration

        return _Values([cut_duration(fields)], [], [])
    if is_skipped(fields):
        return None
    record = Record(fields)
    return _Values([record.duration], [record.offset], [record.audio_filepath])


def hash64(text: str) -> int:
    """The 64-bit hash that the index keeps of a key: the same on every machine and in every process."""
    return int.from_bytes(_hash(text), "little")


def _hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
