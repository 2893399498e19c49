import json
from pathlib import Path

import numpy as np
import pytest

from prepcli.manifest.datasets import DataSet, EntrySettings, Mix
from prepcli.manifest.durations import read_input
from prepcli.manifest.inputs import resolve_input
from prepcli.manifest.mixing import LeafDurations, allot, draw

A, B, C = (DataSet((name,)) for name in "abc")


def mixed(weights: tuple[float | None, ...], *parts: DataSet | Mix) -> Mix:
    return Mix(parts, weights)


@pytest.mark.parametrize(
    ("mix", "sizes", "num_drawn", "expected"),
    [
        (A, [10], 4, [4]),
        (A, [10], 14, [10]),
        (mixed((0.7, 0.3), A, B), [100, 100], 10, [7, 3]),
        (mixed((7, 3), A, B), [100, 100], 10, [7, 3]),
        (mixed((0.7, 0.3), A, B), [4, 100], 10, [4, 6]),  # a is used up, b goes on alone
        (mixed((0.7, 0.3), A, B), [4, 5], 10, [4, 5]),
        (mixed((None, None), A, B), [30, 10], 8, [6, 2]),  # by the number of lines
        (mixed((1, 1, 1), A, B, C), [9, 9, 9], 7, [3, 2, 2]),
        (mixed((1, 1, 1), A, B, C), [1, 0, 9], 7, [1, 0, 6]),
        (mixed((1, 2, 3), A, B, C), [2, 50, 50], 22, [2, 8, 12]),
        (mixed((0.5, 0.5), mixed((0.9, 0.1), A, B), C), [100, 100, 100], 40, [18, 2, 20]),
        (mixed((0.5, 0.5), mixed((0.9, 0.1), A, B), C), [5, 100, 100], 40, [5, 15, 20]),
        (mixed((0.5, 0.5), mixed((0.9, 0.1), A, B), C), [100, 100, 3], 40, [33, 4, 3]),
    ],
)
def test_shares(mix: DataSet | Mix, sizes: list[int], num_drawn: int, expected: list[int]) -> None:
    assert allot(mix, sizes, sizes, num_drawn) == expected


@pytest.mark.parametrize("seed", range(20))
def test_shares_add_up_and_never_exceed_what_is_there(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 50, 4).tolist()
    weights = rng.uniform(0.01, 3, 4).tolist()
    mix = mixed((weights[0], weights[1]), mixed((weights[2], None), A, B), mixed((weights[3], 1.0), C, A))
    for num_drawn in range(sum(sizes) + 5):
        shares = allot(mix, sizes, sizes, num_drawn)
        assert sum(shares) == min(num_drawn, sum(sizes))
        assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))


def test_only_examples_that_pass_the_filter_count() -> None:
    leaves = [
        LeafDurations(np.arange(100.0), np.arange(100) % 2 == 0, 100),  # every other one passes
        LeafDurations(np.full(100, 0.5), np.ones(100, bool), 100),
    ]
    (of_a, of_b), num_drawn = draw(mixed((1, 1), A, B), leaves, 30)
    # Equal numbers are drawn, so a third of what passes is from the first.
    assert num_drawn == 40
    assert of_a.tolist() == list(range(0, 20, 2))
    assert of_b.tolist() == list(range(20))


def test_an_endless_data_set_begins_again() -> None:
    endless = DataSet(("a",), settings=EntrySettings(endless=True))
    leaves = [
        LeafDurations(np.arange(3.0), np.array([True, False, True]), 3),
        LeafDurations(np.arange(100.0), np.ones(100, bool), 100),
    ]
    (of_a, of_b), num_drawn = draw(mixed((1, 1), endless, B), leaves, 13)
    assert of_a.tolist() == [0, 2, 0, 2, 0]  # of 8 drawn
    assert (len(of_b), num_drawn) == (8, 16)
    (of_a, _), _ = draw(mixed((1, 1), A, B), leaves, 13)
    assert of_a.tolist() == [0, 2]
    nothing = LeafDurations(np.arange(3.0), np.zeros(3, bool), 3)
    assert [len(of_leaf) for of_leaf in draw(mixed((1, 1), endless, B), [nothing, leaves[1]], 9)[0]] == [0, 9]


def test_fewer_than_wanted_are_all() -> None:
    (places,), num_drawn = draw(A, [LeafDurations(np.arange(5.0), np.ones(5, bool), 5)], 9)
    assert (len(places), num_drawn) == (5, 5)


def test_examples_come_from_the_start_of_each_input(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 1000)):
        lines = [{"audio_filepath": "x", "duration": first + i + 1} for i in range(500)]
        (tmp_path / f"{name}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = resolve_input(f"[[{tmp_path}/a.json,3],[{tmp_path}/b.json,1]]")
    found = read_input(data, num_examples=40)
    assert found.seconds.tolist() == [*range(1, 31), *range(1001, 1011)]
    assert found.num_discarded == 0
    found = read_input(data, num_examples=40, min_duration=11, max_duration=1e9)
    assert len(found.seconds) == 40
    assert found.num_discarded == 10
    assert len(read_input(data, num_examples=10**6).seconds) == 1000
