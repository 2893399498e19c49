"""Ranks of unequal speed that take no units of each other: far apart in time, never started, on a slow disk.

Nothing is done twice or left out. `ranks/test_helping.py` has ranks that help each other.
"""

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.run.status import Status, read_status
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.processes.ranks import Rank
from tests.conftest import tree
from tests.engine.toy import ToyJob
from tests.support.running import HANG_SECONDS, prepcli

NUM_UNITS = 7
WORLD_SIZE = 3


class Disk:
    """An output directory on which it is noted how often each unit is done."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "out"
        self.log = folder / "log"
        self.log.mkdir()

    def run(self, rank: Rank, before_unit: Callable[[Unit], None] = lambda _: None) -> Report:
        def note(unit: Unit) -> None:
            (self.log / f"{unit.id}.by_rank_{rank.rank}.{time.monotonic_ns()}").touch()
            before_unit(unit)

        job = ToyJob(self.out, num_units=NUM_UNITS, before_unit=note)
        return run_job(job, Workspace(self.out), RunOptions(rank=rank, budget=Budget(10), steal=False))

    def status(self) -> Status:
        return read_status(Workspace(self.out))

    def check_each_unit_was_done_once(self, tmp_path: Path) -> None:
        done = sorted(path.name.partition(".")[0] for path in self.log.iterdir())
        assert done == [f"unit_{number:03d}" for number in range(NUM_UNITS)]
        alone = tmp_path / "alone"
        run_job(ToyJob(alone, num_units=NUM_UNITS), Workspace(alone), RunOptions(budget=Budget(10)))
        assert tree(self.out) == tree(alone)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def rank(number: int, launch_id: str | None = "slurm-1.0.0") -> Rank:
    return Rank(number, WORLD_SIZE, launch_id=launch_id)


@pytest.mark.parametrize("launch_id", ["slurm-1.0.0", None])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_ranks_that_start_minutes_apart(
    disk: Disk, tmp_path: Path, order: tuple[int, ...], launch_id: str | None
) -> None:
    """Each starts when the one before has long ended: what it finds missing is less and less, its share is not."""
    for number in order[:-1]:
        assert disk.run(rank(number, launch_id)).status == "incomplete"
    waiting = {one.rank: one.state for one in disk.status().ranks}
    assert waiting == dict.fromkeys(order[:-1], "done") | {order[-1]: "not_started"}
    assert disk.run(rank(order[-1], launch_id)).status == "done"
    disk.check_each_unit_was_done_once(tmp_path)


def test_rank_that_never_starts_is_named(disk: Disk, tmp_path: Path) -> None:
    for number in (0, 2):
        disk.run(rank(number))
    status = disk.status()
    assert [one.state for one in status.ranks] == ["done", "not_started", "done"]
    assert (status.state, bool(status.missing)) == ("stopped", True)
    shown = prepcli("status", disk.out).out
    assert "rank 1: not_started" in shown
    assert f"missing  {', '.join(status.missing)}" in shown
    for number in range(2):  # a new launch, of another size
        disk.run(Rank(number, 2, launch_id="slurm-2.0.0"))
    assert disk.status().state == "finished"
    disk.check_each_unit_was_done_once(tmp_path)


def test_rank_with_a_slower_disk(disk: Disk, tmp_path: Path) -> None:
    """Its disk stands still until the others have ended; it is named as the slowest, and finishes the job."""
    release = tmp_path / "release"

    def stand_still(_: Unit) -> None:
        while not release.exists():
            time.sleep(0.01)

    context = multiprocessing.get_context("fork")
    slow = context.Process(target=disk.run, args=(rank(1), stand_still))
    slow.start()
    try:
        for number in (0, 2):
            assert disk.run(rank(number)).status == "incomplete"
        while not any("by_rank_1" in path.name for path in disk.log.iterdir()):
            assert slow.is_alive()
            time.sleep(0.01)
        status = disk.status()
        assert (status.state, status.slowest_rank) == ("running", 1)
        assert [one.state for one in status.ranks] == ["done", "running", "done"]
        assert "slowest: rank 1" in prepcli("status", disk.out).out
    finally:
        release.touch()
        slow.join(HANG_SECONDS)
    assert slow.exitcode == 0
    assert disk.status().state == "finished"
    disk.check_each_unit_was_done_once(tmp_path)
