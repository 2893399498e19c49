"""A stop signal interrupts at once, but never the work with processes."""

import importlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.state.plan import Unit
from prepcli.processes.signals import InterruptedBySignal, stop_on_signals
from prepcli.processes.workers import no_interruption, stop_here, wait_for_any
from tests.engine.folder_runs import begun_workspace


def test_a_signal_interrupts_at_once() -> None:
    reached = []
    with pytest.raises(InterruptedBySignal, match="stopped by SIGUSR1"), stop_on_signals():
        os.kill(os.getpid(), signal.SIGUSR1)
        reached.append("after")
    assert not reached


STOPPED_MODULE = """
import os
import signal
import time

os.kill(os.getpid(), signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.1)
IS_WHOLE = True
"""


def test_not_within_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch calls Python from C++ functions that may not raise while it is imported: an exception would abort."""
    (tmp_path / "stopped_module.py").write_text(STOPPED_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    reached = []
    with pytest.raises(InterruptedBySignal, match="stopped by SIGUSR1"), stop_on_signals():
        reached.append(importlib.import_module("stopped_module").IS_WHOLE)
        time.sleep(60)
        reached.append("after")
    assert reached == [True]


def test_but_within_a_run_that_an_import_has_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "running_module.py").write_text("""
import os
import signal
from prepcli.processes.signals import stop_on_signals

with stop_on_signals():
    os.kill(os.getpid(), signal.SIGUSR1)
    raise RuntimeError("it has gone on")
""")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InterruptedBySignal):
        importlib.import_module("running_module")


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


def test_an_error_that_follows_from_it_is_replaced() -> None:
    """Python 3.11 reports an interruption while a class is made as a RuntimeError; what is unwound may fail as well."""

    class Interrupting:
        def __set_name__(self, owner: type, name: str) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(InterruptedBySignal) as stopped, stop_on_signals():
        type("Class", (), {"name": Interrupting()})
    assert stopped.value.__cause__ is not None or sys.version_info >= (3, 12)
    with pytest.raises(InterruptedBySignal), stop_on_signals():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.close(-1)
    with pytest.raises(OSError, match="Bad file descriptor"), stop_on_signals():
        os.close(-1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_it_is_raised_again_if_it_was_lost() -> None:
    """Python ignores an exception while an object is deleted; the next wait for workers ends the run."""

    class Deleted:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            reached.append("deleted")

    reached: list[str] = []
    with pytest.raises(InterruptedBySignal), stop_on_signals():
        Deleted()
        reached.append("lost")
        with no_interruption():
            wait_for_any([])
        reached.append("not while it is held back")
        wait_for_any([])
    assert reached == ["lost", "not while it is held back"]
    with stop_on_signals():
        wait_for_any([])  # the stop of an earlier run is forgotten


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
