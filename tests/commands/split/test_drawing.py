"""Groups are drawn until a part is as large as it should be."""

import numpy as np
import pytest

from prepcli.commands.split.drawing import NO_PART, Groups, draw
from prepcli.commands.split.parts import Asked, parts_of
from prepcli.errors import UsageError


def groups(seconds: list[float], stratum: list[int] | None = None) -> Groups:
    count = len(seconds)
    return Groups(
        np.arange(1, count + 1, dtype=np.uint64),
        np.array(seconds),
        np.ones(count, np.int64),
        np.array(stratum or [0] * count),
        np.full(count, NO_PART),
        "speaker",
    )


def parts(*texts: str) -> list[Asked]:
    return parts_of(texts)


@pytest.mark.parametrize("seed", range(20))
def test_many_small_groups_meet_any_amount(seed: int) -> None:
    random = np.random.default_rng(seed)
    seconds = (random.exponential(9, random.integers(40, 80)) + 0.5).tolist()
    found = draw(groups(seconds), parts("a=rest", "b=0.3"), seed)
    got = sum(one for one, part in zip(seconds, found, strict=True) if part == 1)
    assert abs(got - 0.3 * sum(seconds)) <= max(seconds) / 2 + 1e-6
    assert NO_PART not in found


def test_a_large_group_is_passed_by() -> None:
    found = draw(groups([900.0, *[1.0] * 100]), parts("a=0.9", "b=0.1"), 3)
    assert found[0] == 0
    assert np.count_nonzero(found == 1) == 100


def test_one_group_cannot_be_divided() -> None:
    with pytest.raises(UsageError, match=r"there is only one speaker.*each record for itself .--by none"):
        draw(groups([9.0]), parts("a=0.5", "b=0.5"), 0)


def test_one_more_group_is_taken_only_if_the_part_is_then_nearer_to_its_amount() -> None:
    found = draw(groups([10.0] * 5), parts("a=rest", "b=11s"), 0)
    assert np.count_nonzero(found == 1) == 1
    found = draw(groups([10.0] * 25), parts("a=rest", "b=96s"), 0)
    assert np.count_nonzero(found == 1) == 10


@pytest.mark.parametrize("seed", range(5))
def test_small_parts_are_drawn_first(seed: int) -> None:
    """The larger part would take all small groups, and leave none for the smaller one."""
    found = draw(groups([200.0, 90.0, *[1.0] * 10]), parts("a=rest", "b=90s", "c=5s"), seed)
    assert found[:2].tolist() == [0, 1]
    assert np.count_nonzero(found == 2) == 5
