"""Batches of equal length: every item once, no mixture, cut by samples, evenly."""

import numpy as np

from prepcli.models.batches import equal_length_batches


def test_every_item_once_and_no_mixture() -> None:
    padded_lengths = np.random.default_rng(0).integers(1, 40, 1000) * 2560
    batches = equal_length_batches(padded_lengths, 100_000)
    assert sorted(np.concatenate(batches).tolist()) == list(range(1000))
    lengths = []
    for batch in batches:
        assert len(set(padded_lengths[batch].tolist())) == 1
        assert padded_lengths[batch].sum() <= 100_000 or len(batch) == 1
        assert batch.tolist() == sorted(batch.tolist())
        lengths.append(int(padded_lengths[batch[0]]))
    assert lengths == sorted(lengths, reverse=True)  # what needs most memory comes first


def test_items_of_one_place_are_spread_evenly() -> None:
    sizes = [len(batch) for batch in equal_length_batches(np.full(101, 10), 1000)]
    assert sizes == [50, 51]


def test_an_item_beyond_the_cut_stands_alone() -> None:
    assert [batch.tolist() for batch in equal_length_batches(np.array([5, 99, 5, 99]), 10)] == [[1], [3], [0, 2]]


def test_nothing() -> None:
    assert equal_length_batches(np.zeros(0, np.int64), 10) == []
