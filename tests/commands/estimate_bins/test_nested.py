"""Bins in two dimensions against the method written out one example at a time."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from prepcli.commands.estimate_bins.nested import nested_bins, place

Array = npt.NDArray[Any]


def by_the_book(
    sizes: Array,
    tokens: Array,
    num_buckets: int,
    sub_buckets: int,
    threshold: float,
    decimals: int | None,
    largest: float | None = None,
) -> tuple[list[tuple[float, int]], list[float]]:
    """The docstring's words, in scalars of the type of `sizes`."""

    def rounded(size: Any) -> Any:
        return size if decimals is None else np.round(size, decimals)

    examples = sorted(zip(sizes, tokens, strict=True))
    target = np.array([size for size, _ in examples], sizes.dtype).sum() / num_buckets
    edges, starts, total = [], [], sizes.dtype.type(0)
    for number, (size, _) in enumerate(examples):
        start = size
        if total > target and num_buckets > 1:
            start = rounded(size)
            edges.append(start)
            starts.append(number)
            total = sizes.dtype.type(0)
        total = total + start
    edges.append(rounded(examples[-1][0]) if largest is None else sizes.dtype.type(largest))
    starts.append(len(examples))
    pairs: list[tuple[float, int]] = []
    ratios: list[float] = []
    begin = merged = 0
    for number, (edge, end) in enumerate(zip(edges, starts, strict=True)):
        merged += 1
        if number + 1 < len(edges) and edges[number + 1] == edge:
            continue
        bucket = examples[begin:end]
        begin = end
        rates = np.array([count / max(size, 1 if sizes.dtype.kind == "i" else 0) for size, count in bucket])
        limit = rates.mean() + threshold * rates.std()
        if rates.std() > 0:
            kept = [(count, rate) for (_, count), rate in zip(bucket, rates, strict=True) if rate <= limit + 1e-12]
        else:
            kept = [(count, rate) for (_, count), rate in zip(bucket, rates, strict=True)]
        counts = sorted(int(count) for count, _ in kept)
        share, so_far = sum(counts) / (sub_buckets * merged), 0
        ends = []
        for count in counts:
            if so_far > share:
                ends.append(count)
                so_far = 0
            so_far += count
        ends.append(counts[-1])
        size = float(edge) if decimals is None else round(float(edge), decimals)
        pairs += [(size, one) for one in ends]
        ratios += [max(rate for _, rate in kept)] * len(ends)
        merged = 0
    return pairs, ratios


def speech(rng: np.random.Generator, count: int, kind: int) -> tuple[Array, Array]:
    durations = [
        rng.lognormal(1.8, 0.7, count),
        np.where(rng.random(count) < 0.8, 30.0, rng.uniform(1, 30, count)),  # most are 30.0 s
        rng.choice([1.5, 7.3, 30.0], count),  # fewer distinct ones than buckets
        np.full(count, 12.345678),
        rng.uniform(0.01, 40, count),
    ][kind]
    rates = rng.normal(8, 2, count).clip(0)
    rates[rng.random(count) < 0.01] *= 30  # outliers
    rates[rng.random(count) < 0.2] = 0  # no speech
    return durations.astype(np.float32), (rates * durations).astype(np.int32)


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("seed", range(4))
def test_bins_are_those_of_the_walk(kind: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes, tokens = speech(rng, int(rng.integers(2, 4000)), kind)
    for num_buckets, sub_buckets, threshold in ((1, 1, 4.0), (1, 5, 4.0), (2, 2, 1.5), (30, 2, 4.0), (30, 7, 0.5)):
        found = nested_bins(sizes, tokens, num_buckets, sub_buckets, threshold, decimals=3)
        pairs, ratios = by_the_book(sizes, tokens, num_buckets, sub_buckets, threshold, 3)
        assert found.pairs == pairs
        assert found.max_ratio == pytest.approx(ratios)


@pytest.mark.parametrize("seed", range(4))
def test_the_sum_begins_again_with_the_rounded_edge(seed: int) -> None:
    """Rounded coarsely, so that the edges after it move."""
    sizes, tokens = speech(np.random.default_rng(seed), 400, 4)
    found = nested_bins(sizes, tokens, 100, 1, 4.0, decimals=-1)
    assert (found.pairs, len(set(found.pairs)) > 3) == (by_the_book(sizes, tokens, 100, 1, 4.0, -1)[0], True)


@pytest.mark.parametrize("seed", range(4))
def test_bins_of_tokens_in_and_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = rng.integers(0, 300, 2000)  # empty inputs too
    outputs = (inputs * rng.uniform(0.2, 3, 2000)).astype(np.int32) + rng.integers(0, 3, 2000).astype(np.int32)
    found = nested_bins(inputs, outputs, 10, 3, 6.0)
    pairs, ratios = by_the_book(inputs, outputs, 10, 3, 6.0, None)
    assert found.pairs == pairs
    assert found.max_ratio == pytest.approx(ratios)


def test_bins_do_not_depend_on_the_order_of_the_examples() -> None:
    sizes, tokens = speech(np.random.default_rng(1), 3000, 0)
    order = np.random.default_rng(2).permutation(3000)
    assert nested_bins(sizes, tokens, 20, 3, 4, 3) == nested_bins(sizes[order], tokens[order], 20, 3, 4, 3)


def test_equal_neighbouring_edges_are_one_bucket_with_as_many_more_sub_buckets() -> None:
    sizes = np.array([10.0] * 10 + [30.0] * 90, np.float32)
    tokens = np.arange(100, dtype=np.int32)
    found = nested_bins(sizes, tokens, 10, 2, 100, 3)
    # The first sum is full only within the 30.0s, and so are all others: one bucket of twenty, less what overshoots.
    assert {size for size, _ in found.pairs} == {30.0}
    assert 15 < len(found.pairs) <= 20
    assert found.pairs == by_the_book(sizes, tokens, 10, 2, 100, 3)[0]
    assert found.pairs[-1] == (30.0, 99)


def test_outliers_are_cut_above_and_never_below() -> None:
    sizes = np.full(1000, 10, np.float32)
    tokens = np.full(1000, 80, np.int32)
    tokens[:10] = 79
    tokens[0], tokens[1] = 2000, 0
    found = nested_bins(sizes, tokens, 1, 1, 4)
    assert (found.pairs, found.max_ratio, found.num_outliers) == ([(10.0, 80)], [8.0], 1)
    kept = nested_bins(sizes, tokens, 1, 1, 1000)
    assert (kept.pairs, kept.num_outliers) == ([(10.0, 2000)], 0)


def test_equal_ratios_and_silence_are_not_outliers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        silent = nested_bins(np.full(9, 30, np.float32), np.zeros(9, np.int32), 30, 2, 4, 3)
        alone = nested_bins(np.array([3.0], np.float32), np.array([7], np.int32), 30, 2, 4, 3)
    assert set(silent.pairs) == {(30.0, 0)}
    assert silent.max_ratio == [0.0] * len(silent.pairs)
    assert (alone.pairs, alone.num_outliers) == ([(3.0, 7)], 0)


def test_a_given_largest_size_is_the_last_edge() -> None:
    sizes, tokens = speech(np.random.default_rng(0), 500, 4)
    assert nested_bins(sizes, tokens, 5, 1, 4, 3, largest=99.5).pairs[-1][0] == 99.5
    skewed = np.full(100, 30, np.float32)
    assert len(nested_bins(skewed, np.arange(100), 5, 1, 4, 3, largest=30.0).pairs) > 1
    assert {size for size, _ in nested_bins(skewed, np.arange(100), 5, 1, 4, 3, largest=40.0).pairs} == {30.0, 40.0}


def test_the_walk_adds_in_single_precision() -> None:
    """In double precision the edges of enough examples are others: the test would not notice otherwise."""
    sizes = np.random.default_rng(0).lognormal(1.8, 0.7, 100_000).astype(np.float32)
    tokens = (sizes * 8).astype(np.int32)
    doubles = nested_bins(sizes.astype(np.float64), tokens, 30, 1, 4, 3)
    assert nested_bins(sizes, tokens, 30, 1, 4, 3).pairs != doubles.pairs


def test_where_examples_go() -> None:
    pairs = [(10.0, 5), (10.0, 10), (10.0, 10), (20.0, 12), (20.0, 18)]
    sizes = np.array([8, 8, 8, 10, 10.001, 20, 20.001, 15])
    tokens = np.array([5, 6, 11, 10, 11, 13, 1, 19])
    # A longer bucket is not for one that is too long in tokens for its own: it is left out.
    assert place(sizes, tokens, pairs).tolist() == [0, 1, -1, 1, 3, 4, -1, -1]
