"""Makes the lines of records with contexts, and statistics of the contexts."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.jobs.records import Records
from prepcli.manifest.context import CHANNEL
from prepcli.manifest.record import Value

FIELDS = {
    "offset": "context_audio_offset",
    "duration": "context_audio_duration",
    "text": "context_audio_text",
    "normalized_text": "context_audio_normalized_text",
    "channel": CHANNEL,
}
"""Fields that are copied from the record of the context, each with its name in the extended record.

They are written after `SIMILARITY` and `PATH`.
"""
SIMILARITY = "context_speaker_similarity"
PATH = "context_audio_filepath"
DIGITS = 6
"""Decimals of a similarity; further decimals would depend on the order of additions."""
CONTEXT_CACHE_SIZE = 4096
SIMILARITY_EDGES = np.round(np.linspace(-1, 1, 101), 2)
OTHER_THRESHOLDS = (0.5, 0.6, 0.7, 0.8)
"""Minimum similarities, besides the chosen one, for which the summary shows how many records they keep."""
COLUMNS = (("similarity", "<f4"), ("duration", "<f4"))
"""Columns that this command adds to the index of a unit's lines (`PartWriter`): similarity, and seconds of context."""


class ContextLines:
    """Makes the manifest lines of records with contexts.

    A cache holds the fields of the last contexts, because several records may have the same context.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        self._added = lru_cache(CONTEXT_CACHE_SIZE)(self._fields_of)

    def line(self, record: int, context: int, similarity: float) -> bytes:
        """The line, with line end, of record number `record`, whose context is record number `context`.

        Context fields of an earlier run are replaced.
        """
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
            if name in other.fields
            and (name not in ("normalized_text", "channel") or bytes(other.fields[name]) != b"null")
        }
        if not other.has_offset:
            added[FIELDS["offset"]] = msgspec.Raw(b"0.0")
        path = self._records.merged_path(context, other.audio_filepath)
        return path, {target: added[target] for target in FIELDS.values() if target in added}


def histograms(indexes: Iterable[NDArray[Any]]) -> dict[str, Any]:
    """Histograms of the records in the output: similarities in steps of 0.02, and seconds of context in steps of 1.

    `indexes`: for each unit, an array with the `COLUMNS` of its lines. The last step of seconds has all contexts of
    30 s or more.
    """
    duration_edges = np.arange(32.0)
    similarity = np.zeros(len(SIMILARITY_EDGES) - 1, np.int64)
    duration = np.zeros(31, np.int64)
    for part in indexes:
        similarity += _counts_of(part["similarity"])
        duration += np.histogram(np.minimum(part["duration"], 30.5), duration_edges)[0]
    return {
        "similarity_histogram": _similarity_histogram(similarity),
        "duration_histogram": {"edges": duration_edges.tolist(), "counts": duration.tolist()},
    }


def histogram_of_all(best: Sequence[Path]) -> dict[str, Any]:
    """A histogram of the similarities to the best other utterance, including records rejected for a low similarity.

    `best`: one file per unit, which holds an array of similarities.
    """
    counts = np.zeros(len(SIMILARITY_EDGES) - 1, np.int64)
    for path in best:
        counts += _counts_of(np.load(path))
    return _similarity_histogram(counts)


def kept_at(best: Sequence[Path], chosen: float) -> str:
    """A text such as `900 at 0.5, 700 at 0.6`: how many records some values of --context-min-ssim keep.

    `chosen`: the value of this run. `best`: one file per unit, which holds an array of similarities.
    """
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
