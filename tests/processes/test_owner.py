"""Whose temporary directory is it, and is that process at work? Also across containers and hosts."""

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.ranks.progress import (
    is_running,
    is_running_elsewhere,
    new_progress,
    progress_file,
    read_progress,
    remove_stale_tmp,
)
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.run import run_job
from prepcli.engine.run.status import read_status
from prepcli.engine.run.unit import Execution
from prepcli.engine.state.workspace import Workspace, write_json
from prepcli.processes import owner as owners
from prepcli.processes.owner import DELETE_SECONDS, Owner, clock_of, start_time, this_place, touching
from prepcli.processes.ranks import Rank
from prepcli.processes.signals import InterruptedBySignal
from prepcli.processes.workers import interrupt, interruptible
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
        remove_stale_tmp(workspace)
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
    remove_stale_tmp(workspace)
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
    remove_stale_tmp(workspace)
    assert [path.name.split("~")[0] for path in workspace.tmp.iterdir()] == ["fresh"]


def test_a_signal_as_the_signs_of_life_begin_ends_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        begin(thread)
        interrupt(InterruptedBySignal("stopped"))

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(InterruptedBySignal), interruptible(), touching(tmp_path / "sign"):
        raise AssertionError("the block does not begin")
    assert "sign of life" not in [thread.name for thread in threading.enumerate()]


def test_a_sign_is_given_only_as_long_as_it_is_ours(tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    sign.touch()
    os.utime(sign, (0, 0))
    asked = threading.Event()

    def is_ours() -> bool:
        asked.set()
        return False

    with touching(sign, 0.01, is_ours):
        assert asked.wait(HANG_SECONDS)
    assert sign.stat().st_mtime == 0


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
    remove_stale_tmp(workspace)
    monkeypatch.undo()
    assert list(workspace.tmp.iterdir()) == [made]


def test_what_an_older_version_left_goes_after_a_long_silence(workspace: Workspace) -> None:
    fresh, silent = workspace.tmp / "a~host~1~x", workspace.tmp / "b~host~1~y"
    for made in (fresh, silent):
        made.mkdir()
    os.utime(silent, (0, 0))
    remove_stale_tmp(workspace)
    assert list(workspace.tmp.iterdir()) == [fresh]


def is_silent(out: Path) -> bool:
    """Whether rank 0 seems to have ended, as another machine sees it."""
    (progress,) = read_progress(Workspace(out))
    with patch.object(owners, "this_place", return_value="another"):
        return not is_running(Workspace(out), progress)


class ModelJob(ToyJob):
    """A job whose main thread waits for a model, until it sees that the rank gives signs of life all the same."""

    def execute(self, plan: ToyPlan, units: Sequence[ToyUnit], execution: Execution) -> Iterator[Marker]:
        for unit in units:
            with UnitWriter(execution.workspace, execution.digest, unit) as writer:
                wait_for_a_sign(self.out)
                self.process(plan, unit, writer, execution.advance)
                marker = writer.publish()
            yield marker


def wait_for_a_sign(out: Path) -> None:
    sign = progress_file(Workspace(out), 0)
    os.utime(sign, (0, 0))
    deadline = time.monotonic() + HANG_SECONDS
    while not sign.stat().st_mtime:
        assert time.monotonic() < deadline, "no sign of life"
        time.sleep(0.01)
    assert not is_silent(out)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prepcli.engine.run.share.touching", partial(touching, seconds=0.01))


@pytest.mark.usefixtures("often")
def test_signs_of_life_while_a_model_computes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run_job(ModelJob(out, num_units=3), Workspace(out), RunOptions(budget=Budget(9))).status == "done"
    assert read_progress(Workspace(out))[0].state == "done"
    assert read_status(Workspace(out)).state == "finished"


@pytest.mark.usefixtures("often")
def test_workers_are_kept_alive_by_their_rank(tmp_path: Path) -> None:
    out = tmp_path / "out"
    # One worker: a second one could make the sign old again just before it is looked at.
    worked = ToyJob(out, num_units=3, before_unit=lambda _: wait_for_a_sign(out))
    assert run_job(worked, Workspace(out), RunOptions(budget=Budget(9))).status == "done"


def test_a_rank_of_our_number_in_another_container_is_another(workspace: Workspace) -> None:
    """Both are process 7 of `host`, say: neither is the other, and neither can look the other up."""
    progress = new_progress(Rank(0, 1), workspace.owner)
    write_json(progress_file(workspace, 0), progress)
    assert is_running_elsewhere(workspace, Rank(0, 1)) is None  # it is we
    progress.place = "another"
    write_json(progress_file(workspace, 0), progress)
    assert is_running_elsewhere(workspace, Rank(0, 1)) == progress
    os.utime(progress_file(workspace, 0), (1, 1))
    assert is_running_elsewhere(workspace, Rank(0, 1)) is None
