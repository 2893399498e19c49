"""Runs into a store: who writes, what other runs may do then, and what remains of runs that were killed.

The suite kills a run at some of its calls. All of them:

PREPCLI_FAULTS=all python -m pytest tests/engine/test_store_runs.py -k kills
"""

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from prepcli.engine import objects
from prepcli.engine.ledger import Ledger
from prepcli.engine.publishing.output_files import PublishedFile
from prepcli.engine.publishing.publish import Marker
from prepcli.engine.run.status import read_status
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import read_document
from prepcli.engine.store_runs import StoreRun
from prepcli.errors import PrepcliError, UsageError
from prepcli.processes.ranks import Rank
from tests.conftest import tree
from tests.engine.folder_runs import as_of_earlier
from tests.engine.folder_runs import run as run_on_a_disk
from tests.engine.folder_store import Stored, stored
from tests.engine.toy import ToyJob
from tests.faults.test_every_call import EVERYTHING
from tests.support.tools import slow

KILLED = 9


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Stored]:
    with stored(tmp_path) as found:
        yield found


def on_a_disk(folder: Path, **job: Any) -> dict[str, bytes]:
    """The files of the same run into a folder, by name."""
    shutil.rmtree(folder / "disk", ignore_errors=True)
    out = folder / "disk" / "out"
    run_on_a_disk(out, ToyJob(out, **job))
    return {name: (out / name).read_bytes() for name in tree(out)}


def stop(unit: Any) -> None:
    if unit.number == 0:  # the longest ones come first
        raise RuntimeError("stopped")


def begin(runs: Stored, seed: int = 0, **options: Any) -> None:
    """Make all units but the last."""
    with pytest.raises(PrepcliError, match="stopped"):
        runs.run(runs.job(seed=seed, before_unit=stop), **options)


def made_again(runs: Stored, seed: int = 0, **options: Any) -> list[str]:
    """Run again; returns the units that were made."""
    seen = runs.work / "seen"
    shutil.rmtree(seen, ignore_errors=True)
    seen.mkdir()
    runs.run(runs.job(seed=seed, before_unit=lambda unit: (seen / unit.id).touch()), **options)
    return sorted(path.name for path in seen.iterdir())


def ledger(runs: Stored) -> Ledger:
    return read_document(runs.state / "owner.json", Ledger) or Ledger()


# --- one run ---------------------------------------------------------------------------------------------------------


def test_objects_are_as_the_files_on_a_disk(runs: Stored, tmp_path: Path) -> None:
    report = runs.run(runs.job(bad=frozenset({3, 9})))
    assert (report.status, report.records_out, report.rejects) == ("done", 22, 3)
    assert runs.objects() == on_a_disk(tmp_path, bad=frozenset({3, 9}))
    assert len((runs.state / "rejects.jsonl").read_bytes().splitlines()) == 3
    assert runs.run(runs.job(bad=frozenset({3, 9}))).status == "nothing_to_do"
    assert not list((runs.state / "noted").iterdir())


def test_an_unfinished_run_is_continued(runs: Stored, tmp_path: Path) -> None:
    begin(runs)
    assert len(runs.objects()) == 10
    found, begun = ledger(runs), read_status(runs.workspace())
    assert (found.commits, found.begun is not None) == ((), True)
    assert (begun.state, begun.units_done, begun.missing) == ("stopped", 5, ["unit_000"])
    assert made_again(runs) == ["unit_000"]
    assert runs.objects() == on_a_disk(tmp_path)
    found = ledger(runs)
    assert (len(found.commits), found.begun) == (1, None)
    assert read_status(runs.workspace()).state == "finished"


def test_a_run_that_was_killed_after_its_last_object_is_not_finished(runs: Stored) -> None:
    """Also if the report of an earlier run of the same plan is there."""
    runs.run()
    finish = StoreRun._finish

    def then_stop(run: StoreRun) -> None:
        finish(run)
        raise RuntimeError("stopped")

    with patch.object(StoreRun, "_finish", then_stop), pytest.raises(PrepcliError, match="stopped"):
        runs.run(overwrite=True)
    assert read_status(runs.workspace()).state == "stopped"
    assert runs.run().status == "done"


# --- two runs --------------------------------------------------------------------------------------------------------


def test_another_run_is_refused_until_it_replaces_the_first(runs: Stored, tmp_path: Path) -> None:
    begin(runs)
    before = runs.objects()
    with pytest.raises(UsageError, match=r"made differently: --seed was 0, now 1"):
        runs.run(runs.job(seed=1))
    assert runs.objects() == before
    assert runs.run(runs.job(seed=1, num_units=3), overwrite=True).status == "done"
    assert runs.objects() == on_a_disk(tmp_path, seed=1, num_units=3)
    assert len(list(runs.state.glob("*/plan.json"))) == 1


def test_a_run_that_becomes_the_writer_too_late_is_refused(runs: Stored, tmp_path: Path) -> None:
    """Both have seen an output that no run has begun."""
    become = StoreRun._become_writer

    def late(run: Any) -> None:
        if run.job.seed == 1:
            begin(runs)
        become(run)

    with (
        patch("prepcli.engine.store_runs.StoreRun._become_writer", late),
        pytest.raises(UsageError, match="seed was 0"),
    ):
        runs.run(runs.job(seed=1))
    assert made_again(runs) == ["unit_000"]
    assert runs.objects() == on_a_disk(tmp_path)
    assert len(list(runs.state.glob("*/plan.json"))) == 1


def test_a_run_that_was_replaced_stops_and_takes_back_what_it_wrote(runs: Stored, tmp_path: Path) -> None:
    def replaced(moment: str) -> Callable[[str], object]:
        def event(name: str) -> None:
            if name == moment and "/unit_000" not in str(runs.objects()) and is_last():
                runs.store.event = lambda _: None
                runs.run(runs.job(seed=1), overwrite=True)

        return event

    def is_last() -> bool:
        return "list/unit_001.txt" in runs.objects()

    runs.store.event = replaced("put_file")
    with pytest.raises(PrepcliError, match="another command has started again in s3://bucket/out"):
        runs.run()
    expected = on_a_disk(tmp_path, seed=1)
    lost = {name: data for name, data in expected.items() if name not in runs.objects()}
    assert {name: data for name, data in runs.objects().items() if expected[name] != data} == {}
    assert lost.keys() <= {"unit_000.txt", "list/unit_000.txt"}, "those of the same name as a late object"
    runs.run(runs.job(seed=1))
    assert runs.objects() == expected


def test_a_run_at_work_on_this_machine_is_not_replaced(runs: Stored, tmp_path: Path) -> None:
    going_on, waiting = tmp_path / "going on", tmp_path / "waiting"

    def wait(_: Unit) -> None:
        waiting.touch()
        while not going_on.exists():
            time.sleep(0.01)

    if (child := os.fork()) == 0:
        code = 1
        try:
            code = 0 if runs.run(runs.job(before_unit=wait)).status == "done" else 2
        finally:
            os._exit(code)
    while not waiting.exists():
        time.sleep(0.01)
    with pytest.raises(UsageError, match=rf"rank 0 is at work on s3://bucket/out \(process {child}\)"):
        runs.run(runs.job(seed=1), overwrite=True)
    going_on.touch()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert runs.objects() == on_a_disk(tmp_path)


# --- objects of others -----------------------------------------------------------------------------------------------


def test_objects_of_others_are_not_replaced(runs: Stored) -> None:
    runs.put("unit_7.txt", b"mine")
    with pytest.raises(UsageError, match=r"readers would take for a part of the new set.*unit_7"):
        runs.run()
    runs.store.delete_objects([f"{runs.out}/unit_7.txt"])
    runs.put("list/unit_002.txt", b"mine")
    with pytest.raises(PrepcliError, match=r"list/unit_002.txt is there already, and no record in"):
        runs.run()
    assert runs.objects()["list/unit_002.txt"] == b"mine"


def test_an_overwrite_leaves_objects_of_others(runs: Stored, tmp_path: Path) -> None:
    runs.run()
    runs.put("notes.txt", b"mine")
    runs.run(runs.job(num_units=2), overwrite=True)
    assert runs.objects() == on_a_disk(tmp_path, num_units=2) | {"notes.txt": b"mine"}


def test_an_object_that_was_changed_stays(runs: Stored) -> None:
    runs.run()
    runs.put("list/unit_003.txt", b"changed")
    runs.run(runs.job(num_units=2), overwrite=True)
    assert runs.objects()["list/unit_003.txt"] == b"changed"
    runs.put("unit_001.txt", b"changed")
    with pytest.raises(UsageError, match=r"unit_001.txt \(changed since\)"):
        runs.run(runs.job(num_units=1), overwrite=True)


def test_an_object_that_a_killed_process_has_noted_is_removed(runs: Stored, tmp_path: Path) -> None:
    """It may be that of a unit which the plan does not have."""
    begin(runs)
    workspace = runs.workspace()
    late = objects.note(workspace, "unit_099", {"unit_099.txt": PublishedFile(4, hash_of(b"late"))})
    runs.put("unit_099.txt", b"late")
    runs.run()
    assert runs.objects() == on_a_disk(tmp_path)
    assert late.exists(), "its process is alive, and may write the object again"


def hash_of(data: bytes) -> str:
    from xxhash import xxh3_128

    return xxh3_128(data).hexdigest()


# --- units that are made again ---------------------------------------------------------------------------------------


def test_only_units_with_rejects_are_tried_again(runs: Stored, tmp_path: Path) -> None:
    runs.run(runs.job(bad=frozenset({4, 9})))
    assert made_again(runs, retry_rejects=True) == ["unit_001", "unit_002"]
    assert runs.objects() == on_a_disk(tmp_path)
    assert len(list(runs.state.glob("*/plan.json"))) == 1
    assert runs.run(retry_rejects=True).status == "nothing_to_do"


def test_a_retry_that_was_interrupted_is_continued(runs: Stored, tmp_path: Path) -> None:
    runs.run(runs.job(bad=frozenset({1, 4, 9})))
    begin(runs, retry_rejects=True)
    assert read_status(runs.workspace()).missing == ["unit_000"]
    assert made_again(runs) == ["unit_000"]
    assert runs.objects() == on_a_disk(tmp_path)


def test_objects_that_were_lost_or_damaged_are_made_again(runs: Stored, tmp_path: Path) -> None:
    runs.run()
    runs.store.delete_objects([f"{runs.out}/list/unit_002.txt"])
    assert made_again(runs) == ["unit_002"]
    assert runs.objects() == on_a_disk(tmp_path)


def test_objects_that_were_lost_during_the_run_are_noticed_at_the_commit(runs: Stored, tmp_path: Path) -> None:
    def lose(unit: Unit) -> None:
        if unit.id == "unit_000":
            runs.store.delete_objects([f"{runs.out}/unit_002.txt"])
            data = runs.objects()["unit_003.txt"]
            runs.put("unit_003.txt", b"x" * len(data))

    report = runs.run(runs.job(before_unit=lose))
    assert (report.status, report.units_done) == ("incomplete", 4)
    with pytest.raises(PrepcliError, match=r"unit_003.txt has changed since this run wrote it"):
        runs.run()
    runs.store.delete_objects([f"{runs.out}/unit_003.txt"])
    runs.run()
    assert runs.objects() == on_a_disk(tmp_path)


def test_another_etag_of_the_same_bytes_is_noted_at_the_commit(runs: Stored) -> None:
    """Two ranks have made the unit, and the store gives each object another ETag, as with encryption."""

    def rewrite(unit: Unit) -> None:
        if unit.id == "unit_000":
            runs.store.salt = b"salt"
            runs.put("unit_002.txt", runs.objects()["unit_002.txt"])

    assert runs.run(runs.job(before_unit=rewrite)).status == "done"
    document = read_document(next(runs.state.glob("*/units/unit_002/unit.json")), Marker)
    assert document is not None
    assert document.files["unit_002.txt"].etag == runs.store.object_info(f"{runs.out}/unit_002.txt").etag
    assert runs.run().status == "nothing_to_do"


@pytest.mark.parametrize("options", [{"overwrite": True}, {"retry_rejects": True}])
def test_a_set_of_an_earlier_version(options: dict[str, Any], runs: Stored, tmp_path: Path) -> None:
    """It is made again whole, because its parts are not kept; nothing of it is left."""
    runs.run(runs.job(bad=frozenset({4})))
    as_of_earlier(runs.state.with_name(runs.state.name.removesuffix(".prepcli")))
    assert (runs.state / "done").is_dir()
    assert runs.run(runs.job(bad=frozenset({4}))).status == "nothing_to_do"
    with pytest.raises(UsageError, match="seed was 0, now 1"):
        runs.run(runs.job(seed=1))
    assert len(made_again(runs, **options)) == 6
    assert runs.objects() == on_a_disk(tmp_path)
    assert not (runs.state / "done").exists()


# --- several ranks --------------------------------------------------------------------------------------------------


def as_rank(number: int, count: int = 2, **more: Any) -> dict[str, Any]:
    return {"rank": Rank(number, count, launch_id="launch"), "steal": True, **more}


def test_ranks_share_the_units(runs: Stored, tmp_path: Path) -> None:
    for number in range(2):
        options = as_rank(number, overwrite=True, steal=False)
        assert runs.run(**options).status == ("incomplete", "done")[number]
    assert runs.objects() == on_a_disk(tmp_path)


@pytest.mark.parametrize("stands_still", ["in a unit", "before its objects", "after its objects"])
def test_a_rank_that_stands_still_does_no_harm(stands_still: str, runs: Stored, tmp_path: Path) -> None:
    """The other rank makes its unit as well, and commits."""
    going_on, waiting = tmp_path / "going on", tmp_path / "waiting"

    def wait() -> None:
        waiting.touch()
        while not going_on.exists():
            time.sleep(0.01)

    def in_unit(unit: Unit) -> None:
        if stands_still == "in a unit" and not waiting.exists():
            wait()

    def event(name: str) -> None:
        moment = {"before its objects": "put_file", "after its objects": "object_info"}.get(stands_still)
        if name == moment and "unit_005.txt" in runs.objects() and not waiting.exists():
            wait()

    if (child := os.fork()) == 0:
        code = 1
        try:
            runs.store.event = event
            code = 0 if runs.run(runs.job(before_unit=in_unit), **as_rank(0)).status == "done" else 2
        finally:
            os._exit(code)
    while not waiting.exists():
        time.sleep(0.01)
    assert runs.run(**as_rank(1)).status == "done"
    going_on.touch()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert runs.objects() == on_a_disk(tmp_path)
    assert not list((runs.state / "noted").iterdir())
    assert runs.run().status == "nothing_to_do"


# --- kills -----------------------------------------------------------------------------------------------------------


class Killed:
    """Runs that are killed at one of their calls: requests to the store, and renames and removals in the state."""

    CALLS = ("replace", "rename", "unlink", "rmdir", "mkdir")

    def __init__(self, runs: Stored, before: Callable[[], object]) -> None:
        self.runs = runs
        before()
        self._saved = runs.work.with_name(f"{runs.work.name} saved")
        self._copy(runs.work, self._saved)

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, symlinks=True)

    def call(self, moment: int, run: Callable[[], object]) -> int:
        """Start afresh, and kill `run` at its call with this number; returns the number of calls if it has ended."""
        self._copy(self._saved, self.runs.work)
        if child := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert code in (0, KILLED)
            return int((self.runs.work / "calls").read_text()) if code == 0 else 0
        count = 0

        def event(_: str) -> None:
            nonlocal count
            count += 1
            if count == moment:
                os._exit(KILLED)

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **more: Any) -> Any:
                event("")
                return function(*arguments, **more)

            return call

        code = 1
        try:
            self.runs.store.event = event
            for name in self.CALLS:
                setattr(os, name, counted(getattr(os, name)))
            run()
            (self.runs.work / "calls").write_text(str(count))
            code = 0
        finally:
            os._exit(code)


def moments_of(count: int, draw: random.Random, number: int) -> list[int]:
    every = range(1, count + 1)
    return list(every) if EVERYTHING else sorted(draw.sample(every, min(number, count)))


BEFORE: dict[str, Callable[[Stored], object]] = {
    "fresh": lambda runs: None,
    "overwrite": lambda runs: runs.run(runs.job(seed=1, num_units=4)),
    "retry": lambda runs: runs.run(runs.job(num_units=3, bad=frozenset({4}))),
    "begun": lambda runs: begin(runs, seed=1),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "fresh": {},
    "overwrite": {"overwrite": True},
    "retry": {"retry_rejects": True},
    "begun": {"overwrite": True},
}


@pytest.mark.parametrize("change", ["fresh", *map(slow, list(BEFORE)[1:])])
def test_kills(
    change: str, runs: Stored, tmp_path_factory: pytest.TempPathFactory, draw: random.Random, record_property: Any
) -> None:
    """The next run completes the output; or another one replaces it, and nothing of the first is left."""
    folder = tmp_path_factory.mktemp("disk")
    expected, other = on_a_disk(folder, num_units=3), on_a_disk(folder, num_units=2, seed=2)
    options = OPTIONS[change]
    killed, before = Killed(runs, lambda: BEFORE[change](runs)), ledger(runs)
    count = killed.call(0, lambda: runs.run(runs.job(num_units=3), **options))
    assert runs.objects() == expected
    assert count > 50
    for moment in moments_of(count, draw, 6):
        for again in ("continue", "replace"):
            killed.call(moment, lambda: runs.run(runs.job(num_units=3), **options))
            if again == "continue":
                has_begun = ledger(runs) != before
                runs.run(runs.job(num_units=3), **({} if has_begun else options))
            else:
                runs.run(runs.job(num_units=2, seed=2), overwrite=True)
            assert runs.objects() == (expected if again == "continue" else other), (moment, again)
            assert not list((runs.state / "noted").glob("*.json")), (moment, again)
            assert len(list(runs.state.glob("*/plan.json"))) == 1, (moment, again)
            found = ledger(runs)
            assert (len(found.commits), found.begun, found.pending) == (1, None, None), (moment, again)
    record_property("kills", moment)
