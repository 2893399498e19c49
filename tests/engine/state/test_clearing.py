"""`--overwrite` that was killed while it removed files: the next run takes nothing of what is left for its own."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from prepcli.engine.publishing import publish
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run import starting
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.run import run_job
from prepcli.engine.state import clearing
from prepcli.engine.state.clearing import clear_refused
from prepcli.engine.state.plan import StoredPlan, Unit
from prepcli.engine.state.workspace import Workspace, write_json
from prepcli.errors import PrepcliError, UsageError
from prepcli.processes.owner import DELETE_SECONDS, Owner, start_time, this_place
from tests.conftest import tree
from tests.engine.toy import ToyJob
from tests.support.running import HANG_SECONDS

OPTIONS = RunOptions(budget=Budget(1))


def overwrite_in_a_process_that_dies(out: Path, num_units: int, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies when it has removed so many files or folders."""
    pid = os.fork()
    if pid == 0:
        removed = 0

        def dying(remove: Callable[..., object]) -> Callable[..., None]:
            def call(*arguments: object, **more: object) -> None:
                nonlocal removed
                removed += 1
                if removed > after:
                    os._exit(9)
                remove(*arguments, **more)

            return call

        monkeypatch.setattr(Path, "unlink", dying(Path.unlink))
        monkeypatch.setattr(shutil, "rmtree", dying(shutil.rmtree))
        try:
            run_job(ToyJob(out, num_units=num_units), Workspace(out), replace(OPTIONS, overwrite=True))
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


@pytest.mark.parametrize("after", [1, 5, 9, 14])
@pytest.mark.parametrize("again", [True, False])
def test_the_next_run_begins_from_nothing(
    after: int, again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the option or without it, and with fewer units than there were: no file of the former set stays."""
    out, whole = tmp_path / "out", tmp_path / "whole"
    run_job(ToyJob(out, num_units=8), Workspace(out), OPTIONS)
    run_job(ToyJob(whole, num_units=3, seed=5), Workspace(whole), OPTIONS)
    overwrite_in_a_process_that_dies(out, 8, after, monkeypatch)
    report = run_job(ToyJob(out, num_units=3, seed=5), Workspace(out), replace(OPTIONS, overwrite=again))
    assert (report.status, report.units_done) == ("done", 3)
    assert tree(out) == tree(whole)
    assert not (tmp_path / "out.prepcli/clearing.json").exists()


@pytest.mark.parametrize("when", ["make_way", "note", "mark"])
def test_a_rank_of_the_former_run_publishes_nothing_more(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it was stopped: for minutes, while another command cleared the output and finished."""
    out, whole = tmp_path / "out", tmp_path / "whole"
    run_job(ToyJob(whole, num_units=3, seed=5), Workspace(whole), OPTIONS)
    old = Workspace(out)
    old.prepare()
    old.claim(StoredPlan("toy", "former", {}, [], 0, 0, {}, 0.0, "", ""))
    old.hold("former")
    go_on = getattr(publish, when)

    def stopped(*arguments: Any) -> Any:
        monkeypatch.setattr(publish, when, go_on)
        new = ToyJob(out, num_units=3, seed=5)
        assert run_job(new, Workspace(out), replace(OPTIONS, overwrite=True)).status == "done"
        return go_on(*arguments)

    monkeypatch.setattr(publish, when, stopped)
    with UnitWriter(old, "former", Unit("unit_000", 1.0, 0)) as writer:
        for name in ("unit_000.txt", "unit_003.txt"):
            writer.open(name).write(b"of the former run")
        with pytest.raises((PrepcliError, FileNotFoundError)):
            writer.publish()
    with pytest.raises(PrepcliError, match="another command has started again"):
        old.check_claim()
    assert tree(out) == tree(whole)
    assert run_job(ToyJob(out, num_units=3, seed=5), Workspace(out), OPTIONS).status == "nothing_to_do"


def test_a_rank_of_the_former_run_that_goes_on_while_files_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files would stay: they are not among those that were found."""
    out, whole = tmp_path / "out", tmp_path / "whole"
    run_job(ToyJob(whole, num_units=3, seed=5), Workspace(whole), OPTIONS)
    old, find = Workspace(out), clearing.take_stock
    old.prepare()
    old.claim(StoredPlan("toy", "former", {}, [], 0, 0, {}, 0.0, "", ""))
    monkeypatch.setattr(old, "check_claim", lambda: None)  # it has looked just before

    def late(*arguments: Any) -> Any:
        found = find(*arguments)
        with pytest.raises(FileNotFoundError):
            writer.publish()
        return found

    monkeypatch.setattr(clearing, "take_stock", late)
    with UnitWriter(old, "former", Unit("unit_003", 1.0, 0)) as writer:
        writer.open("unit_003.txt").write(b"of the former run")
        new = ToyJob(out, num_units=3, seed=5)
        assert run_job(new, Workspace(out), replace(OPTIONS, overwrite=True)).status == "done"
    assert tree(out) == tree(whole)


def test_a_plan_that_a_late_rank_of_the_former_run_writes_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked for a plan before the clearing began, and finds a place for its own while files are removed."""
    out, find = tmp_path / "out", clearing.take_stock
    run_job(ToyJob(out), Workspace(out), OPTIONS)
    late = StoredPlan("toy", "former", {}, [], 0, 0, {}, 0.0, "", "")

    def found(*arguments: Any) -> Any:
        assert Workspace(out).claim(late) == late
        return find(*arguments)

    monkeypatch.setattr(clearing, "take_stock", found)
    job, workspace = ToyJob(out, num_units=3, seed=5), Workspace(out)
    clearing.clear(workspace, job, job.plan(workspace))
    assert not workspace.plan_file.exists()


def test_a_plan_of_others_is_not_held(tmp_path: Path) -> None:
    """As when the rank was stopped after it had read its own."""
    workspace = Workspace(tmp_path / "out")
    workspace.prepare()
    workspace.claim(StoredPlan("toy", "another", {}, [], 0, 0, {}, 0.0, "", ""))
    with pytest.raises(PrepcliError, match="another command has started again"):
        workspace.hold("own")


def test_a_run_does_not_begin_while_another_command_clears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if that has begun since the run looked for it: what it publishes would be half removed."""
    workspace = Workspace(tmp_path / "out")
    claim = Workspace.claim

    def late(own: Workspace, plan: StoredPlan) -> StoredPlan | None:
        write_json(own.root / "clearing.json", {"command": "toy"})
        return claim(own, plan)

    monkeypatch.setattr(Workspace, "claim", late)
    with pytest.raises(PrepcliError, match="another command has started again"):
        run_job(ToyJob(workspace.folder), workspace, OPTIONS)
    assert tree(workspace.folder) == {}


@pytest.mark.parametrize("after", [5, 14])
def test_the_former_run_is_not_continued(after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its markers are still there, and most of its files."""
    out, whole = tmp_path / "out", tmp_path / "whole"
    for folder in (out, whole):
        run_job(ToyJob(folder, num_units=8), Workspace(folder), OPTIONS)
    overwrite_in_a_process_that_dies(out, 8, after, monkeypatch)
    assert run_job(ToyJob(out, num_units=8), Workspace(out), OPTIONS).units_done == 8
    assert tree(out) == tree(whole)


def test_what_another_command_has_cleared_meanwhile_is_not_cleared_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This one has found an interrupted removal, and then another has completed it and run: its files stay."""
    out = tmp_path / "out"
    run_job(ToyJob(out, num_units=3), Workspace(out), OPTIONS)
    before = tree(out)
    monkeypatch.setattr(starting, "is_being_cleared", lambda *_: True)
    assert run_job(ToyJob(out, num_units=3), Workspace(out), OPTIONS).status == "nothing_to_do"
    assert tree(out) == before


def claimed_by(out: Path, owner: Owner, command: str = "toy") -> None:
    """As a process leaves it that has begun to clear."""
    root = out.with_name(f"{out.name}.prepcli")
    (root / "claims").mkdir(parents=True, exist_ok=True)
    (root / "claims/clear.0").write_text(f"0 {owner}")
    (root / f"claims/rank-{owner}").write_text("1")
    write_json(root / "clearing.json", {"command": command})


def test_only_one_process_clears(tmp_path: Path) -> None:
    """Another command is refused, or waits if it would clear as well."""
    out = tmp_path / "out"
    run_job(ToyJob(out), Workspace(out), OPTIONS)
    before = tree(tmp_path)
    with subprocess.Popen(["sleep", str(HANG_SECONDS)]) as other, ThreadPoolExecutor(1) as pool:
        claimed_by(out, Owner("0", this_place(), other.pid, start_time(other.pid) or 0))
        with pytest.raises(UsageError, match="another command is clearing"):
            run_job(ToyJob(out), Workspace(out), OPTIONS)
        assert before.items() <= tree(tmp_path).items()
        again = pool.submit(run_job, ToyJob(out, seed=1), Workspace(out), replace(OPTIONS, overwrite=True))
        with pytest.raises(TimeoutError):
            again.result(1.0)
        assert before.items() <= tree(tmp_path).items()
        other.kill()
        other.wait()
        assert again.result(HANG_SECONDS).status == "done"
    assert not list((tmp_path / "out.prepcli").glob("cl*"))


def test_one_that_has_failed_keeps_nobody_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example because it may not remove a file."""
    out = tmp_path / "out"
    run_job(ToyJob(out), Workspace(out), OPTIONS)
    with monkeypatch.context() as patch:
        patch.setattr(clearing, "_take_drafts", Mock(side_effect=PermissionError("denied")))
        with pytest.raises(PrepcliError, match="denied"):
            run_job(ToyJob(out), Workspace(out), replace(OPTIONS, overwrite=True))
    assert (tmp_path / "out.prepcli/clearing.json").exists()
    assert run_job(ToyJob(out, seed=1), Workspace(out), OPTIONS).status == "done"


@pytest.mark.parametrize("overwrite", [True, False])
def test_one_on_another_machine_that_is_silent_for_an_hour(overwrite: bool, tmp_path: Path) -> None:
    """What it has left is cleared at once; before that it may still be at it."""
    out = tmp_path / "out"
    options = replace(OPTIONS, overwrite=overwrite)
    claimed_by(out, Owner("far", "elsewhere", 1, 1))
    if not overwrite:
        for name in ("claims/rank-far-elsewhere-1-1", "clearing.json"):
            os.utime(tmp_path / "out.prepcli" / name, (time.time() - DELETE_SECONDS / 2,) * 2)
        with pytest.raises(UsageError, match="another command is clearing"):
            run_job(ToyJob(out), Workspace(out), options)
    for name in ("claims/rank-far-elsewhere-1-1", "clearing.json"):
        os.utime(tmp_path / "out.prepcli" / name, (time.time() - 2 * DELETE_SECONDS,) * 2)
    assert run_job(ToyJob(out), Workspace(out), options).status == "done"
    claimed_by(out, Owner("far", "elsewhere", 1, 1), "another")
    for name in ("claims/rank-far-elsewhere-1-1", "clearing.json"):
        os.utime(tmp_path / "out.prepcli" / name, (time.time() - 2 * DELETE_SECONDS,) * 2)
    with pytest.raises(UsageError, match="another --overwrite was interrupted"):
        run_job(ToyJob(out), Workspace(out), OPTIONS)


def test_a_refused_command_keeps_what_another_has_begun_beside_it(tmp_path: Path) -> None:
    """Both found no state folder; only what planning makes again may go."""
    workspace = Workspace(tmp_path / "out")
    kept = workspace.root / "tmp" / "0000~of another" / "0.out"
    for path in (kept, workspace.root / "index" / "a", workspace.root / "spool" / "b"):
        path.parent.mkdir(parents=True)
        path.touch()
    clear_refused(workspace)
    assert [path for path in workspace.root.rglob("*") if path.is_file()] == [kept]
    kept.unlink()
    kept.parent.rmdir()
    clear_refused(workspace)
    assert not workspace.root.exists()
