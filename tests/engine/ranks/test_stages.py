"""`status` before there is a plan: what is done with the manifests, how far it is, and which rank does it."""

import os
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from prepcli.engine.ranks.stages import begin_stage, preparing
from prepcli.engine.run.status import Status, read_status
from prepcli.engine.state.workspace import Workspace
from prepcli.manifest import index as index_module
from prepcli.manifest import scan, shared_index
from prepcli.processes.owner import Owner
from prepcli.processes.ranks import Rank
from tests.conftest import SHORT_CORPUS
from tests.support.running import prepcli

MANIFEST = SHORT_CORPUS / "manifest.json"
TARRED = ("--num-shards", 3, "--num-workers", 1)
ELSEWHERE = Owner("abc", "0" * 16, 1, 1)


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_index, "MIN_SHARED_BYTES", 0)
    for module in (scan, shared_index, index_module):
        monkeypatch.setattr(module, "RANGE_BYTES", 3000)


def look(module: object, name: str, out: Path, monkeypatch: pytest.MonkeyPatch) -> list[Status]:
    """The states that `status` would have given each time that the job calls a function."""
    real: Callable[..., object] = getattr(module, name)
    found: list[Status] = []

    def looked(*arguments: object, **named: object) -> object:
        found.append(read_status(Workspace(out)))
        return real(*arguments, **named)

    monkeypatch.setattr(module, name, looked)
    return found


def test_each_stage_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prepcli.commands.manifest_to_tarred import planning

    out = tmp_path / "out"
    read, joined, planned = (
        look(module, name, out, monkeypatch)
        for module, name in ((shared_index, "write_parts"), (shared_index, "save_index"), (planning, "plan_sets"))
    )
    assert prepcli("manifest-to-tarred", MANIFEST, out, *TARRED).code == 0
    assert len(read) > 2
    assert [one.stage_done for one in read] == list(range(len(read)))
    assert {(one.state, one.command) for one in read} == {("planning", "manifest-to-tarred")}
    assert {one.stage_total for one in read} == {len(read)}
    assert [(one.stage, one.stage_done, one.stage_total) for one in joined] == [("joining what was read", 0, 1)]
    assert [(one.stage, one.stage_done, one.stage_total) for one in planned] == [("planning", 0, 1)]
    at_work = [[(rank.rank, rank.host) for rank in one.ranks] for one in (*read, *joined, *planned)]
    assert at_work == [[(0, socket.gethostname())]] * len(at_work)
    assert prepcli("status", out, "--json").json["state"] == "finished"


def begin_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 2, on another machine, begins to read."""
    with monkeypatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: "node7")
        patch.setattr(Owner, "of_this_process", lambda _: ELSEWHERE)
        workspace = Workspace(folder.parents[2] / "out")
        workspace.rank = Rank(2, 4)
        begin_stage(folder, workspace, "reading manifests", 4, "parts/*")


def test_a_rank_that_goes_on_after_the_lock_has_not_stopped(tmp_path: Path) -> None:
    """Between the lock of the index and the plan, the rank is known by its process alone."""
    out, folder = tmp_path / "out", tmp_path / "out.prepcli/index/a"
    folder.mkdir(parents=True)
    begin_stage(folder, Workspace(out), "planning", 1, "plan/*")
    assert read_status(Workspace(out)).state == "planning"


@pytest.mark.parametrize("ahead", [-1000.0, 1000.0])
def test_a_file_server_with_another_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float) -> None:
    """Times of files are compared with its clock, which a new file tells; where none can be made, with ours."""
    folder = tmp_path / "out.prepcli/index/a"
    folder.mkdir(parents=True)
    begin_elsewhere(folder, monkeypatch)
    os.utime(folder / "stage.json", (time.time() - 2000,) * 2)
    lock, real = folder / "lock", time.time
    lock.write_text(str(ELSEWHERE))

    def state() -> str:
        return read_status(Workspace(tmp_path / "out")).state

    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: real() + ahead)
        assert state() == "planning"
        os.utime(lock, (real() - 200,) * 2)
        assert state() == "stopped"
    os.utime(lock)
    monkeypatch.setattr(tempfile, "TemporaryFile", Mock(side_effect=PermissionError))
    assert state() == "planning"


def test_a_rank_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the time of its lock tells whether it still reads."""
    out = tmp_path / "out"
    folder = tmp_path / "out.prepcli/index/a"
    (folder / "parts").mkdir(parents=True)
    begin_elsewhere(folder, monkeypatch)
    (folder / "parts/read-000000").touch()
    os.utime(folder / "stage.json", (time.time() - 200,) * 2)
    lock = folder / "lock"
    lock.write_text(str(ELSEWHERE))
    alive = prepcli("status", out)
    assert "planning before the first unit" in alive.out
    assert "reading manifests, 1 of 4 done" in alive.out
    assert "rank 2 on node7" in alive.out
    os.utime(lock, (time.time() - 200,) * 2)
    dead = prepcli("status", out)
    assert "stopped before the first unit" in dead.out
    assert "rank 2" not in dead.out
    assert "continue with: cd " in dead.out
    both = prepcli("status", out, tmp_path / "other")
    assert "stopped: reading manifests" in both.out
    assert "1/4" in both.out
    assert prepcli("status", out, "--watch", "--every", 0.1).code == 4


def test_ranks_that_prepare_at_the_same_time_take_no_folder_away(tmp_path: Path) -> None:
    """The first one that is ready goes on to make the folders of the run, and others are still in the middle."""
    first, second = Workspace(tmp_path / "out"), Workspace(tmp_path / "out")
    first.rank, second.rank = Rank(0, 2), Rank(1, 2)
    with preparing(second, "loading the model"):
        with preparing(first, "loading the model"):
            pass
        assert read_status(Workspace(tmp_path / "out")).stage == "loading the model"
    for name in ("alone", "file"):
        alone = Workspace(tmp_path / name)
        if name == "file":
            (tmp_path / "file.prepcli").write_text("in the way of the stage, which only status needs")
        with preparing(alone, "loading the model"):
            pass
    assert not (tmp_path / "alone.prepcli").exists()
