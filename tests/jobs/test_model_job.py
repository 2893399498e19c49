"""Ranks with models help each other as all others do: a unit begins when it is computed, not when it is read ahead."""

from __future__ import annotations

import itertools
import os
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock

import pytest

from prepcli.commands.extend_codec_codes.command import extend_codec_codes
from prepcli.commands.extend_context_audio.command import extend_context_audio
from prepcli.engine.ranks.progress import RankProgress, SharedCounter, progress_file
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.engine.run.status import Status, read_status, workspaces_to_show
from prepcli.engine.run.unit import Execution
from prepcli.engine.state.plan import StoredPlan, Unit
from prepcli.engine.state.stored_units import read_units
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.errors import UsageError
from prepcli.jobs import model_job, prefetch
from prepcli.models.running import ModelRunner, Running
from prepcli.processes.ranks import Rank
from tests.conftest import MINI_CORPUS, tree
from tests.engine.folder_runs import begun_workspace
from tests.support.engine_options import call_with, codes_workspace
from tests.support.lazy import lazy
from tests.support.running import prepcli
from tests.support.shar_sets import make
from tests.support.toy_codec import ToyCodec, use_toy_codec
from tests.support.toy_voice import use_toy_voice

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

pytestmark = pytest.mark.usefixtures("one_thread")

LAUNCH = "slurm-1.0.0"
DIES_AT = 19
"""Batch at which the worker dies: the model is in the middle of a unit then, and has computed others."""


class Launch:
    """A launch of two ranks over one job; it is noted what this rank has in hand whenever its model begins a batch."""

    def __init__(
        self, call: Callable[[RunOptions, Workspace], Report], workspace: Callable[[Path], Workspace], folder: Path
    ) -> None:
        self.call = call
        self._workspace = workspace
        self.folder = folder
        self.workspace = workspace(folder / "out")
        self.in_hand: list[list[str]] = []

    def run(self, number: int, **options: Any) -> Report:
        rank = Rank(number, 2, launch_id=LAUNCH)
        return self.call(RunOptions(rank=rank, **options), self.workspace)

    def undisturbed(self) -> dict[str, str]:
        self.call(RunOptions(), self._workspace(self.folder / "alone"))
        return tree(self.folder / "alone")

    def another_workspace(self) -> Workspace:
        return self._workspace(self.folder / "out")

    def plan_units(self) -> Sequence[Unit]:
        workspace = self.another_workspace()
        plan = read_document(workspace.plan_file, StoredPlan)
        assert plan is not None
        return read_units(workspace, plan)

    @property
    def done(self) -> set[str]:
        """The units that are done, without the final merge."""
        return {path.parent.name for path in self.another_workspace().marker_files()} - {"finish"}

    def note(self) -> None:
        self.in_hand.append(self.workspace.units_in_hand([os.getpid()]))


@pytest.fixture(scope="module")
def shar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini corpus as twelve shards."""
    folder = tmp_path_factory.mktemp("shar") / "shar"
    make(MINI_CORPUS / "manifest.json", folder, "--shard-size", 4)
    return folder


def _codes(shar: Path, folder: Path, **words: Any) -> Launch:
    def call(engine: RunOptions, workspace: Workspace) -> Report:
        options = {"codec_name": "toy", "output_dir": workspace.out, "devices": "cpu"} | words
        return call_with(engine, extend_codec_codes, shar, "toy", workspace=workspace, **options)

    return Launch(call, lambda out: codes_workspace(out, "toy"), folder)


def _contexts(folder: Path) -> Launch:
    words = {"speaker_model": "toy", "context_min_duration": 1.0, "context_min_ssim": 0.0, "batch_duration": 60.0}

    def call(engine: RunOptions, workspace: Workspace) -> Report:
        options = {"devices": "cpu"} | words
        manifest = MINI_CORPUS / "manifest.json"
        return call_with(engine, extend_context_audio, manifest, workspace.out, workspace=workspace, **options)

    return Launch(call, Workspace, folder)


@pytest.fixture(params=["codes", "contexts"])
def launch(request: pytest.FixtureRequest, shar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    if request.param == "codes":
        use_toy_codec(monkeypatch.setattr)
        made = _codes(shar, tmp_path, pool_duration=1.0)
    else:
        use_toy_voice(monkeypatch.setattr)
        made = _contexts(tmp_path)
    run = ModelRunner.run

    def noted(self: ModelRunner, *arguments: Any, **more: Any) -> Any:
        made.note()
        return run(self, *arguments, **more)

    monkeypatch.setattr(ModelRunner, "run", noted)
    return made


@pytest.mark.slow
def test_a_rank_does_what_others_leave_and_then_what_they_are_making(launch: Launch) -> None:
    """Another rank has begun two of the units that are left."""
    assert launch.run(0, steal=False).status == "incomplete"
    units = {unit.id for unit in launch.plan_units()}
    left = sorted(units - launch.done)
    other = launch.another_workspace()
    theirs = {left[0], left[-1]}
    for unit in theirs:
        other.make_tmp(unit)
    launch.in_hand.clear()
    assert launch.run(0).status == "done"
    assert all(launch.in_hand), "a batch is computed of a unit that has begun"
    first = [bool(theirs.intersection(units)) for units in launch.in_hand].index(True)
    assert set().union(*launch.in_hand[:first]) == {*left} - theirs
    assert set().union(*launch.in_hand[first:]) >= theirs
    assert tree(launch.workspace.folder) == launch.undisturbed()


def test_a_unit_that_is_read_ahead_can_be_left_to_another(tmp_path: Path) -> None:
    workspace, other = begun_workspace(tmp_path / "out"), begun_workspace(tmp_path / "out")
    units = [Unit(f"unit_{number}", 1.0, 1) for number in range(6)]
    read: list[str] = []

    class Reading:
        def read_ahead(self, contents: object, unit: Unit, workers: object) -> Callable[[object], str]:
            read.append(unit.id)
            return lambda tick: f"work of {unit.id}"

    execution = Execution(workspace, "digest", 1, SharedCounter(), lambda: None, drafts=frozenset())
    on_device, nothing = cast("Any", Reading()), cast("Any", None)
    begun = cast("Any", model_job.begin_each(on_device, None, units, nothing, execution))
    assert next(begun) == (units[0], "work of unit_0")
    assert read == ["unit_0", "unit_1", "unit_2"]
    for name in ("unit_1", "unit_3"):
        other.make_tmp(name)
    assert next(begun) == (units[2], "work of unit_2")
    assert [unit.id for unit, _ in begun] == ["unit_4", "unit_5"]
    assert read == ["unit_0", "unit_1", "unit_2", "unit_4", "unit_5"], "nothing is read for units of others"
    assert workspace.units_in_hand([os.getpid()]) == ["unit_0", "unit_2", "unit_4", "unit_5"]


def test_the_device_is_set_up_before_the_first_batch(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    """In full float32, and with the same algorithms in every run."""
    set_up: list[int] = []
    for name in ("use_full_float32", "use_same_algorithms"):
        monkeypatch.setattr(model_job, name, lambda: set_up.append(len(launch.in_hand)))
    launch.run(0, steal=False)
    assert set_up == [0, 0]


def test_units_that_are_computed_when_a_worker_dies_are_kept(
    shar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not computed again, and what was computed of the unit at work is not counted twice."""
    use_toy_codec(monkeypatch.setattr)
    launch = _codes(shar, tmp_path, pool_duration=30.0)
    died, num_calls, decode = tmp_path / "died", itertools.count(), prefetch.decode_batch
    computed: list[int] = []
    taken_back: list[int] = []
    publish, take_back = model_job._publish, model_job._Begun.take_back

    def dying(*arguments: Any) -> prefetch.Decoded:
        if next(num_calls) >= DIES_AT and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGSEGV)
        return decode(*arguments)

    monkeypatch.setattr(prefetch, "decode_batch", dying)
    monkeypatch.setattr(model_job, "_publish", lambda one, *more: computed.append(one.records) or publish(one, *more))  # type: ignore[func-returns-value]
    monkeypatch.setattr(model_job._Begun, "take_back", lambda one: taken_back.append(one.records) or take_back(one))  # type: ignore[func-returns-value]
    report = launch.call(RunOptions(num_workers=1), launch.workspace)
    progress = read_document(progress_file(launch.another_workspace(), 0), RankProgress)
    assert sum(taken_back) > 0 and died.exists()
    assert len(computed) == report.units
    assert progress is not None and progress.records_done == progress.records_total == sum(computed)
    assert tree(launch.workspace.folder) == launch.undisturbed()


@pytest.mark.slow
def test_without_stealing_each_rank_keeps_to_its_share(launch: Launch) -> None:
    first = launch.run(0, steal=False)
    assert first.status == "incomplete"
    own = launch.done
    assert launch.run(1, steal=False).status == "done"
    assert 0 < len(own) < len(launch.done)
    assert tree(launch.workspace.folder) == launch.undisturbed()


def test_the_next_unit_is_started_before_the_last_batches_of_a_unit_are_taken(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the device would be idle at the end of each unit."""
    steps: list[tuple[str, int]] = []
    started: list[int] = []
    start, result = ModelRunner.run, Running.result

    def noted_run(self: ModelRunner, *arguments: Any, **more: Any) -> Any:
        found = start(self, *arguments, **more)
        started.append(id(found))
        kept.append(found)
        steps.append(("start", len(started)))
        return found

    def noted_result(self: Running) -> Any:
        steps.append(("take", started.index(id(self)) + 1))
        return result(self)

    kept: list[Running] = []
    monkeypatch.setattr(ModelRunner, "run", noted_run)
    monkeypatch.setattr(Running, "result", noted_result)
    launch.call(RunOptions(), launch.workspace)
    depth = 1 + torch.get_num_threads()  # of a CPU
    assert len(started) > 3 * depth
    in_turn = [step for number in range(1, len(started) + 1) for step in (("start", number), ("take", number - depth))]
    assert steps[: len(in_turn) - depth] == [step for step in in_turn if step[1] > 0]


def test_status_while_the_model_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is planned then, and no unit has begun."""
    seen: list[Status] = []

    def load(name: str) -> ToyCodec:
        seen.extend(map(read_status, workspaces_to_show(tmp_path / "codes")))
        return ToyCodec(name)

    use_toy_codec(monkeypatch.setattr, load)
    options = ("--codec-model", "toy", "--output-dir", tmp_path / "codes")
    done = prepcli("extend-codec-codes", MINI_CORPUS / "manifest.json", *options)
    assert done.code == 0, done.err
    assert [(one.state, one.stage, one.stage_done, one.stage_total) for one in seen] == [
        ("planning", "loading the model", 0, 1)
    ]
    assert [(rank.rank, rank.host) for rank in seen[0].ranks] == [(0, socket.gethostname())]
    assert prepcli("status", tmp_path / "codes", "--json").json["state"] == "finished"
    use_toy_codec(monkeypatch.setattr, Mock(side_effect=UsageError("cannot be loaded")))
    options = ("--codec-model", "toy", "--output-dir", tmp_path / "other")
    assert prepcli("extend-codec-codes", MINI_CORPUS / "manifest.json", *options).code == 2
    assert not (tmp_path / "other.prepcli").exists()
