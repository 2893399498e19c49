"""Ranks that help each other: what is missing is made by every rank that has time, and hardly any unit twice."""

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.run.status import read_status
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import IncompleteError, UsageError
from prepcli.processes.ranks import Rank, detect_rank
from tests.conftest import tree
from tests.engine.toy import ToyJob
from tests.support.running import HANG_SECONDS

NUM_UNITS = 12
LAUNCH = "slurm-1.0.0"
NO_WAIT: Callable[[Unit], None] = lambda _: None  # noqa: E731


class Launch:
    """Ranks of one output, each a process; it is noted which rank begins which unit."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.log = folder, folder / "out", folder / "log"
        self.log.mkdir()
        self.processes: list[Any] = []

    def run(self, rank: Rank, before_unit: Callable[[Unit], None] = NO_WAIT, **options: Any) -> Report:
        def note(unit: Unit) -> None:
            (self.log / f"{unit.id}.{rank.rank}.{time.monotonic_ns()}").touch()
            before_unit(unit)

        job = ToyJob(self.out, num_units=NUM_UNITS, before_unit=note, bad=frozenset({5}))
        return run_job(job, Workspace(self.out), RunOptions(rank=rank, budget=Budget(10), **options))

    def start(self, number: int, before_unit: Callable[[Unit], None] = NO_WAIT) -> Any:
        process = multiprocessing.get_context("fork").Process(target=self._checked, args=(number, before_unit))
        process.start()
        self.processes.append(process)
        return process

    def _checked(self, number: int, before_unit: Callable[[Unit], None]) -> None:
        self.run(rank(number), before_unit)  # "incomplete", if two other ranks are making what is left

    def wait(self) -> None:
        for process in self.processes:
            process.join(HANG_SECONDS)
            assert process.exitcode == 0

    def begun_by(self, number: int) -> set[str]:
        return {path.name.partition(".")[0] for path in self.log.glob(f"*.{number}.*")}

    def wait_until_begun(self, number: int) -> None:
        self._wait_until(lambda: bool(self.begun_by(number)))

    def wait_for_units(self, count: int) -> None:
        self._wait_until(lambda: len(list(self.folder.glob("out.prepcli/*/units/unit_*/unit.json"))) >= count)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def check(self, twice: int = 0) -> None:
        """All is done, the bytes are those of one rank, and so many units were begun twice at most."""
        begun = [path.name.partition(".")[0] for path in self.log.iterdir()]
        assert set(begun) == {f"unit_{number:03d}" for number in range(NUM_UNITS)}
        assert len(begun) <= NUM_UNITS + twice
        alone = self.folder / "alone"
        job = ToyJob(alone, num_units=NUM_UNITS, bad=frozenset({5}))
        run_job(job, Workspace(alone), RunOptions(budget=Budget(10)))
        assert tree(self.out) == tree(alone)
        rejects = [(self.folder / f"{name}.prepcli/rejects.jsonl").read_bytes() for name in ("out", "alone")]
        assert rejects[0] == rejects[1]
        assert read_status(Workspace(self.out)).state == "finished"
        assert sorted(path.name for path in self.folder.glob("out.prepcli/*/tmp/*")) == []


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    return Launch(tmp_path)


def rank(number: int, launch_id: str | None = LAUNCH, world_size: int = 3) -> Rank:
    return Rank(number, world_size, launch_id=launch_id)


def test_a_rank_makes_what_others_have_not_begun(launch: Launch) -> None:
    assert launch.run(rank(1)).status == "done"
    launch.check()
    assert launch.run(rank(0)).status == "nothing_to_do"


@pytest.mark.parametrize(("launch_id", "options"), [(LAUNCH, {"steal": False}), (None, {})])
def test_ranks_that_keep_to_their_shares(launch: Launch, launch_id: str | None, options: dict[str, Any]) -> None:
    """As with an array whose tasks start hours apart, in any order."""
    for number in (2, 0):
        assert launch.run(rank(number, launch_id), **options).status == "incomplete"
        assert len(launch.begun_by(number)) == NUM_UNITS / 3
    assert not list(launch.out.glob("*"))
    assert launch.run(rank(1, launch_id), **options).status == "done"
    launch.check()


def test_another_number_of_ranks_continues(launch: Launch) -> None:
    assert launch.run(rank(1), steal=False).status == "incomplete"
    assert launch.run(Rank(0, 2), steal=False).status == "incomplete"
    assert launch.run(Rank(1, 2)).status == "done"
    launch.check()


def test_a_slow_rank_is_helped_and_stops_when_its_unit_is_there(launch: Launch) -> None:
    """It would work on its first unit forever; all others, and that one, are made by the others."""
    launch.start(0, lambda _: time.sleep(HANG_SECONDS))
    launch.wait_until_begun(0)
    (first,) = launch.begun_by(0)
    status = read_status(Workspace(launch.out))
    assert status.ranks[0].working_on == [first]
    for number in (1, 2):
        launch.start(number, lambda _: time.sleep(0.01))
    launch.wait()
    assert launch.begun_by(0) == {first}
    ranks = read_status(Workspace(launch.out)).ranks
    assert [rank.state for rank in ranks] == ["done"] * 3
    launch.check(twice=2)


def test_units_in_the_hands_of_others_come_last_and_are_made_as_well(launch: Launch) -> None:
    def hold(_: Unit) -> None:
        launch.wait_for_units(NUM_UNITS - 2)  # the rest is in the hands of two ranks

    for number in (0, 1):
        launch.start(number, hold)
        launch.wait_until_begun(number)
    held = launch.begun_by(0) | launch.begun_by(1)
    launch.run(rank(2))
    launch.wait()
    order = sorted(launch.log.glob("*.2.*"), key=lambda path: int(path.name.split(".")[2]))
    assert not held.intersection(path.name.partition(".")[0] for path in order[: NUM_UNITS - 2])
    launch.check(twice=2)


def test_a_rank_that_is_killed_is_helped(launch: Launch) -> None:
    dead = launch.start(0, lambda _: time.sleep(HANG_SECONDS))
    launch.wait_until_begun(0)
    dead.kill()
    dead.join()
    launch.processes.clear()
    assert launch.run(rank(1)).status == "done"
    launch.check(twice=1)


def test_one_rank_commits_and_the_others_find_it_done(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    finish, ends = ToyJob.finish, launch.folder / "ends"
    ends.mkdir()

    def counted(*arguments: Any) -> Any:
        (ends / str(time.monotonic_ns())).touch()
        return finish(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(ToyJob, "finish", counted)
        for number in range(3):
            launch.start(number, lambda _: time.sleep(0.02))
        launch.wait()
    assert len(list(ends.iterdir())) == 1
    launch.check(twice=3)


def slurm(number: int, restarts: int = 0) -> Rank:
    step = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0"}
    return detect_rank(step | {"SLURM_PROCID": str(number), "SLURM_RESTART_COUNT": str(restarts)})


def test_a_requeued_job_continues_what_it_began_to_overwrite(launch: Launch) -> None:
    """The set stays whole until the commit, and no start clears what another one has made."""
    launch.run(Rank())
    before = tree(launch.out)
    for path in launch.log.iterdir():
        path.unlink()

    def stop(unit: Unit) -> None:
        if len(launch.begun_by(0)) > 3:  # the worker goes on until it is ended
            time.sleep(HANG_SECONDS)
        if len(launch.begun_by(0)) > 2:
            raise IncompleteError("stopped")

    with pytest.raises(IncompleteError):
        launch.run(slurm(0), stop, overwrite=True)
    launch.run(slurm(1), overwrite=True, steal=False)
    assert tree(launch.out) == before
    begun = {path.name.partition(".")[0] for path in launch.log.iterdir()}
    assert len(begun) < NUM_UNITS
    assert launch.run(slurm(1, restarts=1), overwrite=True).status == "done"
    launch.check(twice=2)  # those at which the first start stopped
    assert launch.run(slurm(0, restarts=1), overwrite=True).status == "nothing_to_do"


def test_ranks_that_start_again_need_a_launch_id(launch: Launch) -> None:
    launch.run(Rank())
    with pytest.raises(UsageError, match="--launch-id"):
        launch.run(rank(0, launch_id=None), overwrite=True)
