"""64-bit hashes.

Plans and names of files depend on the hashes, so a hash is the same on every machine and in every process.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The increment of SplitMix64: 2**64 divided by the golden ratio. Multiples of it differ in their upper bits."""


CHUNK_SIZE = 1 << 18
"""Number of values per slice of `chunks`: computing a large array slice by slice saves memory."""
GROUP_SIZE = 1 << 18
"""Approximate number of keys per group of `groups_of`, which makes at most `2 ** MAX_GROUP_BITS` groups."""
MAX_GROUP_BITS = 6


def mix64(keys: Hashes) -> Hashes:
    """SplitMix64's output function: a bijection on 64-bit numbers. Each bit of a key affects half of the result's bits.

    Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014; Stafford's variant 13.
    """
    with np.errstate(over="ignore"):
        keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        keys ^= keys >> np.uint64(31)
    return keys


def groups_of(keys: Hashes) -> Iterator[NDArray[np.int64]]:
    """Divide the positions 0..len(keys)-1 into groups of about `GROUP_SIZE`; positions of equal keys share a group.

    Groups are larger if there are more than 16 million keys. Positions ascend within a group, and groups come in
    ascending order of their keys. The keys must be hashes, so that the groups have similar sizes. Work done group by
    group needs memory for one group, and one byte per key.
    """
    bits = min(MAX_GROUP_BITS, max(0, (len(keys) - 1) // GROUP_SIZE).bit_length())
    if not bits:
        yield np.arange(len(keys))
        return
    group = np.empty(len(keys), np.uint8)
    for chunk in chunks(len(keys)):
        group[chunk] = keys[chunk] >> np.uint64(64 - bits)
    for number in range(1 << bits):
        yield np.flatnonzero(group == number)


def chunks(length: int) -> Iterator[slice]:
    """Slices of `CHUNK_SIZE` values that cover 0..length-1 in order; the last slice may be shorter."""
    return (slice(start, min(start + CHUNK_SIZE, length)) for start in range(0, length, CHUNK_SIZE))


def num_distinct(keys: Hashes) -> int:
    """The number of different keys."""
    return sum(_num_distinct(keys[positions]) for positions in groups_of(keys))


def _num_distinct(keys: Hashes) -> int:
    # Not np.unique: its first call imports numpy.ma, a sixth of the start-up.
    keys = np.sort(keys)
    return int(np.count_nonzero(keys[1:] != keys[:-1])) + min(1, len(keys))


def in_sorted(keys: Hashes, values: Hashes) -> NDArray[np.bool_]:
    """For each of `values`: whether it is one of the sorted `keys`."""
    if not len(keys):
        return np.zeros(len(values), bool)
    matches: NDArray[np.bool_] = keys[np.searchsorted(keys[:-1], values)] == values
    return matches


def have_several(keys: Hashes, values: NDArray[Any], result: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
    """For each position: whether its key occurs with two or more different values.

    `values[i]` is the value of `keys[i]`. `result`: an array to write into; by default a new one.
    """
    if result is None:
        result = np.empty(len(keys), bool)
    for positions in groups_of(keys):
        result[positions] = _have_several(keys[positions], values[positions])
    return result


def _have_several(keys: Hashes, values: NDArray[Any]) -> NDArray[np.bool_]:
    order = np.lexsort((values, keys))
    keys, values = keys[order], values[order]
    if not len(keys):
        return np.zeros(0, bool)
    first_of_key = np.concatenate(([True], keys[1:] != keys[:-1]))
    first_of_pair = first_of_key | np.concatenate(([True], values[1:] != values[:-1]))
    group = np.cumsum(first_of_key) - 1
    several = np.bincount(group, weights=first_of_pair) > 1
    result = np.empty(len(keys), bool)
    result[order] = several[group]
    return result


def occurrences(keys: Hashes, result: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """For each position: the number of earlier positions with the same key.

    `result`: an array to write into; by default a new one.
    """
    if result is None:
        result = np.empty(len(keys), np.int64)
    for positions in groups_of(keys):
        result[positions] = _occurrences(keys[positions])
    return result


def _occurrences(keys: Hashes) -> NDArray[np.int64]:
    counts = np.zeros(len(keys), np.int64)
    in_order = np.sort(keys)
    repeated = in_order[1:][in_order[1:] == in_order[:-1]]
    if not len(repeated):
        return counts
    positions = np.flatnonzero(np.isin(keys, repeated, kind="sort"))  # tables of NumPy 2.0.0 overflow
    by_key = positions[np.argsort(keys[positions], kind="stable")]
    same_as_before = np.concatenate(([False], keys[by_key[1:]] == keys[by_key[:-1]]))
    rank = np.arange(len(by_key))
    first = np.maximum.accumulate(np.where(same_as_before, 0, rank))
    counts[by_key] = rank - first
    return counts
