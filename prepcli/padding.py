"""How much padding batches carry, by a simulation of lhotse's dynamic samplers."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_SAMPLE = 100_000
_MIN_BATCHES = 64


def padding(durations: npt.ArrayLike, bins: list[float], batch_duration: float, seed: int = 0) -> float:
    """The share of padding in the frames of an epoch of batches, from 0 to 1; no `bins`: without bucketing.

    See `padding_in_buckets`; a bucket holds the durations `above < duration <= up_to` (lhotse's `select_bucket`).
    `durations`: seconds, any order, shape (examples,).
    """
    lengths = ascending(durations)
    sample = evenly(lengths)
    edges = [0, *np.searchsorted(sample, bins, side="right").tolist(), len(sample)]
    buckets = [sample[start:end, None] for start, end in itertools.pairwise(edges)]
    return padding_in_buckets(buckets, batch_duration, len(sample) == len(lengths), seed)[0]


def paddings_of(columns: Floats, numbers: npt.NDArray[Any], batch_size: float) -> list[float]:
    """See `padding_in_buckets`, for examples (examples, columns) of which each is in the bucket of its number."""
    if not len(columns):
        return [0.0] * columns.shape[1]
    order = evenly(np.lexsort((columns[:, 0], numbers)))
    _, starts = np.unique(numbers[order], return_index=True)
    buckets = np.split(columns[order], starts[1:].tolist())
    return padding_in_buckets(buckets, batch_size, whole=len(order) == len(columns))


def padding_in_buckets(
    buckets: Sequence[Floats], batch_duration: float, whole: bool = True, seed: int = 0
) -> list[float]:
    """The share of padding, from 0 to 1, in each column of what the buckets hold, over an epoch of batches.

    A simulation of lhotse's dynamic samplers with `max_duration=batch_duration` on well shuffled data: in each
    bucket examples are drawn in random order, and a batch ends where one more example as long as the longest would
    exceed `batch_duration`. Each bucket counts by its sum. Seeded; of large data some 64 batches a bucket are looked
    at (the standard error is below 0.2 percentage points).

    `buckets`: shape (examples, columns) each; the first column is the duration, by which batches end. `whole`: these
    are all examples, not a sample of them, so that a bucket's last batch, which is not full, counts too.
    """
    random = np.random.default_rng(seed)
    min_batches = max(_MIN_BATCHES, 1000 // len(buckets))
    num_columns = buckets[0].shape[1]
    frames, total = np.zeros(num_columns), np.zeros(num_columns)
    for bucket in buckets:
        if len(bucket):
            frames += _frames_for_one(bucket, batch_duration, random, min_batches, whole) * bucket.sum(axis=0)
            total += bucket.sum(axis=0)
    return [1 - float(one / all_) if all_ else 0.0 for one, all_ in zip(total, frames, strict=True)]


def _frames_for_one(
    bucket: Floats, batch_duration: float, random: np.random.Generator, min_batches: int, whole: bool
) -> Floats:
    """For each column, what stands in batches, padding included, for one that is no padding."""
    frames, content = np.zeros(bucket.shape[1]), np.zeros(bucket.shape[1])
    num_batches = num_rounds = 0
    counts = np.arange(2, len(bucket) + 2)
    while num_batches < min_batches and num_rounds < 16:
        order = random.permutation(bucket)
        at = 0
        guess = min(len(order), 64)
        while at < len(order) and num_batches < min_batches:
            longest = np.maximum.accumulate(order[at : at + guess, 0])
            full = longest * counts[: len(longest)] > batch_duration
            size = int(full.argmax()) + 1
            if not full[size - 1]:
                if at + guess < len(order):
                    guess *= 2
                    continue
                size = len(longest)
                if num_batches and not whole:
                    break
            batch = order[at : at + size]
            frames += size * batch.max(axis=0)
            content += batch.sum(axis=0)
            at += size
            num_batches += 1
        num_rounds += 1
    return np.divide(frames, content, out=np.ones_like(frames), where=content > 0)


def ascending(values: npt.ArrayLike) -> Floats:
    """The values in ascending order; no copy where they are so already."""
    array = np.asarray(values, np.float64)
    return array if (array[1:] >= array[:-1]).all() else np.sort(array)


def evenly(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """All of some sorted values, or of many some 100,000 that are evenly spaced."""
    return values if len(values) <= _SAMPLE else values[:: -(-len(values) // _SAMPLE)]
