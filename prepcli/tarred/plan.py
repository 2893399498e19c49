"""Plan a tarred data set: the records to keep, their order, their shards, and how they are named."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.engine.arrays import Scratch, Values
from prepcli.engine.hashing import Hashes, chunks, have_several, num_distinct
from prepcli.engine.split import Indices, at_group_ends, by_count, by_seconds, gathered, seconds_of, selected, shuffled
from prepcli.errors import RejectReason, UsageError
from prepcli.formats.names import loader_stem, tagged
from prepcli.manifest.columns import key_bytes
from prepcli.manifest.index import ManifestIndex, index_manifests
from prepcli.manifest.parts import Floats
from prepcli.records import file_identity, segment_identity
from prepcli.tarred.options import TarredOptions


@dataclass(frozen=True, slots=True)
class TakenNames:
    """The stems of the members of an existing set, as sorted keys of the index."""

    keys: NDArray[np.uint64]

    @classmethod
    def of_manifest(cls, manifest: Path, num_workers: int) -> "TakenNames":
        """The stems in the set's own manifest."""
        index = index_manifests([str(manifest)], keys={"stem": loader_stem}, num_workers=num_workers)
        return cls(np.sort(index.keys["stem"]))

    def hold(self, stems: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether each of `stems` (their keys) is taken."""
        if not len(self.keys):
            return np.zeros(len(stems), bool)
        found: NDArray[np.bool_] = self.keys[np.searchsorted(self.keys[:-1], stems)] == stems
        return found

    def free(self, stem: str) -> str:
        """The stem, with a suffix if it is taken."""
        found, attempt = stem, 0
        while self.hold(np.frombuffer(key_bytes(found), "<u8"))[0]:
            attempt += 1
            found = tagged(stem, attempt, stem)
        return found


_ARRAYS = ("records", "bounds", "seconds")
"""The arrays of a set."""


@dataclass(slots=True)
class TarSet:
    """One data set below OUT: the whole set, or one static bucket in its own folder.

    `records` are numbers in the index in shard order; shard k is `records[bounds[k]:bounds[k + 1]]`, with `seconds[k]`
    of audio.
    """

    folder: str
    min_duration: float | None
    max_duration: float | None
    records: Indices
    bounds: Indices
    seconds: Floats

    @property
    def num_shards(self) -> int:
        """Number of shards of this set."""
        return len(self.bounds) - 1


@dataclass(frozen=True, slots=True)
class TarredLayout:
    """All sets, the records left out with their reason, and two bits per record that determine member names.

    `ambiguous[i]`: another file's member would have the same stem as record i's.
    `repeated[i]`: the audio of record i goes into more than one shard.
    """

    sets: list[TarSet]
    left_out: list[tuple[RejectReason, Indices]] = field(default_factory=list)
    ambiguous: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    repeated: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    num_same_segment: int = 0
    num_repeated: int = 0

    def to_values(self) -> dict[str, Any]:
        """All of it, as named values and arrays."""
        values: dict[str, Any] = {"ambiguous": self.ambiguous, "repeated": self.repeated}
        for number, one in enumerate(self.sets):
            values |= {f"{name}-{number}": getattr(one, name) for name in _ARRAYS}
        for number, (_, records) in enumerate(self.left_out):
            values[f"left_out-{number}"] = records
        values["sets"] = [[one.folder, one.min_duration, one.max_duration] for one in self.sets]
        values["reasons"] = [reason.value for reason, _ in self.left_out]
        return values | {"num_same_segment": self.num_same_segment, "num_repeated": self.num_repeated}

    @classmethod
    def from_values(cls, values: Values) -> "TarredLayout":
        """The layout of `to_values`."""
        return cls(
            sets=[
                TarSet(folder, low, high, *(values[f"{name}-{number}"] for name in _ARRAYS))
                for number, (folder, low, high) in enumerate(values["sets"])
            ],
            left_out=[
                (RejectReason(reason), values[f"left_out-{number}"]) for number, reason in enumerate(values["reasons"])
            ],
            ambiguous=values["ambiguous"],
            repeated=values["repeated"],
            num_same_segment=values["num_same_segment"],
            num_repeated=values["num_repeated"],
        )


def plan_sets(
    index: ManifestIndex, options: TarredOptions, taken: TakenNames | None = None, scratch: Scratch | None = None
) -> TarredLayout:
    """Divide the records of the index into shards.

    `index.keys` must hold `path` (normal_path), `stem` (member_stem) and `root` (marked_root). `taken` are the names of
    a set to which the records are added.

    Raises:
        UsageError: more shards than records, and the like.
    """
    scratch = scratch or Scratch()
    files = file_identity(index, options.audio_base_dir, scratch)
    low = options.min_duration
    high = options.max_duration
    sets: list[TarSet] = []
    left_out: list[tuple[RejectReason, Indices]] = []
    edges = _bucket_edges(options)
    for number, (start, stop) in enumerate(edges):
        folder = f"bucket{number + 1}/" if options.buckets_num > 1 else ""
        records = _between(index.duration, start, stop, scratch)
        tar_set, dropped = _divide(folder, start, stop, records, index, files, options, scratch)
        sets.append(tar_set)
        if options.remainder == "drop":
            left_out.append((RejectReason.REMAINDER_DROPPED, dropped))
    if low is not None:
        left_out.append((RejectReason.BELOW_MIN_DURATION, _between(index.duration, None, low, scratch)))
    if high is not None:
        left_out.append(
            (RejectReason.ABOVE_MAX_DURATION, _between(index.duration, edges[-1][1] or high, None, scratch))
        )
    return _with_names(sets, left_out, index, files, options, taken, scratch)


def _between(values: NDArray[Any], low: float | None, high: float | None, scratch: Scratch) -> Indices:
    """The positions with `low` <= value < `high`, ascending."""
    count = 0
    result = scratch.empty(len(values), np.int64)
    for chunk in chunks(len(values)):
        keep = np.ones(chunk.stop - chunk.start, bool)
        if low is not None:
            keep &= values[chunk] >= low
        if high is not None:
            keep &= values[chunk] < high
        found = np.flatnonzero(keep) + chunk.start
        result[count : count + len(found)] = found
        count += len(found)
    return result[:count]


def _bucket_edges(options: TarredOptions) -> list[tuple[float | None, float | None]]:
    """[min, max) of each bucket, like NeMo's script: equal widths; the last bucket includes its upper edge."""
    if options.buckets_num == 1 or options.max_duration is None:
        return [(options.min_duration, options.max_duration)]
    low = options.min_duration or 0.0
    width = (options.max_duration - low) / options.buckets_num
    edges = [low + number * width for number in range(options.buckets_num)] + [options.max_duration + 1e-5]
    return list(pairwise(edges))


def _divide(
    folder: str,
    low: float | None,
    high: float | None,
    records: Indices,
    index: ManifestIndex,
    files: NDArray[np.uint64],
    options: TarredOptions,
    scratch: Scratch,
) -> tuple[TarSet, Indices]:
    """Make one set of `records`; also returns the dropped records."""
    where = f" in {folder[:-1]} ({low:g} to {high:g} s)" if folder and low is not None and high is not None else ""
    if not len(records):
        raise UsageError(f"none of the {len(index)} records is between --min-duration and --max-duration{where}")
    if options.shuffle:
        records = selected(records, shuffled(len(records), options.shuffle_seed, scratch), scratch)
    if options.keep_files_together:
        records = selected(records, gathered(selected(files, records, scratch), scratch), scratch)
    dropped = records[:0]
    if options.shard_hours is not None:
        durations = selected(index.duration, records, scratch)
        bounds = by_seconds(durations, options.shard_hours * 3600, scratch)
    else:
        num_shards = options.num_shards or -(-len(records) // (options.shard_size or 1))
        if options.remainder == "drop" and options.shard_size:
            num_shards = len(records) // options.shard_size
        if num_shards > len(records) or num_shards == 0:
            raise UsageError(
                f"{len(records)} usable records{where} cannot fill {options.num_shards or 1} shards"
                + (f" of {options.shard_size}" if options.shard_size else "")
                + "; ask for fewer"
            )
        if options.remainder == "drop":
            size = options.shard_size or len(records) // num_shards
            dropped = np.sort(records[num_shards * size :])
            records = records[: num_shards * size]
        bounds = by_count(len(records), num_shards)
    if options.keep_files_together:
        bounds = at_group_ends(bounds, selected(files, records, scratch))
    if options.sort_in_shards:
        for lo, hi in pairwise(bounds.tolist()):
            shard = records[lo:hi]
            records[lo:hi] = shard[np.argsort(index.duration[shard], kind="stable")]
    return TarSet(folder, low, high, records, bounds, seconds_of(index.duration, records, bounds)), dropped


def _with_names(
    sets: list[TarSet],
    left_out: list[tuple[RejectReason, Indices]],
    index: ManifestIndex,
    files: Hashes,
    options: TarredOptions,
    taken: TakenNames | None,
    scratch: Scratch,
) -> TarredLayout:
    """The layout, with what its records are named by.

    Both of NeMo's loaders must find the right line for a member. The classic one looks members up by stem over the
    whole manifest, not by shard, so a stem must stand for one piece of audio in one shard of the whole set.
    """
    shard = _shard_of(sets, len(index), scratch)
    kept = _between(shard, 0, None, scratch)
    segments = segment_identity(index, files, scratch)
    stems, roots = index.keys["stem"], index.keys["root"]
    if len(kept) < len(index):
        files, segments, stems, roots, shard = (
            selected(column, kept, scratch) for column in (files, segments, stems, roots, shard)
        )
    ambiguous = scratch.zeros(len(kept), bool)
    repeated = scratch.zeros(len(kept), bool)
    if num_distinct(stems) < num_distinct(files):  # a stem follows from its file: equally many, then one to one
        have_several(stems, files, ambiguous)
    stored = segments if options.slice_with_offset else files
    if num_distinct(stored) < len(stored):
        have_several(stored, shard, repeated)
    if roots.any():
        # Between slices, what tells them apart stands between stem and shard.
        chosen = ambiguous.copy() if options.slice_with_offset else ambiguous | repeated
        if taken is not None:
            chosen |= taken.hold(stems)
        ambiguous |= _like_chosen(stems, roots, chosen)
    return TarredLayout(
        sets=sets,
        left_out=left_out,
        ambiguous=_of_all(ambiguous, kept, len(index), scratch),
        repeated=_of_all(repeated, kept, len(index), scratch),
        num_same_segment=len(kept) - num_distinct(segments),
        num_repeated=int(np.count_nonzero(repeated)),
    )


def _shard_of(sets: Sequence[TarSet], num_records: int, scratch: Scratch) -> NDArray[np.int32]:
    """The number of each record's shard through all sets; -1 for a record in none."""
    shard = scratch.empty(num_records, np.int32)
    shard[:] = -1
    number = 0
    for tar_set in sets:
        for lo, hi in pairwise(tar_set.bounds.tolist()):
            shard[tar_set.records[lo:hi]] = number
            number += 1
    return shard


def _of_all(bits: NDArray[np.bool_], kept: Indices, num_records: int, scratch: Scratch) -> NDArray[np.bool_]:
    """Bits of the records `kept` as bits of all records."""
    if len(kept) == num_records:
        return bits
    result = scratch.zeros(num_records, bool)
    for chunk in chunks(len(kept)):
        result[kept[chunk]] = bits[chunk]
    return result


def _like_chosen(stems: Hashes, roots: Hashes, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """For each record: can its own stem equal a name that is made for a record with a `chosen` name?

    Such a name is a stem with suffixes (`x-shard1`), so its root is that stem, or the root of that stem.
    """
    rows = np.flatnonzero(roots)
    families = np.where(roots[chosen] != 0, roots[chosen], stems[chosen])
    like = np.zeros(len(stems), bool)
    like[rows] = np.isin(roots[rows], families)
    return like
