"""Whose temporary directory is it, and is that process at work? Also across containers and hosts."""

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.ranks.progress import is_running_elsewhere, new_progress, progress_file, read_progress
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.run import run_job
from prepcli.engine.run.status import read_status
from prepcli.engine.run.unit import Execution
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace, write_json
from prepcli.processes import owner as owners
from prepcli.processes.owner import DELETE_SECONDS, REPEAT_SECONDS, Owner, clock_of, owner_of, start_time, this_place
from prepcli.processes.ranks import Rank
from prepcli.processes.signals import InterruptedBySignal
from prepcli.processes.workers import interrupt
from tests.engine.toy import ToyJob, ToyPlan, ToyUnit
from tests.support.running import HANG_SECONDS

MAKE = """
import sys
from dataclasses import replace
from pathlib import Path
from prepcli.engine.state.workspace import Workspace
workspace = Workspace(Path(sys.argv[1]))
workspace.prepare()
workspace.make_tmp("unit_000")
print("made", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path / "out")
    made.prepare()
    return made


def renamed(made: Path, **changes: Any) -> Path:
    """The directory as if another process had made it."""
    name, text, rest = made.name.split("~")
    owner = Owner.parse(text)
    assert owner is not None
    return made.rename(made.with_name(f"{name}~{owner._replace(**changes)}~{rest}"))


def in_a_container(command: Sequence[object]) -> "subprocess.Popen[str]":
    """A process with our host name and its own process numbers; skips where that takes more rights."""
    if subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", "true"], check=False, capture_output=True
    ).returncode:
        pytest.skip("needs the right to make a process namespace")
    return subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *map(str, command)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_directory_of_a_rank_in_another_container_is_left_alone(workspace: Workspace) -> None:
    """Equal host names, separate process numbers: theirs mean nothing here, and ours nothing there."""
    other = in_a_container([sys.executable, "-c", MAKE, workspace.out])
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "made\n"
        (made,) = workspace.tmp.iterdir()
        workspace.remove_stale_tmp()
        assert list(workspace.tmp.iterdir()) == [made]
        assert Owner.parse(made.name.split("~")[1]).is_gone is None  # type: ignore[union-attr]
    finally:
        other.communicate("", timeout=HANG_SECONDS)


def test_the_place_is_one_of_boot_host_and_namespace() -> None:
    code = "from prepcli.processes.owner import this_place; print(this_place())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == this_place()
    with in_a_container([sys.executable, "-c", code]) as other:
        assert other.communicate(timeout=HANG_SECONDS)[0].strip() != this_place()


def test_a_process_of_the_same_number_that_began_at_another_time(workspace: Workspace) -> None:
    """The number of a killed process is given to the next, who then stood for it."""
    alive, reused = workspace.make_tmp("alive"), workspace.make_tmp("reused")
    renamed(reused, started=(start_time(os.getpid()) or 0) + 1)
    os.utime(alive, (0, 0))  # a process that can be seen is alive, however silent
    workspace.remove_stale_tmp()
    assert list(workspace.tmp.iterdir()) == [alive]


@pytest.mark.parametrize("clock", [0.0, 10 * DELETE_SECONDS, -10 * DELETE_SECONDS])
def test_silence_is_told_by_the_clock_of_the_file_system(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, clock: float
) -> None:
    """Whatever our own clock shows."""
    now = clock_of(workspace.tmp)
    for name, age in (("fresh", 0.5 * DELETE_SECONDS), ("silent", 1.5 * DELETE_SECONDS)):
        made = renamed(workspace.make_tmp(name), place="another")
        os.utime(made, (now - age,) * 2)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + clock)
    workspace.remove_stale_tmp()
    assert [path.name.split("~")[0] for path in workspace.tmp.iterdir()] == ["fresh"]


def test_another_rank_is_at_work(workspace: Workspace) -> None:
    """A rank is not another one for itself, even while its own sign is being written."""
    life, observer = workspace.life, Workspace(workspace.folder).life
    with life.at_work():
        assert observer.others(REPEAT_SECONDS)
        sign_of(workspace).write_bytes(b"")
        assert observer.others(REPEAT_SECONDS)
        observer.remove_ended()
        with patch.object(owners, "this_place", return_value="another"):
            assert not observer.has_ended(life.owner, REPEAT_SECONDS), "its file is there"
            sign = sign_of(workspace)
            sign = sign.rename(sign.with_name(f"rank-{life.owner.rank_id}"))  # as in 0.3.0
            assert not observer.has_ended(life.owner, REPEAT_SECONDS)
            sign.unlink()
            assert observer.has_ended(life.owner, REPEAT_SECONDS)
        assert not life.others(REPEAT_SECONDS)
        life.beat()
        assert not life.others(REPEAT_SECONDS)
    assert not observer.others(REPEAT_SECONDS)


def test_a_signal_as_the_signs_of_life_begin_ends_them(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        begin(thread)
        interrupt(InterruptedBySignal("stopped"))

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(InterruptedBySignal), workspace.life.at_work():
        raise AssertionError("the block does not begin")
    assert not list(workspace.root.glob("claims/rank-*"))
    assert "heartbeat" not in [thread.name for thread in threading.enumerate()]


def test_a_folder_whose_state_cannot_be_read_is_left_alone(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS while another machine removes it."""
    made = renamed(workspace.make_tmp("far"), place="another")
    stat = Path.stat

    def stale(path: Path, **more: Any) -> os.stat_result:
        if path == made:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return stat(path, **more)

    monkeypatch.setattr(Path, "stat", stale)
    workspace.remove_stale_tmp()
    monkeypatch.undo()
    assert list(workspace.tmp.iterdir()) == [made]


def test_what_an_older_version_left_goes_after_a_long_silence(workspace: Workspace) -> None:
    fresh, silent = workspace.tmp / "a~host~1~x", workspace.tmp / "b~host~1~y"
    for made in (fresh, silent):
        made.mkdir()
    os.utime(silent, (0, 0))
    workspace.remove_stale_tmp()
    assert list(workspace.tmp.iterdir()) == [fresh]


def sign_of(workspace: Workspace) -> Path:
    (found,) = workspace.root.glob("claims/rank-*")
    return found


def has_ended(out: Path, made: Path) -> bool:
    """Whether the owner of a temporary directory has ended, as another machine sees it."""
    with patch.object(owners, "this_place", return_value="another"):
        return Workspace(out).life.has_ended(owner_of(made), DELETE_SECONDS, made)


class ModelJob(ToyJob):
    """A job whose main thread waits for a model, until it sees that its heart beats all the same."""

    def execute(self, plan: ToyPlan, units: Sequence[ToyUnit], execution: Execution) -> Iterator[Marker]:
        workspace = execution.workspace
        for unit in units:
            with UnitWriter(workspace, execution.digest, unit) as writer:
                (made,) = workspace.tmp.iterdir()
                os.utime(made, (0, 0))
                os.utime(sign := sign_of(workspace), (0, 0))
                self.wait(lambda sign=sign: sign.stat().st_mtime > 0)
                assert not has_ended(self.out, made)
                self.process(plan, unit, writer, execution.advance)
                marker = writer.publish()
            yield marker

    def wait(self, condition: Any) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "no heartbeat"
            time.sleep(0.01)

    def finish(self, plan: ToyPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        (made,) = Workspace(self.out).tmp.iterdir()
        os.utime(made, (0, 0))
        os.utime(sign := sign_of(Workspace(self.out)), (0, 0))
        self.wait(lambda: sign.stat().st_mtime > 0)
        assert not has_ended(self.out, made)
        return super().finish(plan, markers, writer)


def test_the_heart_beats_while_a_model_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "BEAT_SECONDS", 0.01)
    out = tmp_path / "out"
    assert run_job(ModelJob(out, num_units=3), Workspace(out), RunOptions(budget=Budget(9))).status == "done"
    assert read_progress(Workspace(out))[0].state == "done"  # no heartbeat wrote over it
    assert read_status(Workspace(out)).state == "finished"


def test_workers_are_kept_alive_by_their_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "BEAT_SECONDS", 0.01)
    out = tmp_path / "out"
    job = ModelJob(out, num_units=3)

    def compute(unit: Unit) -> None:
        (made,) = Workspace(out).tmp.glob(f"{unit.id}~*")
        os.utime(made, (0, 0))
        os.utime(sign := sign_of(Workspace(out)), (0, 0))
        job.wait(lambda: sign.stat().st_mtime > 0)
        assert not has_ended(out, made)

    worked = ToyJob(out, num_units=3, before_unit=compute)
    # One worker: a second one could make the sign old again just before it is looked at.
    assert run_job(worked, Workspace(out), RunOptions(budget=Budget(9))).status == "done"


def test_a_rank_of_our_number_in_another_container_is_another(workspace: Workspace) -> None:
    """Both are process 7 of `host`, say: neither is the other, and neither can look the other up."""
    progress = new_progress(Rank(0, 1), workspace.life.owner)
    workspace.life.beat()
    write_json(progress_file(workspace, 0), progress)
    assert is_running_elsewhere(workspace, Rank(0, 1)) is None  # it is we
    progress.place = "another"
    write_json(progress_file(workspace, 0), progress)
    sign = sign_of(workspace)
    sign = sign.rename(sign.with_name(f"rank-{progress.process}"))
    assert is_running_elsewhere(workspace, Rank(0, 1)) == progress
    os.utime(sign, (1, 1))
    assert is_running_elsewhere(workspace, Rank(0, 1)) is None
