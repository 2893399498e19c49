"""Assign records to shards: permutations and boundaries over arrays, never over lists of records."""

import numpy as np
from numpy.typing import NDArray

from prepcli.errors import UsageError
from prepcli.hashing import GOLDEN, mix64

Indices = NDArray[np.int64]


def shuffled(num_records: int, seed: int) -> Indices:
    """A permutation of 0..num_records-1, the same for a seed on every machine and in every version of NumPy.

    Each number gets a 64-bit key by SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
    2014); the permutation sorts by it. NumPy's own generators may change their streams between versions.
    """
    with np.errstate(over="ignore"):
        numbers = np.arange(1, num_records + 1, dtype=np.uint64) * GOLDEN
        keys = mix64(numbers + np.uint64(seed % 2**64) * np.uint64(0xD1342543DE82EF95))
    return np.argsort(keys, kind="stable")


def by_count(num_records: int, num_shards: int) -> Indices:
    """Boundaries (num_shards + 1) of shards whose sizes differ by at most one: the remainder is spread."""
    return (np.arange(num_shards + 1, dtype=np.int64) * num_records + num_shards - 1) // num_shards


def by_seconds(durations: NDArray[np.float64], seconds: float) -> Indices:
    """Boundaries of shards of about `seconds` each, at least one record in each; the last is not a small remainder."""
    total = float(durations.sum())
    num_shards = max(1, min(len(durations), round(total / seconds)))
    ends = np.searchsorted(np.cumsum(durations), np.arange(1, num_shards) * (total / num_shards)) + 1
    # Every shard needs a record, even if one recording is longer than a shard.
    ends = np.maximum.accumulate(np.maximum(ends - np.arange(num_shards - 1), 1)) + np.arange(num_shards - 1)
    ends = np.minimum(ends, len(durations) - np.arange(num_shards - 1, 0, -1))
    return np.concatenate(([0], ends, [len(durations)])).astype(np.int64)


def gathered(groups: NDArray[np.uint64]) -> Indices:
    """A stable order with the records of a group together, groups in order of first appearance."""
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(first[inverse], kind="stable")


def at_group_ends(boundaries: Indices, groups: NDArray[np.uint64]) -> Indices:
    """Move inner boundaries to the nearest change of group; every shard has at least one group.

    Raises:
        UsageError: there are fewer groups than shards.
    """
    num_shards = len(boundaries) - 1
    starts = np.concatenate(([0], np.flatnonzero(groups[1:] != groups[:-1]) + 1, [len(groups)]))
    if len(starts) - 1 < num_shards:
        raise UsageError(
            f"{len(starts) - 1} audio files cannot fill {num_shards} shards with --keep-files-together; ask for fewer"
        )
    right = np.clip(np.searchsorted(starts, boundaries[1:-1]), 1, len(starts) - 1)
    nearer_left = boundaries[1:-1] - starts[right - 1] < starts[right] - boundaries[1:-1]
    chosen = right - nearer_left
    steps = np.arange(num_shards - 1)
    chosen = np.maximum.accumulate(np.maximum(chosen - steps, 1)) + steps
    chosen = np.minimum(chosen, len(starts) - 1 - np.arange(num_shards - 1, 0, -1))
    return np.concatenate(([0], starts[chosen], [len(groups)])).astype(np.int64)
