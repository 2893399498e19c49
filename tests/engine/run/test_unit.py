"""A unit is published whole, or not at all, whatever fails or stops it."""

import errno
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.ranks.claims import Claims
from prepcli.engine.ranks.progress import SharedCounter, read_progress
from prepcli.engine.run import run as module
from prepcli.engine.run.status import read_status
from prepcli.engine.run.unit import Execution
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import IncompleteError, PrepcliError
from prepcli.processes.ranks import Rank
from prepcli.processes.signals import InterruptedBySignal
from tests.conftest import tree
from tests.engine.run.test_run import JobOfThisProcess, reference, run
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
    assert list((tmp_path / "out.prepcli/done").iterdir()) == []


def test_a_unit_that_another_rank_has_done_is_not_claimed(tmp_path: Path) -> None:
    """The claim of a unit is given back at once if it is done already, and when it is published."""
    out = tmp_path / "out"
    run(out)
    workspace = Workspace(out)
    digest = msgspec.json.decode((workspace.done / "unit_001.json").read_bytes(), type=Marker).digest
    claims = Claims(tmp_path / "claims", 0, workspace.life)
    execution = Execution(workspace, digest, 1, SharedCounter(), lambda: None, claims)
    with claims.at_work():
        for unit in ToyJob(out).plan(workspace).units:
            assert not execution.is_left(unit)
            assert not execution.claim(unit)
        assert [path.name for path in (tmp_path / "claims").glob("unit_*")] == []
        (workspace.done / "unit_001.json").unlink()
        units = ToyJob(out).plan(workspace).units
        assert [execution.claim(unit) for unit in units][:3] == [False, True, False]
        execution.do_unit(units[1], lambda writer: writer.count(4, 10.0))
        assert [path.name for path in (tmp_path / "claims").glob("unit_*")] == []


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


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize(
    ("name", "number", "words"),
    [("fsync", errno.ENOSPC, "No space left"), ("replace", errno.EACCES, "Permission denied")],
)
def test_fault_while_publishing(tmp_path: Path, name: str, number: int, words: str, nth: int) -> None:
    """No half unit under a final name, exit code 1, the fault in words; the next run completes the same bytes."""
    out = tmp_path / "out"
    run(out, ToyJob(out), rank=Rank(0, 2))  # a finished part that must survive
    kept = tree(out)
    with pytest.MonkeyPatch.context() as monkeypatch:
        Fault(monkeypatch, name, nth, number)
        with pytest.raises(PrepcliError, match=words) as caught:
            run(out, ToyJob(out))
    assert caught.value.exit_code == 1
    expected = reference(tmp_path)
    assert tree(out).items() >= kept.items()
    # Whatever stands under a final name is whole.
    assert {name: digest for name, digest in tree(out).items() if expected[name] != digest} == {}
    assert run(out).status == "done"
    assert tree(out) == expected


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
        found = tree(out)
        assert found
        assert found.items() <= expected.items()
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
