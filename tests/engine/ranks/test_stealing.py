"""No rank is idle while work is left: units of slow, dead and missing ranks are done by the others, once."""

import multiprocessing
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.ranks.claims import Claims
from prepcli.engine.ranks.stealing import Crew, claims_folder, remove_dead_claims, units_in_hand
from prepcli.engine.run import run
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.run.starting import check_inputs
from prepcli.engine.run.status import read_status
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import PrepcliError
from prepcli.processes import owner
from prepcli.processes.owner import Life, Owner
from prepcli.processes.ranks import Rank
from tests.conftest import tree
from tests.engine.toy import ToyJob
from tests.support.running import HANG_SECONDS, prepcli
from tests.support.tools import slow

NUM_UNITS = 12
LAUNCH = "slurm-1.0.0"


class Launch:
    """A launch of ranks, each a process; it is noted which rank does which unit."""

    def __init__(self, folder: Path, world_size: int) -> None:
        self.out = folder / "out"
        self.log = folder / "log"
        self.log.mkdir()
        self.world_size = world_size
        self.folder = folder

    def run(self, number: int, before_unit: Callable[[Unit], None] = lambda _: None, **options: Any) -> Report:
        def note(unit: Unit) -> None:
            (self.log / f"{unit.id}.{number}.{time.monotonic_ns()}").touch()
            before_unit(unit)

        job = ToyJob(self.out, num_units=NUM_UNITS, before_unit=note, bad=frozenset({5}))
        rank = Rank(number, self.world_size, launch_id=LAUNCH)
        given: dict[str, Any] = {"rank": rank, "budget": Budget(10)} | options
        return run_job(job, Workspace(self.out), RunOptions(**given))

    def start(self, number: int, before_unit: Callable[[Unit], None] = lambda _: None) -> Any:
        process = multiprocessing.get_context("fork").Process(target=self._check_run, args=(number, before_unit))
        process.start()
        return process

    def _check_run(self, number: int, before_unit: Callable[[Unit], None]) -> None:
        assert self.run(number, before_unit).status in ("done", "nothing_to_do")

    def done_by(self, number: int) -> set[str]:
        return {path.name.partition(".")[0] for path in self.log.glob(f"*.{number}.*")}

    def wait_for_units(self, count: int) -> None:
        """Until so many units are published."""
        done, deadline = Workspace(self.out).root / "done", time.monotonic() + HANG_SECONDS
        while len(list(done.glob("unit_*.json"))) < count and time.monotonic() < deadline:
            time.sleep(0.01)

    def check(self, twice: int = 0) -> None:
        """All is done, the bytes are those of one rank, and nothing is left behind."""
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
        assert not (self.folder / "out.prepcli/claims").exists()


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    return Launch(tmp_path, 3)


def join(*processes: Any) -> None:
    for process in processes:
        process.join(HANG_SECONDS)
        assert process.exitcode == 0


@pytest.mark.slow
def test_a_rank_that_never_starts(launch: Launch) -> None:
    def wait_for_both(_: Unit) -> None:  # else one may do all before the other begins
        deadline = time.monotonic() + HANG_SECONDS
        while not (launch.done_by(0) and launch.done_by(2)) and time.monotonic() < deadline:
            time.sleep(0.01)

    join(*(launch.start(number, wait_for_both) for number in (0, 2)))
    assert launch.done_by(0) and launch.done_by(2)
    launch.check()


@pytest.mark.slow
def test_ranks_of_even_speed_do_each_unit_once(launch: Launch) -> None:
    join(*(launch.start(number, lambda _: time.sleep(0.05)) for number in range(3)))
    launch.check()


def test_units_of_a_slow_rank_are_taken_from_the_end_of_its_list(launch: Launch) -> None:
    slow = launch.start(0, lambda _: launch.wait_for_units(NUM_UNITS - 1))
    while not launch.done_by(0):
        time.sleep(0.01)
    first = read_status(Workspace(launch.out)).ranks[0]
    assert set(first.working_on) == launch.done_by(0)
    assert f"rank 0: running, 0 of 4 units, 0% on {first.host}, at unit_0" in prepcli("status", launch.out).out
    join(*(launch.start(number, lambda _: time.sleep(0.01)) for number in (1, 2)), slow)
    assert len(launch.done_by(0)) == 1, "its share is four units"
    ranks = read_status(Workspace(launch.out)).ranks
    assert [one.units_total for one in ranks] == [one.units_done for one in ranks], "units that others took are theirs"
    assert (ranks[0].units_done, sum(one.units_done for one in ranks)) == (1, NUM_UNITS)
    launch.check()


def test_a_rank_dies_holding_a_claim(launch: Launch) -> None:
    dead = launch.start(0, lambda _: time.sleep(HANG_SECONDS))
    while not launch.done_by(0):
        time.sleep(0.01)
    dead.kill()
    dead.join()
    join(*(launch.start(number) for number in (1, 2)))
    launch.check(twice=2)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [-3600, slow(3600)])
def test_a_rank_dies_on_another_machine_whose_clock_differs(
    launch: Launch, shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can look the process up; its heartbeat has stopped, whatever times the files have."""
    monkeypatch.setattr(Claims.__init__, "__defaults__", (3.0,))
    monkeypatch.setattr(owner, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(Owner, "is_gone", property(lambda self: None if self.rank_id == "elsewhere" else False))
    folder = claims_folder(Workspace(launch.out).root, LAUNCH, launch.world_size)
    elsewhere = Claims(folder, 0, Life(folder.parent, "elsewhere"))
    elsewhere.begin()
    assert elsewhere.take("unit_011") and elsewhere.take("unit_003")
    for path in folder.iterdir():
        os.utime(path, (time.time() + shift, time.time() + shift))
    join(*(launch.start(number) for number in (1, 2)))
    launch.check()


def test_progress_is_never_more_than_all(launch: Launch) -> None:
    launch.run(2)
    rank = read_status(Workspace(launch.out)).ranks[2]
    assert (rank.units_done, rank.units_total, rank.share_done) == (NUM_UNITS, NUM_UNITS, 1.0)


def test_no_steal_leaves_the_units_of_others(launch: Launch) -> None:
    for number in (0, 2):
        assert launch.run(number, steal=False).status == "incomplete"
    assert launch.run(1, steal=False).status == "done"
    launch.check()


def test_a_marker_that_is_listed_late_is_not_missing(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on NFS: the rank that came first has seen it, and the other one sees it when it opens it."""
    assert launch.run(0, rank=Rank(0, 2)).status == "incomplete"
    assert launch.run(0).status == "done"
    monkeypatch.setattr(run, "_names_in", lambda folder: set())
    assert launch.run(1).status == "done"
    launch.check()


def test_without_a_launch_id_ranks_keep_to_their_shares(launch: Launch) -> None:
    assert launch.run(0, rank=Rank(0, 2)).status == "incomplete"
    assert launch.run(1, rank=Rank(1, 2)).status == "done"
    launch.check()


def test_the_end_of_a_run_is_written_by_another_rank_if_one_dies_there(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        os._exit(9)

    with monkeypatch.context() as patched:
        patched.setattr(ToyJob, "finish", die)
        dead = launch.start(0)
        dead.join(HANG_SECONDS)
        assert dead.exitcode == 9
    assert launch.run(1).status == "done"
    launch.check()


def test_one_rank_writes_the_end_of_a_run(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one has done its last unit, and finds the end written when it looks."""
    finish, ends = ToyJob.finish, []

    def counted(*arguments: Any) -> Any:
        ends.append(arguments)
        return finish(*arguments)

    def late(_: object) -> None:
        monkeypatch.setattr(run, "check_inputs", check_inputs)
        assert launch.run(0).status == "done"

    monkeypatch.setattr(ToyJob, "finish", counted)
    monkeypatch.setattr(run, "check_inputs", late)
    assert launch.run(1).status == "done"
    assert len(ends) == 1
    launch.check()


def test_a_failed_rank_frees_its_units(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the unit of a worker that is killed at work because another one has failed."""
    monkeypatch.setattr(
        "prepcli.engine.ranks.claims.EMPTY_SECONDS", 1.0
    )  # a worker may be killed before it signs a claim

    def fail(unit: Unit) -> None:
        if unit.id != "unit_006":
            time.sleep(HANG_SECONDS)
        while "unit_011" not in launch.done_by(0):
            time.sleep(0.01)
        raise ValueError(unit.id)

    with pytest.raises(PrepcliError, match="unit_006"):
        launch.run(0, fail, num_workers=2)
    assert {"unit_006", "unit_011"} <= launch.done_by(0), "they have begun"
    assert units_in_hand(Workspace(launch.out).root, LAUNCH, launch.world_size) == {}
    assert launch.run(1).status == "done"
    launch.check(twice=3)


def test_the_order_of_taking(tmp_path: Path) -> None:
    """From the end of the list of the rank with most seconds left; not what is done, and not what others have begun."""
    units = [Unit(name, cost, 1) for name, cost in (("a", 9.0), ("b", 2.0), ("c", 5.0), ("d", 4.0), ("e", 1.0))]
    a, b, c, d, e = units
    workspace = Workspace(tmp_path / "out")
    crew = Crew(workspace, Rank(1, 3, launch_id="x"), [[a, b], [], [c, d, e]])
    crew.claims.begin()
    assert [unit.id for unit in crew.takeable([])] == ["b", "e", "a", "d", "c"]
    other = Claims(claims_folder(workspace.root, "x", 3), 0, Life(workspace.root / "claims", "other"))
    other.begin()
    assert other.take("a")
    assert [unit.id for unit in crew.takeable(["d"])] == ["e", "c", "b"]
    crew.disband()
    assert not other.take("b"), "the folder is made again"
    assert other.take("b")
    shutil.rmtree(workspace.root)


def gone() -> Owner:
    """A process of this machine that has ended."""
    process = multiprocessing.get_context("fork").Process(target=int)
    process.start()
    assert process.pid is not None
    found = Owner("gone", owner.this_place(), process.pid, owner.start_time(process.pid) or 0)
    process.join()
    return found


def claimed(root: Path, launch: str, *holders: Owner) -> Path:
    folder = claims_folder(root, launch, 2)
    folder.mkdir(parents=True)
    for number, holder in enumerate(holders):
        (folder / f"unit_{number}.0").write_text(f"{number} {holder}")
    return folder


def test_claims_of_a_launch_whose_ranks_have_ended_are_removed(tmp_path: Path) -> None:
    dead, alive, far, silent = gone(), Owner.of_this_process("alive"), Owner("far", "x", 1, 1), Owner("old", "x", 1, 1)
    workspace = Workspace(tmp_path / "out")
    claims = workspace.root / "claims"
    kept = [claimed(workspace.root, "half", dead, alive), claimed(workspace.root, "elsewhere", far)]
    for one in (dead, alive, far, silent):
        (claims / f"rank-{one}").write_text("1")
    os.utime(claims / f"rank-{silent}", (time.time() - 2 * owner.DELETE_SECONDS,) * 2)
    before = tree(claims)
    claimed(workspace.root, "ended", dead, dead)
    claimed(workspace.root, "silent", silent)
    claimed(workspace.root, "empty")
    remove_dead_claims(workspace)
    assert tree(claims) == before
    assert sorted(path for path in claims.iterdir() if path.is_dir()) == sorted(kept)
    workspace.life.remove_ended()
    assert sorted(path.name for path in claims.glob("rank-*")) == [f"rank-{alive}", f"rank-{far}"]
