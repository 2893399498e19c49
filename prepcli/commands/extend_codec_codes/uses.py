"""The segments that are targets or contexts of records, and the owner of each: the record whose unit encodes it.

Several records may use the same segment, which is encoded once.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prepcli.errors import RecordRejected
from prepcli.formats.plain_codes import codes_file, codes_stem
from prepcli.formats.shar import CONTEXT, TARGET
from prepcli.jobs.record_job import RecordUnit, units_of
from prepcli.jobs.records import Records
from prepcli.manifest.context import context_channel, context_of
from prepcli.manifest.record import Record
from prepcli.planning.hashing import Hashes, have_several
from prepcli.planning.split import Indices

FIELDS = (TARGET, CONTEXT)
MAX_RECORDS = 4096
"""Maximum number of records per unit. Up to two files of codes are written per record: for target and context."""


class Use(NamedTuple):
    """A segment as a record names it: `path` is absolute, `offset` and `duration` are in seconds.

    `channel` is the value in the record, unchecked.
    """

    path: str
    offset: float
    duration: float
    channel: Any

    @property
    def key(self) -> int:
        """A 64-bit hash of the path, the offset, the duration and the channel; never 0."""
        return _hash(self.path, repr((self.offset, self.duration, self.channel))) or 1


def _hash(*parts: str) -> int:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def target_of(records: Records, number: int, record: Record) -> Use:
    """The segment that is the target of a record."""
    path = records.audio_path(number, record.audio_filepath)
    return Use(path, record.offset, record.duration, record.get("channel"))


def context_use(records: Records, number: int, record: Record) -> Use | None:
    """The segment that is the context of a record; None if it has no context.

    Raises:
        RecordRejected: the fields of the context are invalid.
    """
    context = context_of(record, required=False)
    if context is None:
        return None
    path = records.audio_path(number, context.audio_filepath)
    return Use(path, context.offset, context.duration, context_channel(record))


@dataclass(frozen=True, slots=True)
class SegmentTable:
    """Facts about the targets and contexts of all records that are needed before the first segment is encoded.

    For N records, arrays have the shape (2, N): row 0 has the targets, row 1 the contexts.

    Attributes:
        keys: `Use.key`; 0 if the record has no target or no context.
        owners: the number of the record whose unit encodes the segment: the first record that has it as target or, if
            there is none, as context. -1 if the key is 0.
        num_uses: how many times records use the segment, as target or context; -1 if the key is 0.
        is_one_of_several: whether other segments of the same file are used.
        is_namesake: whether another file has the same `codes_stem`.
        seconds: seconds of the context of each record, shape (N,).
    """

    keys: Hashes
    owners: Indices
    num_uses: Indices
    is_one_of_several: NDArray[np.bool_]
    is_namesake: NDArray[np.bool_]
    seconds: NDArray[np.float64]

    @property
    def num_segments(self) -> int:
        """The number of different segments, which is the number of files of codes."""
        records = np.arange(self.keys.shape[1])
        owned = (self.owners == records) & (self.keys != 0)
        return int(owned.sum() - (owned[0] & owned[1] & (self.keys[0] == self.keys[1])).sum())

    def file_of(self, codec: str, use: Use, base_dir: str, field: int, number: int) -> str:
        """The name of the file of codes of record `number`'s target (`field` 0) or context (`field` 1)."""
        return codes_file(
            codec,
            codes_stem(use.path, base_dir),
            other_of=use.path if self.is_namesake[field, number] else None,
            segment=(use.offset, use.duration) if self.is_one_of_several[field, number] else None,
            channel=use.channel if type(use.channel) is int else None,
        )


def read_uses(records: Records) -> SegmentTable:
    """Read every record once, and tabulate the segments.

    This takes up to 300 bytes of memory per record; the returned table takes 60.
    """
    shape = (2, len(records))
    keys, files, stems = (np.zeros(shape, np.uint64) for _ in range(3))
    seconds = np.zeros(len(records))
    for number in range(len(records)):
        for field, use in enumerate(_uses(records, number)):
            if use is not None:
                keys[field, number] = use.key
                files[field, number] = _hash(use.path)
                stems[field, number] = _hash(codes_stem(use.path, records.base_dir(number)))
                seconds[number] = use.duration if field else 0.0
    return _tabulate(keys, files, stems, seconds)


def _uses(records: Records, number: int) -> "Iterator[Use | None]":
    """Yield the target of a record, then its context; None instead of the context if the record has none.

    If the record will be rejected, stop before the invalid item: yield nothing, or only the target.
    """
    try:
        record = Record.parse(records.line(number))
        yield target_of(records, number, record)
        yield context_use(records, number, record)
    except RecordRejected:
        return


def _tabulate(keys: Hashes, files: Hashes, stems: Hashes, seconds: NDArray[np.float64]) -> SegmentTable:
    num_records = keys.shape[1]
    used = np.flatnonzero(keys.ravel())  # targets come first, so an owner has the segment as its target if possible
    owners, num_uses = (np.full(2 * num_records, -1, np.int64) for _ in range(2))
    several, namesake = (np.zeros(2 * num_records, bool) for _ in range(2))
    _, first, inverse, counts = np.unique(
        keys.ravel()[used], return_index=True, return_inverse=True, return_counts=True
    )
    owners[used] = used[first][inverse] % max(1, num_records)
    num_uses[used] = counts[inverse]
    several[used] = have_several(files.ravel()[used], keys.ravel()[used])
    namesake[used] = have_several(stems.ravel()[used], files.ravel()[used])
    shape = (2, num_records)
    return SegmentTable(
        keys,
        owners.reshape(shape),
        num_uses.reshape(shape),
        several.reshape(shape),
        namesake.reshape(shape),
        seconds,
    )


def group_records(records: Records, table: SegmentTable | None, seconds: float) -> list[RecordUnit]:
    """Divide consecutive records into units with at least `seconds` of audio to encode, or with `MAX_RECORDS` records.

    Without `table`, only the seconds of targets are counted. The last unit may be smaller. The units, and so the
    batches, depend only on the input and the settings.
    """
    durations, numbers = records.index.duration, np.arange(len(records))
    costs = durations if table is None else durations + np.where(table.owners[1] == numbers, table.seconds, 0.0)
    bounds, total = [0], 0.0
    for number, cost in enumerate(costs.tolist()):
        total += cost
        if total >= seconds or number + 1 - bounds[-1] >= MAX_RECORDS:
            bounds.append(number + 1)
            total = 0.0
    if len(records) > bounds[-1]:
        bounds.append(len(records))
    seconds_of_groups = [float(durations[lo:hi].sum()) for lo, hi in pairwise(bounds)]
    return units_of("records", bounds, seconds_of_groups, make=RecordUnit)
