"""Plan a tarred data set: the records to keep, their order, and their shards."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from prepcli.commands.manifest_to_tarred.layout import TarredLayout, TarSet
from prepcli.commands.manifest_to_tarred.options import TarredOptions
from prepcli.commands.manifest_to_tarred.stems import TakenNames, with_names
from prepcli.errors import RejectReason, UsageError
from prepcli.jobs.records import file_identity
from prepcli.manifest.index import ManifestIndex
from prepcli.planning.arrays import Scratch
from prepcli.planning.split import (
    Indices,
    at_group_ends,
    by_count,
    by_seconds,
    gathered,
    positions_between,
    seconds_of,
    selected,
    shuffled,
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
        records = positions_between(index.duration, start, stop, scratch)
        tar_set, dropped = _divide(folder, start, stop, records, index, files, options, scratch)
        sets.append(tar_set)
        if options.remainder == "drop":
            left_out.append((RejectReason.REMAINDER_DROPPED, dropped))
    if low is not None:
        left_out.append((RejectReason.BELOW_MIN_DURATION, positions_between(index.duration, None, low, scratch)))
    if high is not None:
        left_out.append(
            (RejectReason.ABOVE_MAX_DURATION, positions_between(index.duration, edges[-1][1] or high, None, scratch))
        )
    return with_names(sets, left_out, index, files, options, taken, scratch)


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
        limits = (("--min-duration", options.min_duration), ("--max-duration", options.max_duration))
        given = " and ".join(f"{name} {value:g}" for name, value in limits if value is not None)
        raise UsageError(f"none of the {len(index)} records is left by {given or 'the limits'}{where}")
    if options.shuffle:
        records = selected(records, shuffled(len(records), options.shuffle_seed or 0, scratch), scratch)
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
                + ("; lower --num-shards" if options.num_shards else "; lower --shard-size")
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
