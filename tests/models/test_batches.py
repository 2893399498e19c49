"""Batches of equal length: every item once, no mixture, cut by samples, evenly; and full batches in few shapes."""

import numpy as np

from prepcli.manifest.parts import Ints
from prepcli.models.batches import equal_length_batches, full_batches, grid_lengths


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


def random_frames(seed: int) -> Ints:
    return np.random.default_rng(seed).lognormal(4.8, 0.5, 1200).astype(np.int64) + 1


def test_full_batches_have_few_shapes_and_little_padding() -> None:
    frames = random_frames(1)
    batches = full_batches(frames, 2600)
    assert sorted(np.concatenate([items for items, _, _ in batches]).tolist()) == list(range(1200))
    for items, num_rows, length in batches[:-1]:
        assert len(items) == num_rows == max(1, 2600 // length)
        assert frames[items].max() <= length
    assert [length for _, _, length in batches] == sorted((length for _, _, length in batches), reverse=True)
    assert sum(num_rows * length for _, num_rows, length in batches[:-1]) < 1.06 * frames.sum()
    shapes = {shape[1:] for seed in range(5) for shape in full_batches(random_frames(seed), 2600)}
    assert len({length for _, length in shapes}) == len(shapes) < 50


def test_a_long_item_is_a_full_batch_of_one_row() -> None:
    batches = full_batches(np.array([3, 500, 2]), 100)
    assert [(items.tolist(), num_rows, length) for items, num_rows, length in batches] == [
        ([1], 1, 528),
        ([0, 2], 25, 4),
    ]
    assert full_batches(np.zeros(0, np.int64), 10) == []


def test_the_grid_of_lengths() -> None:
    lengths = np.arange(1, 3000)
    on_grid = grid_lengths(lengths)
    assert (on_grid >= lengths).all()
    assert ((on_grid - lengths) < np.maximum(4, 0.06 * lengths)).all()
    assert np.unique(on_grid)[:4].tolist() == [4, 8, 12, 16]
    assert len(np.unique(on_grid[:650])) < 60
    assert (grid_lengths(np.unique(on_grid)) == np.unique(on_grid)).all()
