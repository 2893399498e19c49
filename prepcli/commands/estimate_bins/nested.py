"""Two-dimensional bins as NeMo's samplers use them: buckets by size, each divided into buckets by number of tokens."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prepcli.planning.cut_points import greedy_cut_points

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NestedBins:
    """Two-dimensional buckets.

    `pairs`: the upper ends of each bucket, a size and a number of tokens, in ascending order. Buckets with the same
    upper size are sub-buckets of one bucket. `max_ratio`: for each pair, the maximum number of tokens per size in the
    whole bucket, without outliers. `num_outliers`: number of examples that were left out because they have too many
    tokens per size.
    """

    pairs: list[tuple[float, int]]
    max_ratio: list[float]
    num_outliers: int


def nested_bins(
    sizes: npt.NDArray[Any],
    tokens: npt.NDArray[Any],
    num_buckets: int,
    sub_buckets: int,
    outlier_threshold: float,
    decimals: int | None = None,
    largest: float | None = None,
) -> NestedBins:
    """Divide examples into buckets by size, and each bucket into sub-buckets by tokens.

    All buckets have about the same sum of sizes; all sub-buckets of a bucket have about the same sum of tokens.
    The results are bit-identical to those of NeMo's current scripts/speech_recognition/estimate_duration_bins_2d.py:

    - The examples are sorted by size, then by tokens, and cut as in `duration_bins`, with sums in the type of `sizes`.
    - The edge of a bucket is the size of the first example after it, rounded to `decimals` (None: not rounded). In the
      sum of the next bucket, this example counts with its rounded size.
    - If n consecutive buckets have equal edges, they become one bucket with n * `sub_buckets` sub-buckets.
    - An example is left out as an outlier if its tokens per size are more than `outlier_threshold` standard deviations
      above the mean of its bucket. The other examples of the bucket are sorted by tokens and cut in the same way.
    - The last pair of a bucket has the largest number of tokens among the examples that were kept.

    If all examples of a bucket have the same number of tokens per size, NeMo's script fails; here none is left out.

    `sizes`: float32 (seconds) or int64 (tokens), shape (examples,), above 0; `tokens`: shape (examples,).
    `largest`: the edge of the last bucket; None: the largest size, rounded to `decimals`.
    """
    order = np.lexsort((tokens, sizes))
    sizes, tokens = sizes[order], tokens[order]

    def rounded(size: Any) -> Any:
        return size if decimals is None else np.round(size, decimals)

    # The sequential running sum may exceed NumPy's total, which is a pairwise sum.
    places = (
        greedy_cut_points(sizes, sizes.sum() / num_buckets, len(sizes) // num_buckets, rounded)
        if num_buckets > 1
        else []
    )
    last = rounded(sizes[-1]) if largest is None else sizes.dtype.type(largest)
    edges = [*(rounded(sizes[place]) for place in places), last]
    pairs: list[tuple[float, int]] = []
    max_ratio: list[float] = []
    start, num_merged, num_outliers = 0, 0, 0
    for i, end in enumerate([*places, len(sizes)]):
        num_merged += 1
        if i < len(places) and edges[i] == edges[i + 1]:
            continue
        ends, ratio, num_left_out = _token_bins(
            sizes[start:end], tokens[start:end], sub_buckets * num_merged, outlier_threshold
        )
        edge = float(edges[i]) if decimals is None else round(float(edges[i]), decimals)
        pairs += [(edge, tokens_up_to) for tokens_up_to in ends]
        max_ratio += [ratio] * len(ends)
        num_outliers += num_left_out
        start, num_merged = end, 0
    return NestedBins(pairs, max_ratio, num_outliers)


def _token_bins(
    sizes: npt.NDArray[Any], tokens: npt.NDArray[Any], sub_buckets: int, threshold: float
) -> tuple[list[int], float, int]:
    """Divide one bucket into sub-buckets by tokens.

    Returns their upper ends in tokens, the maximum number of tokens per size in them, and the number of outliers.
    """
    ratios = tokens / np.maximum(sizes, 1) if sizes.dtype.kind == "i" else tokens / sizes
    spread = np.std(ratios)
    kept = (ratios - np.mean(ratios)) / spread <= threshold if spread > 0 else np.ones(len(ratios), bool)
    if not kept.any():
        kept[:] = True
    ascending = np.sort(tokens[kept]).astype(np.int64)
    places = greedy_cut_points(ascending, ascending.sum() / sub_buckets, len(ascending) // sub_buckets)
    ends = [*ascending[places].tolist(), int(ascending[-1])]
    return ends, float(ratios[kept].max()), int(len(kept) - kept.sum())


def place(sizes: Floats, tokens: npt.NDArray[Any], pairs: list[tuple[float, int]]) -> Ints:
    """Return the bucket of each example as an index in `pairs`, -1 for an example that fits no bucket.

    The result has the shape (examples,).
    The bucket is chosen as in NeMo's `FixedBucketBatchSizeConstraint2D` in strict mode: the first size that is large
    enough, and among the buckets of this size the first one with enough tokens.
    """
    edges = np.array([size for size, _ in pairs])
    limits = np.array([limit for _, limit in pairs])
    starts = np.flatnonzero(np.concatenate([[True], edges[1:] != edges[:-1]]))
    ends = np.append(starts[1:], len(edges))
    groups = np.searchsorted(edges[starts], sizes)
    places = np.full(len(sizes), -1, np.int64)
    for group, (start, end) in enumerate(zip(starts, ends, strict=True)):
        here = np.flatnonzero(groups == group)
        at = np.searchsorted(limits[start:end], tokens[here])
        fits = at < end - start
        places[here[fits]] = start + at[fits]
    return places


def notes_on_pairs(pairs: list[tuple[float, int]], asked: int, sub_buckets: int, num_empty: int) -> list[str]:
    """Notes on missing and empty buckets, with the reason; an empty list if all requested buckets have examples.

    `asked` buckets by size were requested, each with `sub_buckets` by tokens; `num_empty` pairs have no example.
    """
    num_sizes = len({size for size, _ in pairs})
    notes = []
    if num_sizes < asked:
        notes.append(
            f"{asked:,} buckets were asked for, the bins make {num_sizes:,}: a bucket ends with the example that "
            f"exceeds 1/{asked} of the whole, so that less is left for the last ones, and examples of equal length "
            "stay together"
        )
    if len(pairs) < asked * sub_buckets or num_empty:
        empty = f", {num_empty:,} of them without an example" if num_empty else ""
        repeated = len(pairs) - len(set(pairs))
        ends = f" ({repeated:,} repeat the one before: the same number of tokens ends both)" if repeated else ""
        notes.append(
            f"{len(pairs):,} bins of {asked:,} x {sub_buckets:,}{empty}{ends}; NeMo takes them as they are, and a "
            "smaller number of buckets or sub-buckets leaves no gaps"
        )
    return notes
