"""Plan a tarred data set: the records to keep, their order, their shards, and how they are named."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prepcli.engine.split import Indices, at_group_ends, by_count, by_seconds, gathered, shuffled
from prepcli.errors import RejectReason, UsageError
from prepcli.formats.names import loader_stem, tagged
from prepcli.hashing import have_several, num_distinct
from prepcli.manifest.columns import key_bytes
from prepcli.manifest.index import ManifestIndex, index_manifests
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


@dataclass(slots=True)
class TarSet:
    """One data set below OUT: the whole set, or one static bucket in its own folder.

    `records` are numbers in the index in shard order; shard k is `records[bounds[k]:bounds[k + 1]]`.
    """

    folder: str
    min_duration: float | None
    max_duration: float | None
    records: Indices
    bounds: Indices

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


def plan_sets(index: ManifestIndex, options: TarredOptions, taken: TakenNames | None = None) -> TarredLayout:
    """Divide the records of the index into shards.

    `index.keys` must hold `path` (normal_path), `stem` (member_stem) and `root` (marked_root). `taken` are the names of
    a set to which the records are added.

    Raises:
        UsageError: more shards than records, and the like.
    """
    files = file_identity(index, options.audio_base_dir)
    low = options.min_duration
    high = options.max_duration
    sets: list[TarSet] = []
    left_out: list[tuple[RejectReason, Indices]] = []
    edges = _bucket_edges(options)
    for number, (start, stop) in enumerate(edges):
        keep = np.ones(len(index), bool)
        if start is not None:
            keep &= index.duration >= start
        if stop is not None:
            keep &= index.duration < stop
        folder = f"bucket{number + 1}/" if options.buckets_num > 1 else ""
        records = np.flatnonzero(keep)
        tar_set, dropped = _divide(folder, start, stop, records, index, files, options)
        sets.append(tar_set)
        if options.remainder == "drop":
            left_out.append((RejectReason.REMAINDER_DROPPED, dropped))
    if low is not None:
        left_out.append((RejectReason.BELOW_MIN_DURATION, np.flatnonzero(index.duration < low)))
    if high is not None:
        above = index.duration >= (edges[-1][1] or high)
        left_out.append((RejectReason.ABOVE_MAX_DURATION, np.flatnonzero(above)))
    return TarredLayout(sets, left_out, *_name_members(sets, index, files, options, taken))


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
) -> tuple[TarSet, Indices]:
    """Make one set of `records`; also returns the dropped records."""
    where = f" in {folder[:-1]} ({low:g} to {high:g} s)" if folder and low is not None and high is not None else ""
    if not len(records):
        raise UsageError(f"none of the {len(index)} records is between --min-duration and --max-duration{where}")
    if options.shuffle:
        records = records[shuffled(len(records), options.shuffle_seed)]
    if options.keep_files_together:
        records = records[gathered(files[records])]
    dropped = records[:0]
    durations = index.duration[records]
    if options.shard_hours is not None:
        bounds = by_seconds(durations, options.shard_hours * 3600)
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
        bounds = at_group_ends(bounds, files[records])
    if options.sort_in_shards:
        shard = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        records = records[np.lexsort((index.duration[records], shard))]
    return TarSet(folder, low, high, records, bounds), dropped


def _name_members(
    sets: Sequence[TarSet],
    index: ManifestIndex,
    files: NDArray[np.uint64],
    options: TarredOptions,
    taken: TakenNames | None,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], int]:
    """`ambiguous`, `repeated` and `num_same_segment` of the layout.

    Both of NeMo's loaders must find the right line for a member. The classic one looks members up by stem over the
    whole manifest, not by shard, so a stem must stand for one piece of audio in one shard of the whole set.
    """
    ambiguous = np.zeros(len(index), bool)
    repeated = np.zeros(len(index), bool)
    records = np.concatenate([tar_set.records for tar_set in sets])
    segments = segment_identity(index, files)[records]
    files = files[records]
    num_same_segment = len(records) - num_distinct(segments)
    stems = index.keys["stem"][records]
    if num_distinct(stems) < num_distinct(files):  # a stem follows from its file: equally many, then one to one
        ambiguous[records] = have_several(stems, files)
    stored = segments if options.slice_with_offset else files
    if num_distinct(stored) < len(stored):
        sizes = np.concatenate([np.diff(tar_set.bounds) for tar_set in sets])
        shards = np.repeat(np.arange(len(sizes)), sizes).astype(np.uint64)
        repeated[records] = have_several(stored, shards)
    roots = index.keys["root"][records]
    if roots.any():
        chosen = ambiguous[records]
        if not options.slice_with_offset:  # there, what tells the slices apart stands between stem and shard
            chosen = chosen | repeated[records]
        if taken is not None:
            chosen = chosen | taken.hold(stems)
        ambiguous[records] |= _like_chosen(stems, roots, chosen)
    return ambiguous, repeated, num_same_segment


def _like_chosen(stems: NDArray[np.uint64], roots: NDArray[np.uint64], chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """For each record: can its own stem equal a name that is made for a record with a `chosen` name?

    Such a name is a stem with suffixes (`x-shard1`), so its root is that stem, or the root of that stem.
    """
    families = np.where(roots != 0, roots, stems)
    like: NDArray[np.bool_] = (roots != 0) & np.isin(families, families[chosen])
    return like
