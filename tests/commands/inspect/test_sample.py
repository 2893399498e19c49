import random

import pytest

from prepcli.commands.inspect.sample import EvenSample, spread


def test_all_of_few() -> None:
    assert spread([3, 1, 2], 5) == [3, 1, 2]


def test_from_the_middle_of_equal_pieces() -> None:
    assert spread(list(range(100)), 4) == [12, 37, 62, 87]


@pytest.mark.parametrize("wanted", [1, 7, 100])
def test_a_stream_in_pieces_is_sampled_evenly(wanted: int) -> None:
    rng = random.Random(wanted)
    items = list(range(12_345))
    sample: EvenSample[int] = EvenSample(wanted)
    while items:
        size = rng.randrange(1, 500)
        sample.add(items[:size])
        items = items[size:]
        assert len(sample.items) <= 2 * wanted
    assert sample.items == list(range(0, 12_345, sample.stride))
    chosen = sample.chosen()
    assert len(chosen) == wanted
    gaps = [b - a for a, b in zip([0, *chosen], [*chosen, 12_345], strict=True)]
    assert max(gaps) <= 2.5 * 12_345 / wanted


def test_parts_keep_their_share() -> None:
    whole: EvenSample[tuple[str, int]] = EvenSample(50)
    for name, size in (("a", 9_000), ("b", 10), ("c", 3_000)):
        part: EvenSample[tuple[str, int]] = EvenSample(50)
        part.add([(name, i) for i in range(size)])
        whole.merge(part)
    assert whole.num_seen == 12_010
    chosen = [name for name, _ in whole.chosen()]
    assert len(chosen) == 50
    assert 34 <= chosen.count("a") <= 40
    assert chosen.count("b") <= 1


def test_none_wanted() -> None:
    sample: EvenSample[int] = EvenSample(0)
    sample.add([1, 2, 3])
    assert sample.chosen() == []
