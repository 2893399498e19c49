"""A unit is published whole, or not at all, whatever fails or stops it."""

import errno
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.ranks.progress import read_progress
from prepcli.engine.run import run as module
from prepcli.engine.run.status import read_status
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import IncompleteError, PrepcliError
from prepcli.processes.ranks import Rank
from prepcli.processes.signals import InterruptedBySignal
from tests.conftest import tree
from tests.engine.folder_runs import reference
from tests.engine.run.test_run import JobOfThisProcess, run
from tests.engine.state_files import markers
from tests.engine.toy import ToyJob, ToyPlan, ToyUnit


@pytest.mark.parametrize(("more", "words"), [(-1, "but 3 out and 0 rejected"), (1, "but 5 out and 0 rejected")])
def test_records_that_do_not_add_up_are_a_bug(tmp_path: Path, more: int, words: str) -> None:
    class Careless(ToyJob):
        def process(self, plan: ToyPlan, unit: ToyUnit, writer: UnitWriter, advance: Any) -> None:
            super().process(plan, unit, writer, advance)
            writer.records_out += more

    out = tmp_path / "out"
    with pytest.raises(PrepcliError, match=f"4 records in, {words}"):
        run(out, Careless(out))
    assert markers(out) == {}


def test_killed_worker_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    def die(unit: Unit) -> None:
        if unit.id == "unit_002":
            os.kill(os.getpid(), 9)

    out = tmp_path / "out"
    with pytest.raises(IncompleteError, match=r"killed \(SIGKILL\).*lack of memory.*unit_002.*run the same") as caught:
        run(out, ToyJob(out, before_unit=die))
    assert caught.value.exit_code == 4
    assert module.with_continuation(caught.value, "toy", Workspace(out)) is caught.value, "it is named once"
    status = read_status(Workspace(out))
    assert "unit_002" in status.missing
    assert status.units_done >= 3  # the longer ones went first
    assert run(out).status == "done"
    assert tree(out) == reference(tmp_path)


class Fault:
    """Lets the n-th call of a function of `os` fail, in the workers too (they are forked)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, nth: int, number: int) -> None:
        real = getattr(os, name)
        calls = [0]

        def broken(*arguments: Any, **keywords: Any) -> Any:
            calls[0] += 1
            if calls[0] >= nth:
                raise OSError(number, os.strerror(number), str(arguments[0]))
            return real(*arguments, **keywords)

        monkeypatch.setattr(os, name, broken)


@pytest.mark.slow
@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize(
    ("name", "number", "words"),
    [("fsync", errno.ENOSPC, "No space left"), ("replace", errno.EACCES, "Permission denied")],
)
def test_fault_while_publishing(tmp_path: Path, name: str, number: int, words: str, nth: int) -> None:
    """No half file under a final name, exit code 1, the fault in words; the next run completes the same bytes."""
    out = tmp_path / "out"
    run(out, ToyJob(out), rank=Rank(0, 2))  # a finished part that must survive
    kept = markers(out)
    with pytest.MonkeyPatch.context() as monkeypatch:
        Fault(monkeypatch, name, nth, number)
        with pytest.raises(PrepcliError, match=words) as caught:
            run(out, ToyJob(out))
    assert caught.value.exit_code == 1
    assert markers(out).items() >= kept.items()
    assert set(tree(out).items()) <= set(reference(tmp_path).items())  # what stands under a final name is whole
    assert run(out).status in ("done", "nothing_to_do")  # the latter if only the end of the commit was missing
    assert tree(out) == tree(tmp_path / "reference")


def test_full_disk(tmp_path: Path) -> None:
    """A real one: a file system of 64 kB, where it can be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or os.system(f"mount -t tmpfs -o size=64k tmpfs '{disk}' 2>/dev/null") != 0:
        pytest.skip("needs the right to mount a file system")
    out = disk / "out"
    try:
        with pytest.raises(PrepcliError, match=r"No space left on device.*run the same command again") as caught:
            run(out, ToyJob(out, num_units=40))
        assert caught.value.exit_code == 1
        expected = reference(tmp_path, num_units=40)
        assert markers(out)
        assert tree(out) == {}
        os.system(f"mount -o remount,size=64m '{disk}'")
        assert run(out, ToyJob(out, num_units=40)).status == "done"
        assert tree(out) == expected
    finally:
        os.system(f"umount '{disk}'")


@pytest.mark.parametrize("moment", ["__enter__", "__exit__"])
def test_a_signal_as_a_unit_begins_or_ends_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(UnitWriter, moment, lambda *_: signal.raise_signal(signal.SIGTERM))
        with pytest.raises(InterruptedBySignal):
            run(out, JobOfThisProcess(out))
    assert [rank.state for rank in read_progress(Workspace(out))] == ["interrupted"]
    assert list(Workspace(out).tmp.iterdir()) == []
    assert run(out, JobOfThisProcess(out)).status == "done"
    assert tree(out) == reference(tmp_path)
