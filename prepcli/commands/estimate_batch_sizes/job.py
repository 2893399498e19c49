"""estimate-batch-sizes as a job: a unit is a bucket, and ranks try different buckets."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from prepcli.audio.seconds import seconds_of
from prepcli.commands.estimate_batch_sizes.buckets import (
    Bound,
    buckets_in_config,
    duration_of,
    given_bounds,
    parse_buckets,
    searched_bounds,
    shown,
    tokens_of,
)
from prepcli.commands.estimate_batch_sizes.child import Child
from prepcli.commands.estimate_batch_sizes.options import EstimateBatchSizes
from prepcli.commands.estimate_batch_sizes.result import make_result, result_file
from prepcli.commands.estimate_batch_sizes.search import Found, Hello, bisect, peak_of
from prepcli.commands.estimate_batch_sizes.steps import ModelTrainer
from prepcli.engine.publishing.publish import Marker, UnitWriter, read_marker
from prepcli.engine.run.job import Execution, Job
from prepcli.engine.state.plan import Plan, StoredPlan, Unit
from prepcli.engine.state.workspace import Workspace, publish_json_once, read_document
from prepcli.errors import PrepcliError, UsageError
from prepcli.formats.yaml_text import read_yaml
from prepcli.interface.options import settings_of
from prepcli.models.devices import find_devices
from prepcli.models.nemo import file_identity, is_file, target_of
from prepcli.models.pretrained import problem_of
from prepcli.models.training import DATA_KEYS
from prepcli.processes.ranks import Rank
from prepcli.processes.workers import available_processors

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FILE_NAME = "batch_sizes.yaml"
DEVICE_FILE = "parts/device.json"
PART = "parts/{}.json"
"""What is known of a bucket, in OUT.prepcli."""
PRECISION = 0.01
"""The longest duration that fits is found to this share of it, and to a tenth of a second at best."""


@dataclass(frozen=True, slots=True)
class Bucket(Unit):
    """A bucket by its number; its cost is its duration, so that the engine begins with the largest, as NeMo does."""

    number: int


BatchSizesPlan = Plan[Bucket, list[Bound]]


class BatchSizesJob(Job[Bucket, list[Bound]]):
    """Finds the batch size of each bucket.

    Args:
        options: of the command.
        child: the process that makes steps, from the first one to the end of the command, so that NeMo is imported
            once; it is replaced only if it has died.
    """

    command: ClassVar[str] = "estimate-batch-sizes"
    reads_audio_files: bool = False
    elsewhere: str = "another directory with --work"

    def __init__(self, options: EstimateBatchSizes, child: Child) -> None:
        self.options = options
        self.child = child

    def plan(self, workspace: Workspace) -> BatchSizesPlan:
        """The buckets."""
        options = self.options
        if options.model is not None:
            if is_file(options.model):
                target_of(options.model, "--model")
            elif (problem := problem_of(options.model, "ASRModel", "asr")) is not None:
                raise UsageError(f"--model {options.model} cannot be fetched: {problem}")
        bounds = self._bounds(workspace)
        units = [
            Bucket(f"bucket_{number:04d}", float(duration_of(bound)), 1, number) for number, bound in enumerate(bounds)
        ]
        return Plan(units, len(units), bounds)

    def _bounds(self, workspace: Workspace) -> list[Bound]:
        """The upper bounds of the buckets, ascending."""
        options = self.options
        found = given_bounds(options.buckets, options.buckets_from)
        stored, result = read_document(workspace.plan_file, StoredPlan), workspace.out / FILE_NAME
        if options.buckets_from is None or options.overwrite or stored is None or not result.is_file():
            return found
        return searched_bounds(found, buckets_in_config(result), parse_buckets(stored.settings["--buckets"]))

    def settings(self, plan: BatchSizesPlan) -> dict[str, Any]:
        """The options, with the content of the model in the place of its name."""
        options = self.options
        found = settings_of(options)
        found["--buckets"] = "[" + ",".join(map(shown, plan.contents)) + "]"
        if options.model is not None:
            found["--model"] = file_identity(options.model)
        if options.config is not None:
            found["--config"] = _config_identity(options.config)
        if any(tokens_of(bound) is not None for bound in plan.contents):
            del found["--ratio"]
        found["--device"] = "cpu" if options.is_estimate else "cuda"
        return found

    def output_patterns(self, plan: BatchSizesPlan) -> Sequence[str]:
        """The file with the lists."""
        return (FILE_NAME,)

    def input_files(self, plan: BatchSizesPlan) -> list[str | Path]:
        """The model and the configs."""
        options = self.options
        return [path for path in (options.model, options.config, options.buckets_from) if path is not None]

    def execute(self, plan: BatchSizesPlan, units: Sequence[Bucket], execution: Execution) -> Iterator[Marker]:
        """Try the buckets of this rank, from the largest to the smallest."""
        workspace, digest = execution.workspace, execution.digest
        self.child.tick = execution.tick
        limit = self._hello(workspace).limit
        for unit in sorted(units, key=lambda one: one.number, reverse=True):
            start = self.options.start_batch_size
            for larger in plan.units[unit.number + 1 :]:
                if read_marker(workspace, larger, digest) is not None:
                    start = 2 * _known(workspace, larger.id).size or start
                    break
            found = Found()
            with UnitWriter(workspace, digest, unit) as writer:
                found.size, _ = self._settle(plan.contents[unit.number], found, start, limit)
                writer.open_part(PART.format(unit.id)).write(msgspec.json.encode(found))
                writer.count(1, 0.0)
                marker = writer.publish()
            execution.advance(1, unit.cost)
            yield marker
        self.child.tick = lambda: None

    def _settle(self, bound: Bound, found: Found, start: int, limit: int) -> tuple[int, int]:
        """Follow NeMo's search of a bucket from `start`, and make the steps that are missing.

        Returns:
            The largest batch size that fits, 0 if not one example does; and the number of NeMo's steps.
        """
        where = duration_of(bound), tokens_of(bound)
        if self.options.is_estimate and not found.lines:
            counted = self.child.count(*where)
            found.steps, found.lines = counted.steps, counted.lines

        def fits(size: int) -> bool:
            known = found.answer(size, limit)
            if known is None:
                step = self.child.step(*where, size)
                if step.outcome == "cuda_error" and size == 1:
                    raise PrepcliError(f"a step with one example of bucket {shown(bound)} fails: {step.detail}")
                found.steps.append(step)
                known = step.outcome == "fits"
            return known

        return bisect(start, self.options.threshold, fits)

    def finish(self, plan: BatchSizesPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Follow NeMo's search over all buckets, and write the lists."""
        hello = self._hello(writer.workspace)
        found = [_known(writer.workspace, marker.unit) for marker in markers]
        nemo_steps = self._settle_all(plan.contents, found, hello.limit)
        longest = self._longest(plan.contents, found, hello.limit)
        made = make_result(plan.contents, found, nemo_steps, hello, longest, self.options, self._durations())
        file = writer.open(FILE_NAME)
        file.write(result_file(made, self.options))
        return {"config": writer.workspace.out / FILE_NAME, **made}

    def _settle_all(self, bounds: list[Bound], found: Sequence[Found], limit: int) -> int:
        """Set NeMo's answer for each bucket, from the largest to the smallest; returns the number of NeMo's steps.

        NeMo begins a bucket with twice the size of the larger one. Ranks began some with less knowledge, so that a step
        or two may be missing.
        """
        start, nemo_steps = self.options.start_batch_size, 0
        for bound, one in zip(reversed(bounds), reversed(found), strict=True):
            one.size, steps = self._settle(bound, one, start, limit)
            if one.size:
                start, nemo_steps = 2 * one.size, nemo_steps + steps
        return nemo_steps

    def _longest(self, bounds: list[Bound], found: Sequence[Found], limit: int) -> float | None:
        """The longest duration of which one example fits, if that is not so for all buckets of one dimension."""
        first = next((number for number, one in enumerate(found) if not one.size), None)
        if first is None or isinstance(bounds[first], tuple):
            return None
        low, high = duration_of(bounds[first - 1]) if first else 0.0, duration_of(bounds[first])
        while low < (middle := round((low + high) / 2, 1)) < high and high - low > PRECISION * high:
            if self.options.is_estimate:
                fits = peak_of(self.child.count(middle, None).lines, 1) <= limit
            else:
                fits = self.child.step(middle, None, 1).outcome == "fits"
            low, high = (middle, high) if fits else (low, middle)
        return low

    def _durations(self) -> "npt.NDArray[np.float64] | None":
        """The durations of the data that a training config names, in seconds; None if it names none, or none here."""
        from prepcli.manifest.durations import read_input
        from prepcli.manifest.inputs import resolve_input

        for config in (self.options.buckets_from, self.options.config):
            if config is not None and config.suffix in (".yaml", ".yml"):
                with contextlib.suppress(PrepcliError):
                    data = resolve_input(str(config), "leave out")
                    return read_input(data, num_workers=available_processors(), seconds_of=seconds_of).seconds
        return None

    def _hello(self, workspace: Workspace) -> Hello:
        """The model and its device, as the first process of this search has found them."""
        return read_document(workspace.root / DEVICE_FILE, Hello) or self.child.hello()


def _known(workspace: Workspace, unit: str) -> Found:
    """What is known of a bucket that is done: nothing if a version before this one has done it."""
    return read_document(workspace.root / PART.format(unit), Found) or Found()


def make_child(options: EstimateBatchSizes, rank: Rank, workspace: Workspace) -> Child:
    """The process that makes steps; it starts when it is first needed.

    Args:
        options: of the command.
        rank: this rank; its number on the machine chooses its GPU.
        workspace: of the run.

    Raises:
        UsageError: two ranks would use the same GPU.
        IncompleteError: the machine has GPUs, and their driver fails.
    """
    device = _device_of(options.device, rank)
    log = workspace.root / f"steps-{device.replace(':', '')}.log"
    return Child(ModelTrainer, options, device, log, lambda hello: _same_device(workspace, hello))


def _device_of(wanted: str, rank: Rank) -> str:
    """The device of a rank; `cuda` is the GPU that is its own, or the first one, of which the child says what is wrong.

    Raises:
        UsageError: another rank measures on this GPU, so that the sizes would be too small.
    """
    if wanted.startswith("cuda:") and rank.local_rank:
        raise UsageError(f"--device {wanted}: the ranks of a machine have a GPU each; leave --device out")
    if wanted != "cuda":
        return wanted
    found = find_devices("auto", rank)
    if found.sharing:
        raise UsageError(f"{found.sharing}: batch sizes of ranks that share a GPU would be too small")
    return "cuda:0" if found.device == "cpu" else found.device


def _config_identity(path: Path) -> str:
    """What identifies the model of a training config: all of it but the data, so that the result may be written there.

    Raises:
        UsageError: it is not a training config.
    """
    import yaml

    try:
        model = read_yaml(path)["model"]
        described = json.dumps({name: value for name, value in model.items() if name not in DATA_KEYS}, default=str)
    except (OSError, yaml.YAMLError, RecursionError, KeyError, TypeError, AttributeError):
        raise UsageError(f"--config {path}: it is not the YAML of a training with the key model") from None
    return f"model with SHA-256 {hashlib.sha256(described.encode()).hexdigest()}"


def _same_device(workspace: Workspace, own: Hello) -> None:
    """Keep what the first child is, and check that all are on the same kind of device.

    Raises:
        UsageError: this one is not; the results of two kinds of GPUs must not be mixed.
    """
    (workspace.root / DEVICE_FILE).parent.mkdir(exist_ok=True)
    first = publish_json_once(workspace.root / DEVICE_FILE, own, Hello)
    if first is not None and (first.device, first.memory) != (own.device, own.memory):
        raise UsageError(
            f"{workspace.named} was begun on {first.device} with {first.memory / 2**30:.1f} GiB, and this is "
            f"{own.device} with {own.memory / 2**30:.1f} GiB; choose another --work, or give --overwrite to start again"
        )
