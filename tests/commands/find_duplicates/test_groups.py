"""Groups: equal keys, joined pairs, groups with several values."""

from collections import defaultdict

import numpy as np
import pytest

from prepcli.commands.find_duplicates.groups import Sets, by_records, equal_keys, with_several


@pytest.mark.parametrize("seed", range(20))
def test_equal_keys(seed: int) -> None:
    keys = np.random.default_rng(seed).integers(0, 4, (2 * seed, 2)).astype(np.uint64)
    positions, group_of = equal_keys(keys)
    expected: dict[tuple[int, ...], list[int]] = {}
    for number, key in enumerate(keys.tolist()):
        expected.setdefault(tuple(key), []).append(number)
    expected.pop((0, 0), None)
    groups = [members for members in expected.values() if len(members) > 1]
    assert positions.tolist() == [number for members in groups for number in members]
    assert group_of.tolist() == [number for number, members in enumerate(groups) for _ in members]


@pytest.mark.parametrize("seed", range(10))
def test_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets, expected = Sets(40), {number: {number} for number in range(40)}
    for one, other in rng.integers(0, 40, (3 * seed, 2)).tolist():
        assert sets.are_one(one, other) == (other in expected[one])
        sets.join(one, other)
        both = expected[one] | expected[other]
        expected |= dict.fromkeys(both, both)
    assert sets.labels().tolist() == [min(expected[number]) for number in range(40)]


@pytest.mark.parametrize("seed", range(10))
def test_groups_with_several_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = np.stack([rng.integers(0, 6, 20), np.zeros(20)], axis=1).astype(np.uint64)
    records, group_of = equal_keys(keys)
    value_of = rng.integers(0, 2, 20)
    values = defaultdict(set)
    for record, group in zip(records.tolist(), group_of.tolist(), strict=True):
        values[group].add(int(value_of[record]))
    kept = [group for group in sorted(values) if len(values[group]) == 2]
    expected = [
        (record, kept.index(group))
        for record, group in zip(records.tolist(), group_of.tolist(), strict=True)
        if group in kept
    ]
    found = with_several(records, group_of, value_of)
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == expected


def test_groups_with_the_same_records_are_one() -> None:
    """Not those that differ in the first record alone; the order is that of the first groups."""
    numbers, group_of = np.array([1, 2, 2, 0, 1, 2, 1, 2]), np.array([0, 0, 0, 1, 1, 1, 2, 2])
    records, groups, turns = by_records(numbers, group_of, np.array([3, 9, 7, 1, 1, 1, 5, 5]))
    assert (records.tolist(), groups.tolist()) == ([1, 2, 0, 1, 2], [0, 0, 1, 1, 1])
    pairs = zip(turns.starts, turns.ends, strict=True)
    assert [turns.turns[start:end].tolist() for start, end in pairs] == [[3, 5], [5, 7, 9], [1], [1], [1]]
    nothing = np.empty(0, np.int64)
    assert [len(part) for part in by_records(nothing, nothing, nothing)[:2]] == [0, 0]
