"""Plan a Shar data set: the shard and the id of each record, and whether there is context audio."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.commands.manifest_to_shar.options import SharOptions
from prepcli.errors import RecordRejected
from prepcli.jobs.records import hash_segments
from prepcli.manifest.context import CONTEXT_FIELDS
from prepcli.manifest.fields import decode_value, is_skipped, parse_fields
from prepcli.manifest.index import ManifestIndex
from prepcli.manifest.parts import Floats, Ints
from prepcli.planning.arrays import Scratch
from prepcli.planning.hashing import chunks, occurrences
from prepcli.planning.split import Indices, by_count, in_order, seconds_of

_CONTEXT_KEY = b'"context_audio_'
# Below this number of hundredths of a second, float64 resolves the distance to a half to 1e-6.
_EXACT_HUNDREDTHS = 1e9


@dataclass(frozen=True, slots=True)
class SharLayout:
    """Shard k holds the records `order[bounds[k]:bounds[k + 1]]` (numbers in the index), `seconds[k]` of audio.

    `occurrences[i]`: the number of records before record i whose cut has the same id by NeMo's naming.
    `has_context`: some record has a context, so all must have one.
    """

    order: Indices
    bounds: Indices
    seconds: Floats
    occurrences: Ints
    has_context: bool

    def to_values(self) -> dict[str, Any]:
        """All of it, as named values and arrays."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def plan_shards(index: ManifestIndex, options: SharOptions, scratch: Scratch | None = None) -> SharLayout:
    """Divide the index's records, evenly; `index.keys` must hold `recording` (recording_id).

    `index.found` tells whether a line has a context (`names_context`).
    """
    scratch = scratch or Scratch()
    num_records = len(index)
    order = in_order(num_records, options.shuffle_seed if options.shuffle else None, scratch)
    # If every line is a reject, there is one bound and no shard.
    bounds = by_count(num_records, -(-num_records // options.shard_size)) if num_records else np.zeros(1, np.int64)
    seconds = seconds_of(index.duration, order, bounds)
    return SharLayout(order, bounds, seconds, occurrences_of_ids(index, scratch), index.found)


def occurrences_of_ids(index: ManifestIndex, scratch: Scratch | None = None) -> Ints:
    """For each record, the number of earlier ones with the same recording id, offset and duration to 10 ms.

    Ids are made of these, so `(id, occurrence)` is different for any two records. Found by 64-bit hash: if
    two different ids ever share a hash, their records get occurrences that they do not need.
    """
    scratch = scratch or Scratch()
    keys = scratch.empty(len(index), np.uint64)
    for chunk in chunks(len(index)):
        keys[chunk] = hash_segments(
            index.keys["recording"][chunk], hundredths(index.offset[chunk]), hundredths(index.duration[chunk])
        )
    return occurrences(keys, scratch.empty(len(index), np.int64))


def hundredths(seconds: Floats) -> Floats:
    """`seconds` in hundredths, rounded exactly as `format(x, ".2f")` rounds; whole numbers of type float64."""
    scaled = seconds * 100
    rounded: NDArray[np.float64] = np.rint(scaled)
    # Multiplication rounds too: near a half, or beyond the precision of a double, the decimal digits decide.
    doubtful = (np.abs(scaled - np.floor(scaled) - 0.5) < 1e-6) | (scaled > _EXACT_HUNDREDTHS)
    for position in np.flatnonzero(doubtful).tolist():
        rounded[position] = float(f"{seconds[position]:.2f}".replace(".", ""))
    return rounded


def names_context(lines: bytes) -> bool:
    """Whether any of some whole lines that is not skipped has a context; a manifest has them in its first line."""
    return any(map(_has_context_field, _lines_with_key(lines)))


def _lines_with_key(lines: bytes) -> Iterator[bytes]:
    """The lines in which the name of such a field is; searched for at the speed of reading."""
    at = lines.find(_CONTEXT_KEY)
    while at >= 0:
        start = lines.rfind(b"\n", 0, at) + 1
        end = lines.find(b"\n", at)
        end = len(lines) if end < 0 else end
        yield lines[start:end]
        at = lines.find(_CONTEXT_KEY, end)


def _has_context_field(line: bytes) -> bool:
    try:
        fields = parse_fields(line)
    except RecordRejected:
        return False
    named = any(name in fields and decode_value(fields[name]) is not None for name in CONTEXT_FIELDS)
    return named and not is_skipped(fields)
