"""Permutations and boundaries: complete, reproducible, balanced."""

from itertools import pairwise

import numpy as np
import pytest

from prepcli.errors import UsageError
from prepcli.planning.arrays import Scratch
from prepcli.planning.split import at_group_ends, by_count, by_seconds, order_by_group, shuffled


def test_shuffled_is_a_permutation_that_never_changes() -> None:
    order = shuffled(1000, 7, Scratch())
    assert sorted(order) == list(range(1000))
    # Kept for ever: people resume runs of older versions.
    assert shuffled(8, 0, Scratch()).tolist() == [2, 4, 6, 5, 1, 7, 0, 3]
    assert shuffled(1000, 8, Scratch()).tolist() != order.tolist()


def test_shuffled_has_no_order_left() -> None:
    order = shuffled(100_000, 1, Scratch())
    assert abs(np.corrcoef(order, np.arange(100_000))[0, 1]) < 0.02
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(order, shuffled(100_000, 2, Scratch()))[0, 1]) < 0.02


@pytest.mark.parametrize(("records", "shards"), [(10, 3), (48, 5), (7, 7), (1, 1), (1000, 999), (2**40, 3)])
def test_by_count_differs_by_one_at_most(records: int, shards: int) -> None:
    sizes = np.diff(by_count(records, shards))
    assert sizes.sum() == records
    assert sizes.max() - sizes.min() <= 1
    assert sizes.min() >= 1


def test_by_seconds_is_complete_and_even() -> None:
    generator = np.random.default_rng(0)
    durations = generator.exponential(5.0, 5000)
    bounds = by_seconds(durations, 500.0)
    loads = [durations[lo:hi].sum() for lo, hi in pairwise(bounds)]
    assert (bounds[0], bounds[-1]) == (0, 5000)
    assert len(loads) == round(durations.sum() / 500)
    assert max(loads) - min(loads) <= 2 * durations.max()


def test_by_seconds_gives_every_shard_a_record() -> None:
    generator = np.random.default_rng(1)
    for _ in range(500):
        durations = generator.exponential(5.0, generator.integers(1, 40))
        durations[generator.integers(0, len(durations))] *= 100
        bounds = by_seconds(durations, float(generator.choice([0.01, 1, 30, 1e6])))
        assert (np.diff(bounds) > 0).all()
        assert (bounds[0], bounds[-1]) == (0, len(durations))


def test_gathered_keeps_first_appearance_and_order() -> None:
    groups = np.array([5, 3, 5, 9, 3, 5], np.uint64)
    assert order_by_group(groups, Scratch()).tolist() == [0, 2, 5, 1, 4, 3]


def test_at_group_ends_never_cuts_a_group() -> None:
    generator = np.random.default_rng(2)
    for _ in range(500):
        groups = np.sort(generator.integers(0, 12, generator.integers(1, 80))).astype(np.uint64)
        num_groups = len(np.unique(groups))
        num_shards = int(generator.integers(1, num_groups + 1))
        bounds = at_group_ends(by_count(len(groups), num_shards), groups)
        assert (np.diff(bounds) > 0).all()
        assert (bounds[0], bounds[-1]) == (0, len(groups))
        assert all(groups[inner] != groups[inner - 1] for inner in bounds[1:-1])


def test_at_group_ends_needs_a_group_a_shard() -> None:
    with pytest.raises(UsageError, match="1 audio file cannot fill 2 shards"):
        at_group_ends(by_count(4, 2), np.array([1, 1, 1, 1], np.uint64))
