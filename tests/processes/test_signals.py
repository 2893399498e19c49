"""A stop signal interrupts at once, but never the work with processes."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.state.plan import Unit
from prepcli.processes.signals import InterruptedBySignal, stop_on_signals
from prepcli.processes.workers import no_interruption, stop_here
from tests.engine.folder_runs import begun_workspace


def test_a_signal_interrupts_at_once() -> None:
    reached = []
    with pytest.raises(InterruptedBySignal, match="stopped by SIGUSR1"), stop_on_signals():
        os.kill(os.getpid(), signal.SIGUSR1)
        reached.append("after")
    assert not reached


def test_it_waits_for_the_end() -> None:
    reached = []
    with pytest.raises(InterruptedBySignal), stop_on_signals():
        with no_interruption():
            with no_interruption():
                os.kill(os.getpid(), signal.SIGTERM)
                reached.append("inner")
            reached.append("outer")
        reached.append("after")
    assert reached == ["inner", "outer"]


def test_or_for_a_place_that_is_safe() -> None:
    reached = []
    with pytest.raises(InterruptedBySignal), stop_on_signals(), no_interruption():
        stop_here()
        os.kill(os.getpid(), signal.SIGTERM)
        reached.append("before")
        stop_here()
        reached.append("after")
    assert reached == ["before"]
    stop_here()  # it was raised once, and is not raised again


def test_what_a_unit_leaves_is_removed_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal while the temporary directory is being removed: whoever stops runs sees the unit just before that."""
    workspace = begun_workspace(tmp_path / "out")
    remove = shutil.rmtree

    def stopped(path: Path, ignore_errors: bool = False) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        remove(path, ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", stopped)
    unit = Unit("unit_000", 1.0, 0)
    with pytest.raises(InterruptedBySignal), stop_on_signals(), UnitWriter(workspace, "digest", unit) as writer:
        writer.open("file").write(b"data")
        writer.publish()
    assert workspace.marker_file("unit_000").is_file()
    assert not list(workspace.tmp.iterdir())
