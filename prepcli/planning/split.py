"""Assigns records to shards with arrays: the order of the records, and the boundaries of the shards in this order."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.errors import UsageError, option
from prepcli.interface.printing import number_of
from prepcli.planning.arrays import Scratch
from prepcli.planning.hashing import GOLDEN, chunks, groups_of, mix64

Indices = NDArray[np.int64]


def shuffled(num_records: int, seed: int, scratch: Scratch) -> Indices:
    """The numbers 0..num_records-1 in a random order, which depends on `seed` but not on the machine or NumPy.

    Each number gets a 64-bit key from SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
    2014), and the numbers are sorted by their keys. NumPy's own generators may change their streams between versions.
    """
    keys = scratch.empty(num_records, np.uint64)
    with np.errstate(over="ignore"):
        added = np.uint64(seed % 2**64) * np.uint64(0xD1342543DE82EF95)
        for chunk in chunks(num_records):
            keys[chunk] = mix64(np.arange(chunk.start + 1, chunk.stop + 1, dtype=np.uint64) * GOLDEN + added)
    order = scratch.empty(num_records, np.int64)
    done = 0
    for positions in groups_of(keys):  # groups come in ascending order of their keys
        order[done : done + len(positions)] = positions[np.argsort(keys[positions], kind="stable")]
        done += len(positions)
    return order


def in_order(num_records: int, seed: int | None, scratch: Scratch) -> Indices:
    """The numbers 0..num_records-1 of the records, shuffled with `seed`; in ascending order if `seed` is None."""
    if seed is not None:
        return shuffled(num_records, seed, scratch)
    order = scratch.empty(num_records, np.int64)
    for chunk in chunks(num_records):
        order[chunk] = np.arange(chunk.start, chunk.stop)
    return order


def selected(values: NDArray[Any], positions: Indices, scratch: Scratch) -> NDArray[Any]:
    """`values[positions]`, computed piece by piece into an array of `scratch`."""
    result = scratch.empty(len(positions), values.dtype)
    for chunk in chunks(len(positions)):
        result[chunk] = values[positions[chunk]]
    return result


def seconds_of(durations: NDArray[np.float64], order: Indices, bounds: Indices) -> NDArray[np.float64]:
    """The seconds of audio in each shard; shape (shards,).

    Shard `k` has the records `order[bounds[k]:bounds[k + 1]]`; `durations` has the seconds of each record.
    """
    return np.array([durations[order[lo:hi]].sum() for lo, hi in pairwise(bounds.tolist())], np.float64)


def by_count(num_records: int, num_shards: int) -> Indices:
    """The boundaries, shape (num_shards + 1,), of shards whose numbers of records differ by at most one."""
    return (np.arange(num_shards + 1, dtype=np.int64) * num_records + num_shards - 1) // num_shards


def by_seconds(durations: NDArray[np.float64], seconds: float, scratch: Scratch | None = None) -> Indices:
    """The boundaries, shape (shards + 1,), of shards with about `seconds` of audio and at least one record each.

    The total is divided evenly, so the last shard is not much smaller than the others.
    """
    ends_of = np.cumsum(durations, out=(scratch or Scratch()).empty(len(durations), np.float64))
    total = float(durations.sum())
    num_shards = max(1, min(len(durations), round(total / seconds)))
    ends = np.searchsorted(ends_of, np.arange(1, num_shards) * (total / num_shards)) + 1
    # Every shard needs a record, even if one recording is longer than a shard.
    ends = np.maximum.accumulate(np.maximum(ends - np.arange(num_shards - 1), 1)) + np.arange(num_shards - 1)
    ends = np.minimum(ends, len(durations) - np.arange(num_shards - 1, 0, -1))
    return np.concatenate(([0], ends, [len(durations)])).astype(np.int64)


def order_by_group(groups: NDArray[np.uint64], scratch: Scratch) -> Indices:
    """The positions of the records in a new order, in which the records of each group are adjacent.

    Groups come in the order of their first records. Records of the same group keep their order. `groups` has the id of
    the group of each record.
    """
    first = scratch.empty(len(groups), np.uint64)
    for positions in groups_of(groups):
        _, first_here, inverse = np.unique(groups[positions], return_index=True, return_inverse=True)
        first[positions] = positions[first_here[inverse]]
    # Use all 64 bits: `groups_of` divides keys by their upper bits.
    spread = 64 - max(1, len(groups) - 1).bit_length()
    for chunk in chunks(len(first)):
        first[chunk] <<= np.uint64(spread)
    order = scratch.empty(len(groups), np.int64)
    done = 0
    for positions in groups_of(first):
        order[done : done + len(positions)] = positions[np.argsort(first[positions], kind="stable")]
        done += len(positions)
    return order


def at_group_ends(boundaries: Indices, groups: NDArray[np.uint64]) -> Indices:
    """Move the inner boundaries of shards to the nearest change of group, so that each group stays in one shard.

    Every shard gets at least one group. `groups` has the id of the group of each record; groups must be adjacent.

    Raises:
        UsageError: there are fewer groups than shards.
    """
    num_shards = len(boundaries) - 1
    starts = np.concatenate(([0], np.flatnonzero(groups[1:] != groups[:-1]) + 1, [len(groups)]))
    if len(starts) - 1 < num_shards:
        raise UsageError(
            f"{number_of(len(starts) - 1, 'audio file')} cannot fill {num_shards} shards with "
            f"{option('--keep-files-together')}; ask for fewer"
        )
    right = np.clip(np.searchsorted(starts, boundaries[1:-1]), 1, len(starts) - 1)
    nearer_left = boundaries[1:-1] - starts[right - 1] < starts[right] - boundaries[1:-1]
    chosen = right - nearer_left
    steps = np.arange(num_shards - 1)
    chosen = np.maximum.accumulate(np.maximum(chosen - steps, 1)) + steps
    chosen = np.minimum(chosen, len(starts) - 1 - np.arange(num_shards - 1, 0, -1))
    return np.concatenate(([0], starts[chosen], [len(groups)])).astype(np.int64)


def positions_between(values: NDArray[Any], low: float | None, high: float | None, scratch: Scratch) -> Indices:
    """The positions, ascending, of the values with `low` <= value < `high`; None removes the limit."""
    count = 0
    result = scratch.empty(len(values), np.int64)
    for chunk in chunks(len(values)):
        keep = np.ones(chunk.stop - chunk.start, bool)
        if low is not None:
            keep &= values[chunk] >= low
        if high is not None:
            keep &= values[chunk] < high
        positions = np.flatnonzero(keep) + chunk.start
        result[count : count + len(positions)] = positions
        count += len(positions)
    return result[:count]
