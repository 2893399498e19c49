"""Packing and the plan's digest."""

import random

import pytest

from prepcli.engine.state.plan import InputFile, Plan, Unit, max_over_mean, pack, plan_digest


def _units(costs: list[float]) -> list[Unit]:
    return [Unit(f"u{number:04d}", cost, 1) for number, cost in enumerate(costs)]


def test_pack_puts_the_longest_first_on_the_least_loaded() -> None:
    bins = pack(_units([1, 2, 3, 4, 5]), 2)
    assert [[unit.cost for unit in one] for one in bins] == [[5, 2, 1], [4, 3]]


@pytest.mark.parametrize("num_bins", [1, 2, 5, 13])
def test_pack_leaves_no_unit_out_and_none_twice(num_bins: int) -> None:
    units = _units([random.Random(7).expovariate(0.1) for _ in range(100)])
    bins = pack(units, num_bins)
    assert sorted(unit.id for one in bins for unit in one) == [unit.id for unit in units]


def test_pack_does_not_depend_on_the_order_of_the_units() -> None:
    units = _units([3, 3, 3, 1, 1, 7])
    shuffled = units[::-1]
    assert pack(units, 3) == pack(shuffled, 3)


def test_pack_is_within_grahams_bound() -> None:
    generator = random.Random(3)
    for _ in range(50):
        costs = [generator.choice([1.0, 5.0, 60.0]) * generator.random() for _ in range(40)]
        loads = [sum(unit.cost for unit in one) for one in pack(_units(costs), 4)]
        lower_bound = max(max(costs), sum(costs) / 4)
        assert max(loads) <= (4 / 3 - 1 / 12) * lower_bound + 1e-9


def test_more_bins_than_units_leaves_empty_bins() -> None:
    assert [len(one) for one in pack(_units([1, 2]), 5)].count(0) == 3


def test_spread() -> None:
    assert max_over_mean([3, 1]) == 1.5
    assert max_over_mean([0, 0]) == 1.0


def test_digest_covers_settings_inputs_and_units_but_no_paths() -> None:
    plan = Plan(_units([1.0]), 1, None, inputs=[InputFile("/a", "x")])
    digest = plan_digest("c", {"--n": 1}, plan)
    assert digest == plan_digest("c", {"--n": 1}, Plan(_units([1.0]), 1, None, inputs=[InputFile("/b", "x")]))
    assert digest != plan_digest("c", {"--n": 2}, plan)
    assert digest != plan_digest("d", {"--n": 1}, plan)
    assert digest != plan_digest("c", {"--n": 1}, Plan(_units([1.0]), 1, None, inputs=[InputFile("/a", "y")]))
    assert digest != plan_digest("c", {"--n": 1}, Plan(_units([1.0, 2.0]), 1, None, inputs=[InputFile("/a", "x")]))
    two_records = [Unit("u0000", 1.0, 2)]  # such as another size of shard where there is one
    assert digest != plan_digest("c", {"--n": 1}, Plan(two_records, 1, None, inputs=[InputFile("/a", "x")]))
