"""The lines of records with their contexts: written in parts, one per bundle, and merged in the order of the input."""

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.engine.publish import HashedFile
from prepcli.formats.npy import npy_bytes
from prepcli.manifest.record import Record, Value
from prepcli.records import Records

FIELDS = {
    "offset": "context_audio_offset",
    "duration": "context_audio_duration",
    "text": "context_audio_text",
    "normalized_text": "context_audio_normalized_text",
}
"""Fields of the other record, and what they are called in the line, after similarity and path."""
SIMILARITY = "context_speaker_similarity"
PATH = "context_audio_filepath"
DIGITS = 6
"""Decimals of a similarity. Beyond them the order of additions would show."""
CONTEXT_CACHE_SIZE = 4096
CHUNK_RECORDS = 1 << 16
"""Records that are put in order at a time."""

PART_DTYPE = np.dtype([("record", "<i8"), ("end", "<i8"), ("similarity", "<f4"), ("duration", "<f4")])
"""Of each line of a part: the record's number, where the line ends in the part, similarity, seconds of the context."""


class ContextLines:
    """Writes the lines of records with their contexts; what a popular context adds is made once."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._added = lru_cache(CONTEXT_CACHE_SIZE)(self._fields_of)

    def line(self, record: int, context: int, similarity: float) -> bytes:
        """The record's line, with line end. Fields of an earlier run's context are replaced."""
        path, added = self._added(context)
        entry = Record.parse(self._records.line(record))
        changes = self._records.merged_changes(record, entry)
        changes |= {SIMILARITY: round(similarity, DIGITS), PATH: path, **added}
        stale = [name for name in FIELDS.values() if name not in added]
        return entry.to_json(changes, stale) + b"\n"

    def _fields_of(self, context: int) -> tuple[str, dict[str, Value]]:
        other = Record.parse(self._records.line(context))
        added: dict[str, Value] = {
            target: other.fields[name]
            for name, target in FIELDS.items()
            if name in other.fields and (name != "normalized_text" or bytes(other.fields[name]) != b"null")
        }
        if not other.has_offset:
            added[FIELDS["offset"]] = msgspec.Raw(b"0.0")
        path = self._records.merged_path(context, other.audio_filepath)
        return path, {target: added[target] for target in FIELDS.values() if target in added}


class PartWriter:
    """Collects the lines of a bundle, in the order of the records, with what merging needs."""

    def __init__(self, lines: HashedFile) -> None:
        self._lines = lines
        self._rows: list[tuple[int, int, float, float]] = []

    def add(self, record: int, line: bytes, similarity: float, duration: float) -> None:
        """Append a line; `duration` is the context's, in seconds."""
        self._lines.write(line)
        self._rows.append((record, self._lines.num_bytes, similarity, duration))

    def index(self) -> bytes:
        """The part's index, as `.npy`."""
        return npy_bytes(np.array(self._rows, PART_DTYPE))


def merged_lines(parts: Sequence[tuple[Path, Path]]) -> Iterator[bytes]:
    """Blocks of lines of all parts (lines, index), in the order of the records.

    Each part is in that order already. Of every part the lines of a range of records lie together; those are read,
    and put in order for all parts at once. Memory: 8 bytes a record, and the lines of `CHUNK_RECORDS` records.
    """
    indices = [np.load(index, mmap_mode="r") for _, index in parts]
    numbers = [np.ascontiguousarray(index["record"]) for index in indices]
    last = max((int(one[-1]) for one in numbers if len(one)), default=-1)
    for start in range(0, last + 1, CHUNK_RECORDS):
        found: dict[int, bytes] = {}
        for (path, _), index, number in zip(parts, indices, numbers, strict=True):
            lo, hi = np.searchsorted(number, (start, start + CHUNK_RECORDS))
            if lo < hi:
                found.update(_lines(path, index, int(lo), int(hi)))
        if found:
            yield b"".join(found[record] for record in sorted(found))


def _lines(path: Path, index: NDArray[Any], lo: int, hi: int) -> Iterator[tuple[int, bytes]]:
    ends = index["end"][lo:hi].tolist()
    begin = int(index["end"][lo - 1]) if lo else 0
    with path.open("rb") as file:
        data = os.pread(file.fileno(), ends[-1] - begin, begin)
    at = 0
    for record, end in zip(index["record"][lo:hi].tolist(), ends, strict=True):
        yield record, data[at : end - begin]
        at = end - begin


def histograms(indices: Sequence[Path]) -> dict[str, Any]:
    """Counts of similarities (steps of 0.02) and of context durations (steps of 1 s; the last takes all above 30 s)."""
    similarity_edges = np.round(np.linspace(-1, 1, 101), 2)
    duration_edges = np.arange(32.0)
    similarity = np.zeros(100, np.int64)
    duration = np.zeros(31, np.int64)
    for path in indices:
        part = np.load(path)
        similarity += np.histogram(np.clip(part["similarity"], -1, 1), similarity_edges)[0]
        duration += np.histogram(np.minimum(part["duration"], 30.5), duration_edges)[0]
    first = int(np.flatnonzero(similarity)[0]) if similarity.any() else 0
    return {
        "similarity_histogram": {"edges": similarity_edges[first:].tolist(), "counts": similarity[first:].tolist()},
        "duration_histogram": {"edges": duration_edges.tolist(), "counts": duration.tolist()},
    }
