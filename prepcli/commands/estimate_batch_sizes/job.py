"""estimate-batch-sizes as a job: a unit is a bucket, and ranks try different buckets."""

import contextlib
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
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
    shown,
    tokens_of,
)
from prepcli.commands.estimate_batch_sizes.child import Child
from prepcli.commands.estimate_batch_sizes.report import BatchSizesReport
from prepcli.commands.estimate_batch_sizes.result import make_result, result_file
from prepcli.commands.estimate_batch_sizes.search import BucketResults, DeviceFacts, bisect, peak_of
from prepcli.commands.estimate_batch_sizes.settings import SearchSettings
from prepcli.commands.estimate_batch_sizes.steps import ModelTrainer
from prepcli.engine.publishing.publish import Marker, UnitWriter, read_marker
from prepcli.engine.run.job import Job
from prepcli.engine.run.options import run_options
from prepcli.engine.run.run import run_job
from prepcli.engine.run.unit import Execution
from prepcli.engine.state.plan import Plan, StoredPlan, Unit
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.errors import PrepcliError, UsageError, option
from prepcli.formats.loader_sections import file_and_part
from prepcli.formats.yaml_text import read_yaml
from prepcli.interface.calls import current_call
from prepcli.interface.options import settings_of
from prepcli.models.devices import check_gpu, check_packages, find_devices
from prepcli.models.nemo import file_identity, is_file, target_of
from prepcli.models.pretrained import problem_of
from prepcli.models.training import DATA_KEYS
from prepcli.processes.ranks import Rank
from prepcli.processes.signals import stop_on_signals
from prepcli.processes.workers import available_processors
from prepcli.storage.paths import AnyPath

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


FILE_NAME = "batch_sizes.yaml"
DEVICE_FILE = "device.json"
PART = "parts/{}.json"
"""The file with the results of a bucket, in OUT.prepcli."""
PRECISION = 0.01
"""Relative precision of the longest duration that fits; durations are tried in steps of a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Bucket(Unit):
    """A bucket with its number.

    Its cost is its duration, so the engine begins with the longest bucket, as NeMo does.
    """

    number: int


BatchSizesPlan = Plan[Bucket, list[Bound]]


class BatchSizesJob(Job[Bucket, list[Bound]]):
    """Finds the batch size of each bucket.

    One process makes the steps of all buckets of this rank (`child`), so that NeMo is imported only once. If the
    process dies, another one replaces it.
    """

    command: ClassVar[str] = "estimate-batch-sizes"
    reads_audio_files: bool = False

    def __init__(self, settings: SearchSettings, child: Child, device: str, *, overwrite: bool = False) -> None:
        self.search, self.overwrite = settings, overwrite
        self.child, self.device = child, device
        self.elsewhere = f"another directory with {option('--work')}"

    def plan(self, workspace: Workspace) -> BatchSizesPlan:
        """Return the plan, in which each unit is a bucket. If the options name a model, check that it exists."""
        search = self.search
        if search.model is not None:
            if is_file(search.model):
                target_of(search.model, "--model")
            elif (problem := problem_of(search.model, "ASRModel", "asr")) is not None:
                raise UsageError(f"{option('--model', search.model)} cannot be fetched: {problem}")
        bounds = self._bounds(workspace)
        units = [
            Bucket(f"bucket_{number:04d}", float(duration_of(bound)), 1, number) for number, bound in enumerate(bounds)
        ]
        return Plan(units, len(units), bounds)

    def _bounds(self, workspace: Workspace) -> list[Bound]:
        """The upper bounds of the buckets, ascending."""
        search = self.search
        bounds = given_bounds(search.buckets, search.buckets_from)
        stored, file = read_document(workspace.plan_file, StoredPlan), workspace.out / FILE_NAME
        if search.buckets_from is None or self.overwrite or stored is None or not file.is_file():
            return bounds
        # If the config has the result of the earlier search, whose bins may be merged, the same buckets are searched.
        result, searched = buckets_in_config(file), parse_buckets(stored.settings["--buckets"])
        is_result = bounds == result or (bounds[:-1] == result and bounds[-1] == searched[-1])
        return searched if is_result else bounds

    def settings(self, plan: BatchSizesPlan) -> dict[str, Any]:
        """The options and the bounds of the buckets. A digest replaces the name of a model file or a config."""
        search = self.search
        values = settings_of(current_call().options)
        values["--buckets"] = "[" + ",".join(map(shown, plan.contents)) + "]"
        if search.model is not None:
            values["--model"] = file_identity(search.model)
        if search.config is not None:
            values["--config"] = _config_identity(search.config)
        if any(tokens_of(bound) is not None for bound in plan.contents):
            del values["--ratio"]
        values["--device"] = "cpu" if search.is_estimate else "cuda"
        return values

    def output_patterns(self, plan: BatchSizesPlan) -> Sequence[str]:
        """The name of the file with the bins and their batch sizes."""
        return (FILE_NAME,)

    def input_files(self, plan: BatchSizesPlan) -> list[str | AnyPath]:
        """The files that the options name: the model, the model's config, and the file with the buckets."""
        search = self.search
        config = None if search.buckets_from is None else file_and_part(search.buckets_from)[0]
        return [path for path in (search.model, search.config, config) if path is not None]

    def prepare(self, plan: BatchSizesPlan) -> None:
        """Check that the machine has the GPU, before anything is written."""
        check_device(self.device)

    def execute(self, plan: BatchSizesPlan, units: Sequence[Bucket], execution: Execution) -> Iterator[Marker]:
        """Find the batch sizes of the buckets of this rank, from the longest bucket to the shortest."""
        workspace, digest = execution.workspace, execution.digest
        self.child.tick = execution.tick
        limit = self._device_facts(workspace).limit
        for unit in sorted(units, key=lambda unit: unit.number, reverse=True):
            start = self.search.start_batch_size
            for larger in plan.units[unit.number + 1 :]:
                if read_marker(workspace, larger, digest) is not None:
                    start = 2 * _known(workspace, larger.id).size or start
                    break

            def write(writer: UnitWriter, bound: Bound = plan.contents[unit.number], start: int = start) -> None:
                results = BucketResults()
                results.size, _ = self._settle(bound, results, start, limit)
                writer.open_part(PART.format(writer.unit.id)).write(msgspec.json.encode(results))
                writer.count(1, 0.0)

            marker = execution.do_unit(unit, write)
            execution.advance(1, unit.cost)
            yield marker
        self.child.tick = lambda: None

    def _settle(self, bound: Bound, results: BucketResults, start: int, limit: int) -> tuple[int, int]:
        """Search the batch size of a bucket as NeMo does, from batch size `start`.

        A size fits if its training step needs at most `limit` bytes. Results of steps are taken from `results`; steps
        that it does not have are made, and added to it.

        Returns:
            The largest batch size that fits (0 if no example fits), and the number of steps that NeMo's search
            makes, with those that `results` had.
        """
        where = duration_of(bound), tokens_of(bound)
        if self.search.is_estimate and not results.lines:
            counted = self.child.count(*where)
            results.steps, results.lines = counted.steps, counted.lines

        def fits(size: int) -> bool:
            known = results.answer(size, limit)
            if known is None:
                step = self.child.step(*where, size)
                if step.outcome == "cuda_error" and size == 1:
                    raise PrepcliError(f"a step with one example of bucket {shown(bound)} fails: {step.detail}")
                results.steps.append(step)
                known = step.outcome == "fits"
            return known

        return bisect(start, self.search.threshold, fits)

    def finish(self, plan: BatchSizesPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Do NeMo's search over all buckets with the steps that were made, and write the bins and their batch sizes."""
        facts = self._device_facts(writer.workspace)
        results = [_known(writer.workspace, marker.unit) for marker in markers]
        nemo_steps = self._settle_all(plan.contents, results, facts.limit)
        longest = self._longest(plan.contents, results, facts.limit)
        made = make_result(plan.contents, results, nemo_steps, facts, longest, self.search, self._durations())
        file = writer.open(FILE_NAME)
        file.write(result_file(made, self.search))
        return {"config": writer.workspace.out / FILE_NAME, **made}

    def _settle_all(self, bounds: list[Bound], results: Sequence[BucketResults], limit: int) -> int:
        """Find the batch size that NeMo finds for each bucket, and set it in `results`; returns NeMo's number of steps.

        NeMo goes from the longest bucket to the shortest, and begins each with twice the batch size of the previous
        one. A rank that began with another size has not made all steps of NeMo's search; missing ones are made here.
        """
        start, nemo_steps = self.search.start_batch_size, 0
        for bound, bucket in zip(reversed(bounds), reversed(results), strict=True):
            bucket.size, steps = self._settle(bound, bucket, start, limit)
            if bucket.size:
                start, nemo_steps = 2 * bucket.size, nemo_steps + steps
        return nemo_steps

    def _longest(self, bounds: list[Bound], results: Sequence[BucketResults], limit: int) -> float | None:
        """The longest duration in seconds of which one example fits.

        None if all buckets have a batch size above 0, or if the buckets are two-dimensional.
        """
        first = next((number for number, bucket in enumerate(results) if not bucket.size), None)
        if first is None or isinstance(bounds[first], tuple):
            return None
        low, high = duration_of(bounds[first - 1]) if first else 0.0, duration_of(bounds[first])
        while low < (middle := round((low + high) / 2, 1)) < high and high - low > PRECISION * high:
            if self.search.is_estimate:
                fits = peak_of(self.child.count(middle, None).lines, 1) <= limit
            else:
                fits = self.child.step(middle, None, 1).outcome == "fits"
            low, high = (middle, high) if fits else (low, middle)
        return low

    def _durations(self) -> "npt.NDArray[np.float64] | None":
        """The durations in seconds of the records that a training config of the options names.

        None if there is no such config, or if its data cannot be read on this machine.
        """
        from prepcli.manifest.durations import read_input
        from prepcli.manifest.inputs import resolve_input

        for config in map(str, filter(None, (self.search.buckets_from, self.search.config))):
            if file_and_part(config)[0].endswith((".yaml", ".yml")):
                with contextlib.suppress(PrepcliError):
                    data = resolve_input(config, "leave out")
                    return read_input(data, num_workers=available_processors(), seconds_of=seconds_of).seconds
        return None

    def _device_facts(self, workspace: Workspace) -> DeviceFacts:
        """The model and its device, as reported by the first process of this search."""
        return read_document(workspace.run / DEVICE_FILE, DeviceFacts) or self.child.device_facts()


def _known(workspace: Workspace, unit: str) -> BucketResults:
    """The results of a bucket that is done; empty if an older version of prepcli has done it."""
    path = workspace.part_file(unit, PART.format(unit))
    return read_document(path, BucketResults) or BucketResults()


def _device_of(wanted: str, rank: Rank) -> str:
    """The device of a rank: `wanted`, or for `cuda` the GPU of this rank.

    Without a GPU, `cuda` becomes `cuda:0`, which `BatchSizesJob.prepare` refuses.

    Raises:
        UsageError: another rank measures on this GPU, so the sizes would be too small.
        IncompleteError: the machine has GPUs, and their driver fails.
    """
    if wanted.startswith("cuda:") and rank.local_rank:
        raise UsageError(
            f"{option('--device', wanted)}: the ranks of a machine have a GPU each; leave {option('--device')} out"
        )
    if wanted != "cuda":
        return wanted
    devices = find_devices("auto", rank)
    if devices.sharing:
        raise UsageError(f"{devices.sharing}: batch sizes of ranks that share a GPU would be too small")
    return "cuda:0" if devices.device == "cpu" else devices.device


def check_device(device: str) -> None:
    """Raise `UsageError` if this machine has no such device."""
    if device != "cpu":
        estimate = f"{option('--device', 'cpu')} {option('--gpu-memory')} 80GiB"
        check_gpu(device, f"for an estimate give {estimate}")


def _config_identity(path: Path) -> str:
    """A text with the digest of the model in a training config. It does not depend on the data sections of the config.

    So a user may write the result of the search into these sections, and the run can still be continued.

    Raises:
        UsageError: it is not a training config.
    """
    import yaml

    try:
        model = read_yaml(path)["model"]
        described = json.dumps({name: value for name, value in model.items() if name not in DATA_KEYS}, default=str)
    except (OSError, yaml.YAMLError, RecursionError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{option('--config', path)}: it is not the YAML of a training with the key model") from None
    return f"model with SHA-256 {hashlib.sha256(described.encode()).hexdigest()}"


def _same_device(workspace: Workspace, own: DeviceFacts) -> None:
    """Store the description of the first child, and check that all children are on the same kind of device.

    Raises:
        UsageError: this child is on another kind; results of two kinds of GPUs must not be mixed.
    """
    first = workspace.write_once(workspace.run / DEVICE_FILE, own, DeviceFacts)
    if (first.device, first.memory) != (own.device, own.memory):
        raise UsageError(
            f"{workspace.named} was begun on {first.device} with {first.memory / 2**30:.1f} GiB, and this is "
            f"{own.device} with {own.memory / 2**30:.1f} GiB; choose another {option('--work')}, or give "
            f"{option('--overwrite')} to start again"
        )


def search(settings: SearchSettings, work: Path, *, overwrite: bool, verify: bool) -> BatchSizesReport:
    """Find the largest batch size of each bucket; with `verify`, also make steps of the sizes that were found.

    The errors are those of `prepcli.estimate_batch_sizes`.
    """
    check_packages()
    engine = run_options(current_call().options)
    workspace = Workspace(work)
    device = _device_of(settings.device, engine.rank)
    log = workspace.root / f"steps-{device.replace(':', '')}.log"
    with closing(Child(ModelTrainer, settings, device, log, lambda facts: _same_device(workspace, facts))) as child:
        ran = run_job(BatchSizesJob(settings, child, device, overwrite=overwrite), workspace, engine)
        report = BatchSizesReport(**msgspec.structs.asdict(ran))
        if report.status == "dry_run":
            report.details |= _plan(settings)
        if report.status in ("dry_run", "incomplete"):
            return report
        if not report.details["bucket_batch_size"]:
            raise PrepcliError(report.details["advice"][0] + "; give a GPU with more memory, or a smaller model")
        if verify:
            check_device(device)
            _verify(child, settings, report)
    return report


def _plan(settings: SearchSettings) -> dict[str, Any]:
    """The details of a dry run: the model, the longest and shortest bucket, and the steps that would be tried."""
    bounds = given_bounds(settings.buckets, settings.buckets_from)
    steps = (
        "batches of 2 and 3 of each bucket, whose bytes are counted on the CPU"
        if settings.is_estimate
        else f"on {settings.device}, from a batch of {settings.start_batch_size:,} in the longest bucket"
    )
    return {
        "model": settings.model or f"{settings.model_class} of {settings.config}",
        "largest_bucket": shown(bounds[-1]),
        "smallest_bucket": shown(bounds[0]),
        "steps": steps,
    }


def _verify(child: Child, settings: SearchSettings, report: BatchSizesReport) -> None:
    """Make a step of the largest bucket, one of the smallest, and then one of every bucket in random order.

    One process makes all steps: a larger batch after smaller ones may fail because memory is fragmented. On a GPU, a
    new process is started for them, which has no memory in use yet.

    Raises:
        PrepcliError: a batch does not fit.
    """
    lists = list(zip(report.details["bucket_duration_bins"], report.details["bucket_batch_size"], strict=True))
    steps = [lists[-1], lists[0], *random.Random(0).sample(lists, len(lists))]
    if not settings.is_estimate:
        child.close()
    before = "the first step"
    with stop_on_signals():
        for bound, size in steps:
            duration, tokens = bound if isinstance(bound, list) else (bound, None)
            outcome = child.step(duration, tokens, size).outcome
            text = f"{size} in bucket {str(bound).replace(' ', '')}"
            if outcome != "fits":
                raise PrepcliError(
                    f"{option('--verify')}: a batch of {text} does not fit after {before} "
                    f"({outcome.replace('_', ' ')}): give a lower {option('--memory-fraction')}"
                )
            before = f"one of {text}"
    report.details["verified_steps"] = len(steps)
