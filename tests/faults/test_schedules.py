"""Ranks meet in every order, on simulated machines; see `tests.faults.schedules`."""

import pathlib
import sys
from collections.abc import Callable

import pytest

from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.state.workspace import Workspace
from prepcli.processes.ranks import Rank
from tests.faults.machines import Machine
from tests.faults.ranks import World
from tests.faults.schedules import OUT, Schedule, failing, scheduler
from tests.faults.seam import simulated
from tests.faults.toy import Toy, ToyJob

Record = Callable[[str, object], None]

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the seam is for the library of Python 3.11")


def test_promises_are_kept(record_property: Record) -> None:
    """A failing seed is repeated by `python -m tests.faults.schedules --seed N`."""
    record_property("schedules", 100)
    assert failing(0, 100) == {}


@pytest.mark.slow
def test_promises_are_kept_in_many_orders(record_property: Record) -> None:
    record_property("schedules", 3_100)
    assert failing(100, 3_100) == {}


def test_rejects_are_tried_again_that_a_file_server_lists_late() -> None:
    """Another machine has listed the marks before the last ones were there, and its list is still in its cache."""
    world, bad = World(), Toy(4, bad=frozenset(range(3 * 4)))
    here, there = Machine("here"), Machine("there")
    with simulated(world) as forget:
        forget()
        world.reset(0)
        world.files.stale_seconds = 3600.0

        def run(machine: Machine, function: Callable[[], object]) -> object:
            process = world.start("", machine, 0.0, function)
            world.run()
            assert process.error is None
            return process.result

        def job(toy: Toy, rank: Rank, retry: bool = False) -> Callable[[], Report]:
            options = RunOptions(rank=rank, retry_rejects=retry, budget=Budget(1000))
            return lambda: run_job(ToyJob(toy, OUT, world), Workspace(OUT), options)

        run(here, job(bad, Rank(0, 2)))
        assert 0 < len(run(there, lambda: pathlib.os.listdir("/sim/out.prepcli/done"))) < 4  # type: ignore[arg-type, attr-defined]
        run(here, job(bad, Rank(1, 2)))
        run(there, job(Toy(4), Rank(), retry=True))
        assert world.files.tree("/sim/out") == Toy(4).files()
        world.end()


@pytest.mark.slow
def test_a_seed_repeats_its_schedule() -> None:
    """Call for call, whatever was run before."""

    def end(schedule: Schedule) -> tuple[float, dict[str, bytes]]:
        return schedule.world.now, schedule.world.files.tree("/sim")

    with scheduler() as run:
        first = [end(run(seed)) for seed in range(20)]
        again = [end(run(seed)) for seed in reversed(range(20))]
    assert first == again[::-1]
