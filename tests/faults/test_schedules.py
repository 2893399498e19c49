"""Ranks meet in every order, on simulated machines; see `tests.faults.schedules`."""

import sys
from collections.abc import Callable

import pytest

from tests.faults.schedules import Schedule, failing, scheduler

Record = Callable[[str, object], None]

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the seam is for the library of Python 3.11")


def test_promises_are_kept(record_property: Record) -> None:
    """A failing seed is repeated by `python -m tests.faults.schedules --seed N`."""
    record_property("schedules", 200)
    assert failing(0, 200) == {}


@pytest.mark.slow
def test_promises_are_kept_in_many_orders(record_property: Record) -> None:
    record_property("schedules", 3_000)
    assert failing(200, 3_000) == {}


def test_a_seed_repeats_its_schedule() -> None:
    """Call for call, whatever was run before."""

    def end(schedule: Schedule) -> tuple[float, dict[str, bytes]]:
        return schedule.world.now, schedule.world.files.tree("/sim")

    with scheduler() as run:
        first = [end(run(seed)) for seed in range(20)]
        again = [end(run(seed)) for seed in reversed(range(20))]
    assert first == again[::-1]
