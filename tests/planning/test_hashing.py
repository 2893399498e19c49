"""Hashes: a bijection, and groups of equal keys."""

import random
from collections import Counter

import numpy as np
import pytest

from prepcli.planning.hashing import groups_of, have_several, mix64, num_distinct, occurrences
from tests.planning.test_arrays import keys_of


def test_mix64_is_a_bijection_on_a_sample() -> None:
    assert len(np.unique(mix64(np.arange(100_000, dtype=np.uint64)))) == 100_000


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("count", [0, 1, 16, 17, 333])
@pytest.mark.parametrize("distinct", [1, 9, 10_000])
def test_keys_are_compared_in_groups(count: int, distinct: int, draw: random.Random) -> None:
    keys = keys_of(draw, count, distinct)
    values = np.array([draw.randrange(3) for _ in range(count)], np.int32)
    assert sorted(np.concatenate([[], *groups_of(keys)]).tolist()) == list(range(count))
    if count == 333 and distinct > 9:
        assert len([group for group in groups_of(keys) if len(group)]) > 4
    several = Counter(key for key, _ in set(zip(keys.tolist(), values.tolist(), strict=True)))
    assert have_several(keys, values).tolist() == [several[key] > 1 for key in keys.tolist()]
    seen: Counter[int] = Counter()
    expected = []
    for key in keys.tolist():
        expected.append(seen[key])
        seen[key] += 1
    assert occurrences(keys).tolist() == expected
    assert num_distinct(keys) == len(seen)
