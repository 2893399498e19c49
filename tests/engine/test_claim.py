"""An output directory belongs to one plan: of several commands that start at once exactly one has it."""

import errno
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run import starting
from prepcli.engine.state.plan import FINISH_UNIT, StoredPlan, Unit
from prepcli.engine.state.workspace import Workspace, publish_json_once, write_json
from prepcli.errors import PrepcliError, UsageError
from prepcli.processes.ranks import Rank
from tests.conftest import tree
from tests.engine.run.test_run import reference, run
from tests.engine.toy import ToyJob, damage

LINKS = ["hard links", "no hard links"]


@pytest.fixture(params=LINKS)
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run with hard links and, as on exFAT, many object stores and some shares, without."""
    if request.param != LINKS[0]:

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(os, "link", refuse)
    yield


@pytest.mark.usefixtures("links")
def test_the_first_document_stays(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert publish_json_once(path, {"digest": "a"}, dict) == {"digest": "a"}
    assert publish_json_once(path, {"digest": "b"}, dict) == {"digest": "a"}
    assert json.loads(path.read_text()) == {"digest": "a"}
    assert not [one for one in tmp_path.iterdir() if "~" in one.name]


@pytest.mark.usefixtures("links")
def test_of_many_at_once_one_is_first(tmp_path: Path) -> None:
    for attempt in range(20):
        start = threading.Barrier(8)

        def publish(
            number: int, start: threading.Barrier = start, path: Path = tmp_path / f"{attempt}.json"
        ) -> int | None:
            start.wait()
            return publish_json_once(path, number, int)

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(publish, range(8)))) == 1


@pytest.mark.parametrize("torn", [b"", b"{}", b'{"digest": "a'])
def test_a_torn_document_is_replaced_once(torn: bytes, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(torn)
    assert publish_json_once(tmp_path / "plan.json", 1, int) == 1
    assert publish_json_once(tmp_path / "plan.json", 2, int) == 1


def test_a_process_killed_on_the_way_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hard links there are two steps: the next process does the second one as well."""
    path = tmp_path / "plan.json"

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", refuse)
    assert publish_json_once(path, "first", str) == "first"
    path.unlink()
    assert publish_json_once(path, "second", str) == "first"


def test_a_full_disk_is_not_a_lost_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="No space left"):
        publish_json_once(tmp_path / "plan.json", 1, int)
    assert list(tmp_path.iterdir()) == []


class Late(ToyJob):
    """Another command begins and finishes between this one's look at the output directory and its claim."""

    def __init__(self, out: Path, other: ToyJob, **job: Any) -> None:
        super().__init__(out, **job)
        self.other: ToyJob | None = other

    def prepare(self) -> None:
        other, self.other = self.other, None
        if other is not None:
            run(self.out, other)


@pytest.mark.usefixtures("links")
def test_commands_with_other_inputs_started_together(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError, match=r"was made differently: --seed was 0, now 1.*give --overwrite"):
        run(out, Late(out, ToyJob(out), seed=1))
    assert run(out).status == "nothing_to_do"
    assert tree(out) == reference(tmp_path)


@pytest.mark.usefixtures("links")
def test_the_same_command_started_twice(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(out, Late(out, ToyJob(out))).status in ("done", "nothing_to_do")
    assert tree(out) == reference(tmp_path)


@pytest.mark.usefixtures("links")
def test_overwrite_after_a_claim(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out)
    assert run(out, ToyJob(out, seed=1), overwrite=True).status == "done"
    assert run(out, ToyJob(out, seed=1)).status == "nothing_to_do"


@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_that_another_one_overwrites_publishes_nothing_more(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one with the same settings, whose plan is equal. A machine does not see the processes of another one."""
    out = tmp_path / "out"
    monkeypatch.setattr(starting, "running_here", lambda _: None)

    def overwrite(unit: Unit) -> None:
        if unit.id == "unit_003":
            run(out, ToyJob(out, seed=1), overwrite=True)

    job = ToyJob(out, seed=seed, before_unit=overwrite)
    with pytest.raises(PrepcliError, match="another command has started again in"):
        run(out, job)
    expected = tmp_path / "expected"
    run(expected, ToyJob(expected, seed=1))
    assert tree(out) == tree(expected)


def test_a_plan_of_others_under_a_unit_that_is_ready(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "out")
    workspace.prepare()
    plan = StoredPlan("test", "mine", {}, [], 0, 0, {}, 0.0, "", "")
    workspace.claim(plan)
    workspace.hold("mine")
    with UnitWriter(workspace, "mine", Unit("a", 1.0, 0)) as writer:
        writer.open("a.txt").write(b"mine")
        write_json(workspace.plan_file, msgspec.structs.replace(plan, digest="another"))
        with pytest.raises(PrepcliError, match="another command has started again in"):
            writer.publish()
    assert list(workspace.out.iterdir()) == []


def test_a_plan_of_others_under_a_run_that_is_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report would be taken for that of the other run."""
    workspace = Workspace(tmp_path / "out")
    publish = UnitWriter.publish

    def publish_late(writer: UnitWriter) -> Marker:
        marker = publish(writer)
        if writer.unit == FINISH_UNIT:
            plan = msgspec.json.decode(workspace.plan_file.read_bytes(), type=StoredPlan)
            write_json(workspace.plan_file, msgspec.structs.replace(plan, digest="another"))
        return marker

    monkeypatch.setattr(UnitWriter, "publish", publish_late)
    with pytest.raises(PrepcliError, match="another command has started again in"):
        run(workspace.folder)
    assert not workspace.report_file.exists()


def test_overwrite_under_a_launch_id_that_was_used(tmp_path: Path) -> None:
    """The damaged set is made again, or the message says how: never "nothing to do"."""
    out = tmp_path / "out"
    for rank in range(2):
        run(out, overwrite=True, rank=Rank(rank, 2, launch_id="l"))
    damage(out / "unit_003.txt")
    for job in (ToyJob(out), ToyJob(out, seed=1)):
        with pytest.raises(UsageError, match=r"launch id l was used before.*give all ranks a new --launch-id"):
            run(out, job, overwrite=True, rank=Rank(0, 2, launch_id="l"))
    for rank in range(2):
        run(out, overwrite=True, rank=Rank(rank, 2, launch_id="new"))
    assert tree(out) == reference(tmp_path)


def test_overwrite_with_a_launch_id_and_one_rank(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        assert run(out, overwrite=True, rank=Rank(0, 1, launch_id="l")).status == "done"


@pytest.mark.parametrize("restarts", [0, 1])
def test_overwrite_is_not_advised_where_it_was_given(restarts: int, tmp_path: Path) -> None:
    """A rank of the launch has other options; or a requeued job, which clears nothing, has."""
    out = tmp_path / "out"
    run(out, overwrite=True, rank=Rank(0, 2, launch_id="l"))
    with pytest.raises(UsageError, match="--seed was 0, now 1") as refused:
        run(out, ToyJob(out, seed=1), overwrite=True, rank=Rank(1, 2, launch_id="l", restarts=restarts))
    assert "--overwrite" not in str(refused.value)


@pytest.mark.usefixtures("links")
def test_ranks_of_a_launch_agree(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, rank=Rank(0, 3))  # an earlier launch did a third
    for rank in (1, 0):
        report = run(out, rank=Rank(rank, 2, launch_id="second"))
    assert report.status == "done"
    assert tree(out) == reference(tmp_path)
