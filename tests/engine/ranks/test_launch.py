"""Rank processes that the command starts itself: one that crashes is started again."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from prepcli.engine.ranks import launch
from prepcli.engine.ranks.launch import spawn_ranks
from prepcli.engine.run.crashes import MAX_CRASHES
from prepcli.processes.ranks import Rank
from tests.support.running import HANG_SECONDS

RANK = """
import os, pathlib, signal, time
folder, rank = pathlib.Path({folder!r}), os.environ["RANK"]
starts = len(list(folder.glob(rank + ".*")))
(folder / (rank + "." + str(starts))).write_text(os.environ["PREPCLI_JOB_ID"] + " " + os.environ["PREPCLI_RESTARTS"])
{then}
"""


def spawn(folder: Path, monkeypatch: pytest.MonkeyPatch, then: str, parent: Rank | None = None) -> int:
    code = RANK.format(folder=str(folder), then=then)
    monkeypatch.setattr(launch, "_RUN", code.replace("{", "{{").replace("}", "}}"))
    return spawn_ranks([], 2, parent=parent)


def starts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_a_rank_that_crashes_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crash_twice = "if rank == '1' and starts < 2: os.kill(os.getpid(), signal.SIGSEGV)"
    parent = Rank(restarts=4, job_id="slurm-7.batch")
    assert spawn(tmp_path, monkeypatch, crash_twice, parent) == 0
    job = "slurm-7.batch"
    assert starts(tmp_path) == {"0.0": f"{job} 4", "1.0": f"{job} 4", "1.1": f"{job} 5", "1.2": f"{job} 6"}
    assert capsys.readouterr().err.count("rank 1 has crashed (SIGSEGV); starting it again") == 2


@pytest.mark.parametrize(("then", "code"), [("os.kill(os.getpid(), signal.SIGKILL)", 4), ("os._exit(1)", 1)])
def test_a_rank_that_was_killed_or_has_failed_is_not(
    then: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spawn(tmp_path, monkeypatch, then) == code
    found = starts(tmp_path)
    assert list(found) == ["0.0", "1.0"]
    assert found["0.0"] == found["1.0"]
    assert found["0.0"].startswith("torchrun-local-")


def test_a_rank_that_crashes_after_a_stop_signal_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop = "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.kill(os.getppid(), signal.SIGTERM)"
    assert spawn(tmp_path, monkeypatch, f"{stop}; os.kill(os.getpid(), signal.SIGSEGV)") == 4
    assert "starting it again" not in capsys.readouterr().err


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_signal_that_arrives_while_a_rank_starts(nth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends all ranks: those that have started, the one that is being started, and those that follow."""
    popen, begun = subprocess.Popen, []

    def start(*arguments: Any, **more: Any) -> Any:
        begun.append(popen(*arguments, **more))
        if len(begun) == nth:
            signal.raise_signal(signal.SIGTERM)
        return begun[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    then = f"if rank == '1' and starts < 1: os.kill(os.getpid(), signal.SIGSEGV)\ntime.sleep({HANG_SECONDS})"
    assert spawn(tmp_path, monkeypatch, then) == 4
    assert {process.returncode for process in begun} <= {-signal.SIGTERM, -signal.SIGSEGV}


def test_there_is_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "MAX_CRASHES", 3)
    assert MAX_CRASHES > 3
    assert spawn(tmp_path, monkeypatch, "os.kill(os.getpid(), signal.SIGABRT)") == 4
    assert len(starts(tmp_path)) == 6
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
