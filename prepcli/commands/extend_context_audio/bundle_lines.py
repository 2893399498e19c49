"""The lines of records with contexts: written in parts, one per bundle, and merged in the order of the input."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.engine.publishing.output_files import OutputFile
from prepcli.formats.npy import npy_bytes
from prepcli.jobs.records import Records
from prepcli.manifest.record import Value
from prepcli.storage.input_files import read_at

FIELDS = {
    "offset": "context_audio_offset",
    "duration": "context_audio_duration",
    "text": "context_audio_text",
    "normalized_text": "context_audio_normalized_text",
}
"""Fields of the context's record, each with its name in the line; they follow similarity and path."""
SIMILARITY = "context_speaker_similarity"
PATH = "context_audio_filepath"
DIGITS = 6
"""Decimals of a similarity; further decimals would depend on the order of additions."""
CONTEXT_CACHE_SIZE = 4096
SIMILARITY_EDGES = np.round(np.linspace(-1, 1, 101), 2)
OTHER_THRESHOLDS = (0.5, 0.6, 0.7, 0.8)
"""Minimum similarities for which the summary shows the number of records kept."""
CHUNK_RECORDS = 1 << 16
"""Number of records that are sorted at a time."""

PART_DTYPE = np.dtype([("record", "<i8"), ("end", "<i8"), ("similarity", "<f4"), ("duration", "<f4")])
"""The columns of a part's index, for each line: record number, end of the line in the part, similarity, seconds of
context."""


class ContextLines:
    """Writes the lines of records with contexts; the fields of a repeated context are encoded once."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._added = lru_cache(CONTEXT_CACHE_SIZE)(self._fields_of)

    def line(self, record: int, context: int, similarity: float) -> bytes:
        """The line of the record, with line end. Context fields of an earlier run are replaced."""
        path, added = self._added(context)
        entry = self._records.record(record)
        changes = self._records.merged_changes(record, entry)
        changes |= {SIMILARITY: round(similarity, DIGITS), PATH: path, **added}
        stale = [name for name in FIELDS.values() if name not in added]
        return entry.to_json(changes, stale) + b"\n"

    def _fields_of(self, context: int) -> tuple[str, dict[str, Value]]:
        other = self._records.record(context)
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
    """Collects the lines of a bundle in the order of the records, with the index for merging."""

    def __init__(self, lines: OutputFile) -> None:
        self._lines = lines
        self._rows: list[tuple[int, int, float, float]] = []

    def add(self, record: int, line: bytes, similarity: float, duration: float) -> None:
        """Append a line; `duration` is that of the context in seconds."""
        self._lines.write(line)
        self._rows.append((record, self._lines.num_bytes, similarity, duration))

    def index(self) -> bytes:
        """The index of the part in the format `.npy`."""
        return npy_bytes(np.array(self._rows, PART_DTYPE))


def merged_lines(parts: Sequence[tuple[Path, Path]]) -> Iterator[bytes]:
    """Blocks of lines of all parts (lines, index), in the order of the records.

    Each part is already in this order, so the lines of a range of records are contiguous in each part. They are read
    from all parts, and sorted together. Memory: 8 bytes per record, and the lines of `CHUNK_RECORDS` records.
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
        data = read_at(file.fileno(), ends[-1] - begin, begin)
    at = 0
    for record, end in zip(index["record"][lo:hi].tolist(), ends, strict=True):
        yield record, data[at : end - begin]
        at = end - begin


def histograms(indices: Sequence[Path]) -> dict[str, Any]:
    """Counts of similarities (steps of 0.02) and of context durations (steps of 1 s; the last step is above 30 s)."""
    duration_edges = np.arange(32.0)
    similarity = np.zeros(len(SIMILARITY_EDGES) - 1, np.int64)
    duration = np.zeros(31, np.int64)
    for path in indices:
        part = np.load(path)
        similarity += _counts_of(part["similarity"])
        duration += np.histogram(np.minimum(part["duration"], 30.5), duration_edges)[0]
    return {
        "similarity_histogram": _similarity_histogram(similarity),
        "duration_histogram": {"edges": duration_edges.tolist(), "counts": duration.tolist()},
    }


def histogram_of_all(best: Sequence[Path]) -> dict[str, Any]:
    """Counts of the similarities to the best other utterance, including those of rejected records."""
    counts = np.zeros(len(SIMILARITY_EDGES) - 1, np.int64)
    for path in best:
        counts += _counts_of(np.load(path))
    return _similarity_histogram(counts)


def kept_at(best: Sequence[Path], chosen: float) -> str:
    """The numbers of records that some values of --context-min-ssim keep, including the `chosen` value."""
    thresholds = sorted({*OTHER_THRESHOLDS, chosen})
    counts = np.zeros(len(thresholds), np.int64)
    for path in best:
        similarity = np.sort(np.load(path))
        counts += len(similarity) - np.searchsorted(similarity, thresholds)
    return ", ".join(f"{count:,} at {threshold:g}" for threshold, count in zip(thresholds, counts, strict=True))


def _counts_of(similarity: NDArray[Any]) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.histogram(np.clip(similarity, -1, 1), SIMILARITY_EDGES)[0]
    return counts


def _similarity_histogram(counts: NDArray[np.int64]) -> dict[str, Any]:
    first = int(np.flatnonzero(counts)[0]) if counts.any() else 0
    return {"edges": SIMILARITY_EDGES[first:].tolist(), "counts": counts[first:].tolist()}
