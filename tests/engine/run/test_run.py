"""The engine with a job that has no audio: resuming, ranks, accounting, refusals, and faults while publishing."""

import errno
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from prepcli.engine.ledger import Ledger, run_folders
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.ranks import launch
from prepcli.engine.ranks.progress import read_progress
from prepcli.engine.run import run as module
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.run import dry_run_report, run_job
from prepcli.engine.run.status import read_status
from prepcli.engine.run.unit import Execution
from prepcli.engine.runs import FolderRun
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.stock import Stock
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import PrepcliError, TooManyRejectsError, UsageError
from prepcli.processes.notes import note
from prepcli.processes.ranks import Rank
from tests.conftest import folder_on_another_file_system, read_lines, tree
from tests.engine.folder_runs import reference
from tests.engine.toy import ToyJob, ToyPlan, ToyUnit


def run(out: Path, job: ToyJob | None = None, **options: Any) -> Any:
    given: dict[str, Any] = {"budget": Budget(10), "steal": False} | options
    return run_job(job or ToyJob(out), Workspace(out), RunOptions(**given))


def test_everything_is_accounted_for(tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = run(out, ToyJob(out, bad=frozenset({1, 2})), budget=Budget(5))
    assert (report.status, report.records_in, report.records_out, report.rejects) == ("done", 25, 22, 3)
    assert report.rejects_by_reason == {"broken_json": 1, "unreadable_audio": 2}
    assert report.skipped == 2
    stored = json.loads((tmp_path / "out.prepcli/report.json").read_text())
    assert stored["records_in"] == stored["records_out"] + stored["rejects"]
    assert stored["details"] == {"merged": 6}
    assert stored["num_bytes"] == sum(path.stat().st_size for path in out.rglob("*.txt"))
    assert [rank.rejects for rank in read_progress(Workspace(out))] == [2]


def test_a_note_of_several_units_is_in_the_report_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(out, ToyJob(out, before_unit=lambda _: note("seen")), num_workers=2).notes == ["seen"]


def test_a_note_of_an_earlier_call_that_failed_is_not_shown(tmp_path: Path) -> None:
    note("of another run")
    report = run(tmp_path / "out")
    assert report.status == "done"
    assert "of another run" not in report.notes


def test_rejects_are_the_original_lines_in_input_order(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, ToyJob(out, bad=frozenset({9, 1})))
    text = (tmp_path / "out.prepcli/rejects.jsonl").read_text()
    assert '"text":1.50' in text.replace(" ", "")  # numbers keep their text
    rejects = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert [reject["manifest_line"] for reject in rejects] == [3, 11, 19]
    assert rejects[0]["manifest_text"] == "{oops"
    assert rejects[1] == {
        "record": 1,
        "text": 1.5,
        "reject_reason": "unreadable_audio",
        "reject_detail": "made so",
        "manifest_line": 11,
        "manifest_filepath": "/data/toy.json",
    }


def test_finished_run_is_a_no_op(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert run(out).status == "nothing_to_do"
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


@pytest.mark.parametrize("world_size", [1, 2, pytest.param(5, marks=pytest.mark.slow), 9])
@pytest.mark.parametrize("launch_id", [None, pytest.param("today", marks=pytest.mark.slow)])
def test_any_number_of_ranks_gives_the_same_bytes(tmp_path: Path, world_size: int, launch_id: str | None) -> None:
    out = tmp_path / "out"
    statuses = [
        run(out, ToyJob(out, num_units=7), rank=Rank(rank, world_size, launch_id=launch_id)).status
        for rank in reversed(range(world_size))
    ]
    assert statuses.count("done") == 1
    assert statuses[-1] == "done"
    assert tree(out) == reference(tmp_path, num_units=7)


def test_ranks_of_a_launch_divide_what_was_missing_when_it_began(tmp_path: Path) -> None:
    """A rank that starts minutes later must not divide the smaller rest that it sees then."""
    out = tmp_path / "out"
    run(out, rank=Rank(0, 3))  # an earlier launch did a third
    done_before = set(read_status(Workspace(out)).missing)
    run(out, rank=Rank(1, 2, launch_id="second"))
    after_first = set(read_status(Workspace(out)).missing)
    assert run(out, rank=Rank(0, 2, launch_id="second")).status == "done"
    assert 0 < len(after_first) < len(done_before)


def test_without_a_launch_id_a_late_rank_takes_its_share_of_all_units(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(out, rank=Rank(2, 3)).status == "incomplete"
    assert run(out, rank=Rank(0, 3)).status == "incomplete"
    assert run(out, rank=Rank(1, 3)).status == "done"


def _status(out: Path, job: ToyJob) -> str:
    status: str = run(out, job, num_workers=2).status
    return status


def test_a_rank_that_looks_at_the_output_while_another_makes_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files were not there when it read to which run they belong."""
    out, real = tmp_path / "out", FolderRun._stock

    def late(of_rank: FolderRun) -> Stock:
        monkeypatch.undo()
        assert run(out).status == "done"
        return real(of_rank)

    monkeypatch.setattr(FolderRun, "_stock", late)
    assert run(out).status == "done"
    assert tree(out) == reference(tmp_path)


def test_a_rank_that_starts_while_another_makes_all_of_the_output(tmp_path: Path) -> None:
    """The state that it looked for first was not there."""
    out = tmp_path / "out"
    late = Workspace(out)
    assert run(out).status == "done"
    assert run_job(ToyJob(out), late, RunOptions()).status == "nothing_to_do"
    assert len(list(run_folders(tmp_path / "out.prepcli"))) == 1


def test_a_rank_that_reads_the_ledger_before_and_after_the_commit_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert run(out).status == "done"

    def before_the_commit(_: Workspace) -> Ledger:
        monkeypatch.undo()
        return Ledger()

    monkeypatch.setattr(Workspace, "ledger", before_the_commit)
    assert Workspace(out).has_unit_folders
    assert run(out).status == "nothing_to_do"


def test_two_processes_doing_the_same_rank_do_no_harm(tmp_path: Path) -> None:
    out = tmp_path / "out"
    job = ToyJob(out, seconds_a_unit=0.02)
    with ProcessPoolExecutor(3, get_context("fork")) as pool:
        statuses = [pool.submit(_status, out, job) for _ in range(3)]
    assert "done" in {status.result() for status in statuses}
    assert run(out).status == "nothing_to_do"
    assert tree(out) == reference(tmp_path)


def test_what_follows_a_run_is_done_for_whole_outputs_by_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the ranks that the command has started: it waits for them, and does it then."""
    out, done = tmp_path / "out", []

    def rank(number: int) -> str:
        options = RunOptions(Rank(number, 2), budget=Budget(10))
        return run_job(ToyJob(out), Workspace(out), options, lambda report: done.append(report.status)).status

    assert (rank(0), done) == ("incomplete", [])
    assert (rank(1), rank(0), done) == ("done", "nothing_to_do", ["done", "nothing_to_do"])
    monkeypatch.setattr(module, "is_own_rank", lambda: True)
    assert (rank(1), len(done)) == ("nothing_to_do", 2)


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_refused_rank_leaves_the_index_to_the_others(tmp_path: Path, world_size: int) -> None:
    class Refused(ToyJob):
        def plan(self, workspace: Workspace) -> ToyPlan:
            (workspace.index / "a").mkdir(parents=True)
            raise UsageError("refused")

    out = tmp_path / "out"
    with pytest.raises(UsageError, match="refused"):
        run(out, Refused(out), rank=Rank(0, world_size))
    assert Workspace(out).index.exists() == (world_size > 1)


def test_foreign_outputs_are_not_overwritten_unasked(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out)
    shutil.rmtree(tmp_path / "out.prepcli")
    with pytest.raises(UsageError, match=r"out\.prepcli.* is not there"):
        run(out)
    before = tree(out)
    with pytest.raises(UsageError, match=r"holds 7 file.*out\.prepcli.* is not there: all.txt, unit_000.txt"):
        run(out, overwrite=True)
    assert tree(out) == before


def test_other_file_system_is_refused_at_the_start(tmp_path: Path) -> None:
    target = folder_on_another_file_system(tmp_path)
    try:
        (tmp_path / "out.prepcli").symlink_to(target)
        with pytest.raises(UsageError, match="another file system"):
            run(tmp_path / "out")
        assert list((tmp_path / "out").iterdir()) == []
        # A link for OUT is not a problem: what belongs to it stands beside its target.
        (target / "other").mkdir()
        (tmp_path / "link").symlink_to(target / "other")
        assert run(tmp_path / "link").status == "done"
        assert (target / "other.prepcli/report.json").exists()
    finally:
        shutil.rmtree(target)


def test_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot write to .*Not a directory"):
        run(tmp_path / "file" / "out")


@pytest.mark.parametrize(("limit", "is_enough"), [(0.04, False), (0.2, True), (2, False), (3, True)])
def test_budget_is_a_share_or_a_count(tmp_path: Path, limit: float, is_enough: bool) -> None:
    out = tmp_path / "out"
    with nullcontext() if is_enough else pytest.raises(TooManyRejectsError) as raised:
        assert run(out, ToyJob(out, bad=frozenset({1, 2})), budget=Budget(limit)).status == "done"
    if raised is not None:
        assert raised.value.report.status == "too_many_rejects"


def test_a_bug_stops_the_run_and_leaves_its_traceback(tmp_path: Path) -> None:
    def fail(unit: Unit) -> None:
        if unit.id == "unit_001":
            raise ZeroDivisionError("a slip")

    out = tmp_path / "out"
    with pytest.raises(PrepcliError, match="a bug in prepcli: ZeroDivisionError") as caught:
        run(out, ToyJob(out, before_unit=fail))
    assert caught.value.exit_code == 1
    assert [rank.state for rank in read_progress(Workspace(out))] == ["failed"]
    assert "before_unit" in (tmp_path / "out.prepcli/traceback_0.txt").read_text()
    assert run(out).status == "done"
    assert tree(out) == reference(tmp_path)


def test_rejects_that_are_not_listed_are_a_bug(tmp_path: Path) -> None:
    class Silent(ToyJob):
        def reject_lines(self) -> Any:
            return iter(())

    out = tmp_path / "out"
    with pytest.raises(PrepcliError, match="1 records were rejected, but 0 are listed"):
        run(out, Silent(out))
    assert not (tmp_path / "out.prepcli/report.json").exists()


def test_killed_runs_leave_no_rubbish_behind(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, rank=Rank(0, 2))
    workspace = Workspace(out)
    stale = workspace.make_tmp("unit_000")
    stale.rename(stale.with_name(stale.name.replace(f"-{os.getpid()}-", "-999999999-")))
    run(out, rank=Rank(0, 2))
    assert list(workspace.tmp.iterdir()) == []


def test_dry_run_shows_the_spread_and_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = dry_run_report(ToyJob(out), out, Rank(0, 4))
    plan = report.details
    assert report.seconds == 75.0
    assert plan["units"] == 6
    assert sum(plan["seconds_per_rank"]) == plan["seconds"] == 75.0
    assert plan["spread_max_over_mean"] == pytest.approx(26 / 18.75, abs=1e-3) or plan["spread_max_over_mean"] > 1
    assert list(tmp_path.iterdir()) == []


def test_exit_codes_of_several_ranks() -> None:
    assert launch.combine_exit_codes([0, 0]) == 0
    assert launch.combine_exit_codes([0, 3]) == 3
    assert launch.combine_exit_codes([3, -9]) == 4
    assert launch.combine_exit_codes([4, 1]) == 1
    assert launch.combine_exit_codes([1, 2]) == 2


class JobOfThisProcess(ToyJob):
    """As the jobs with a model: the units are written here, not in workers."""

    def execute(self, plan: ToyPlan, units: Sequence[ToyUnit], execution: Execution) -> Iterator[Marker]:
        for unit in units:
            with UnitWriter(execution.workspace, execution.digest, unit) as writer:
                self.process(plan, unit, writer, execution.advance)
                marker = writer.publish()
            yield marker


def test_a_rank_that_fails_leaves_alone_what_others_of_its_process_make(tmp_path: Path) -> None:
    out = tmp_path / "out"
    other = Workspace(out)
    other.prepare()
    theirs = other.make_tmp("unit_000")

    def fail(unit: Unit) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(PrepcliError, match="No space left"):
        run(out, JobOfThisProcess(out, before_unit=fail))
    assert list(other.tmp.iterdir()) == [theirs]
