"""Cut points of buckets: they divide sorted examples so that all buckets have about the same sum."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from prepcli.errors import UsageError, option


def duration_bins(durations: npt.ArrayLike, num_buckets: int) -> list[float]:
    """Upper ends, in seconds, of all buckets but the last; all buckets hold about the same number of seconds.

    Bit-identical to lhotse's `estimate_duration_buckets` (lhotse/dataset/sampling/dynamic_bucketing.py, 1.33): go up
    the sorted durations; if the running sum before a duration exceeds sum / num_buckets, emit that duration and start
    the sum again. At most `num_buckets - 1` values, ascending; a duration that many examples have may come twice.
    `durations`: seconds, any order, shape (examples,). Raises `UsageError` for fewer than 2 buckets and for fewer
    durations than buckets.
    """
    sizes = ascending(durations)
    if num_buckets < 2:
        raise UsageError(f"the number of buckets must be 2 or more, not {num_buckets}")
    if num_buckets > len(sizes):
        raise UsageError(
            f"{num_buckets} buckets need at least as many examples; there are {len(sizes)}: give fewer "
            f"{option('--buckets')}"
        )
    places = greedy_cut_points(sizes, sizes.sum() / num_buckets, len(sizes) // num_buckets)
    return [float(sizes[place]) for place in places]


def greedy_cut_points(
    sizes: npt.NDArray[Any],
    target: Any,
    guess: int,
    restart: Callable[[Any], Any] = lambda size: size,
) -> list[int]:
    """Indexes at which to cut `sizes` into pieces: a piece ends as soon as the sum of its sizes exceeds `target`.

    The sums are rounded to the type of `sizes` after every addition, as a loop over `sizes` would round. `guess`: the
    approximate number of sizes per piece, which affects the speed only. `restart`: returns the value that is added in
    place of the first size after a cut; by default this size itself.
    """
    block = max(256, guess // 4)
    places: list[int] = []
    total, at, first = np.zeros(1, sizes.dtype), 0, False
    while at < len(sizes):
        piece = np.concatenate([total, sizes[at : at + block]])
        if first:
            piece[1] = restart(piece[1])
        # np.cumsum adds one by one, like NeMo's loop, so every sum is rounded in the same way.
        before = np.cumsum(piece, dtype=sizes.dtype)
        step = int(np.searchsorted(before[:-1], target, side="right"))
        if step == len(before) - 1:
            total, at, first = before[-1:], at + step, False
        else:
            at += step
            places.append(at)
            total, first = np.zeros(1, sizes.dtype), True
    return places


def ascending(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The values in ascending order; not copied if they are sorted already."""
    array = np.asarray(values, np.float64)
    return array if (array[1:] >= array[:-1]).all() else np.sort(array)
