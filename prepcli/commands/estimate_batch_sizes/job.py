"""estimate-batch-sizes as a job: a unit is a bucket, and ranks try different buckets."""

import contextlib
import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
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
from prepcli.commands.estimate_batch_sizes.options import DEFAULT_WORK, EstimateBatchSizes
from prepcli.commands.estimate_batch_sizes.report import BatchSizesReport
from prepcli.commands.estimate_batch_sizes.result import loader_options, make_result, result_file
from prepcli.commands.estimate_batch_sizes.search import BucketResults, DeviceFacts, bisect, peak_of
from prepcli.commands.estimate_batch_sizes.steps import ModelTrainer
from prepcli.engine.publishing.plots import save_figure
from prepcli.engine.publishing.publish import Marker, UnitWriter, read_marker
from prepcli.engine.run.job import Job
from prepcli.engine.run.run import run_job
from prepcli.engine.run.unit import Execution
from prepcli.engine.state.plan import Plan, StoredPlan, Unit
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.errors import PrepcliError, UsageError, option
from prepcli.formats.yaml_text import read_yaml
from prepcli.interface.calls import tell
from prepcli.interface.options import settings_of
from prepcli.interface.plotting import new_figure
from prepcli.models.devices import check_packages, find_devices
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

    def __init__(self, options: EstimateBatchSizes, child: Child) -> None:
        self.options = options
        self.child = child
        self.elsewhere = f"another directory with {option('--work')}"

    def plan(self, workspace: Workspace) -> BatchSizesPlan:
        """Return the plan, in which each unit is a bucket. If the options name a model, check that it exists."""
        options = self.options
        if options.model is not None:
            if is_file(options.model):
                target_of(options.model, "--model")
            elif (problem := problem_of(options.model, "ASRModel", "asr")) is not None:
                raise UsageError(f"{option('--model', options.model)} cannot be fetched: {problem}")
        bounds = self._bounds(workspace)
        units = [
            Bucket(f"bucket_{number:04d}", float(duration_of(bound)), 1, number) for number, bound in enumerate(bounds)
        ]
        return Plan(units, len(units), bounds)

    def _bounds(self, workspace: Workspace) -> list[Bound]:
        """The upper bounds of the buckets, ascending."""
        options = self.options
        found = given_bounds(options.buckets, options.buckets_from)
        stored, file = read_document(workspace.plan_file, StoredPlan), workspace.out / FILE_NAME
        if options.buckets_from is None or options.overwrite or stored is None or not file.is_file():
            return found
        # If the config has the result of the earlier search, whose bins may be merged, the same buckets are searched.
        result, searched = buckets_in_config(file), parse_buckets(stored.settings["--buckets"])
        is_result = found == result or (found[:-1] == result and found[-1] == searched[-1])
        return searched if is_result else found

    def settings(self, plan: BatchSizesPlan) -> dict[str, Any]:
        """The options and the bounds of the buckets. A digest replaces the name of a model file or a config."""
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
        """The name of the file with the bins and their batch sizes."""
        return (FILE_NAME,)

    def input_files(self, plan: BatchSizesPlan) -> list[str | AnyPath]:
        """The files that the options name: the model, the model's config, and the file with the buckets."""
        options = self.options
        return [path for path in (options.model, options.config, options.buckets_from) if path is not None]

    def execute(self, plan: BatchSizesPlan, units: Sequence[Bucket], execution: Execution) -> Iterator[Marker]:
        """Find the batch sizes of the buckets of this rank, from the longest bucket to the shortest."""
        workspace, digest = execution.workspace, execution.digest
        self.child.tick = execution.tick
        limit = self._device_facts(workspace).limit
        for unit in sorted(units, key=lambda one: one.number, reverse=True):
            start = self.options.start_batch_size
            for larger in plan.units[unit.number + 1 :]:
                if read_marker(workspace, larger, digest) is not None:
                    start = 2 * _known(workspace, larger.id).size or start
                    break

            def write(writer: UnitWriter, bound: Bound = plan.contents[unit.number], start: int = start) -> None:
                found = BucketResults()
                found.size, _ = self._settle(bound, found, start, limit)
                writer.open_part(PART.format(writer.unit.id)).write(msgspec.json.encode(found))
                writer.count(1, 0.0)

            marker = execution.do_unit(unit, write)
            execution.advance(1, unit.cost)
            yield marker
        self.child.tick = lambda: None

    def _settle(self, bound: Bound, found: BucketResults, start: int, limit: int) -> tuple[int, int]:
        """Search the batch size of a bucket as NeMo does, from batch size `start`.

        A size fits if its training step needs at most `limit` bytes. Results of steps are taken from `found`; steps
        that it does not have are made, and added to it.

        Returns:
            The largest batch size that fits (0 if no example fits), and the number of steps that NeMo's search
            makes, with those that `found` had.
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
        """Do NeMo's search over all buckets with the steps that were made, and write the bins and their batch sizes."""
        facts = self._device_facts(writer.workspace)
        found = [_known(writer.workspace, marker.unit) for marker in markers]
        nemo_steps = self._settle_all(plan.contents, found, facts.limit)
        longest = self._longest(plan.contents, found, facts.limit)
        made = make_result(plan.contents, found, nemo_steps, facts, longest, self.options, self._durations())
        file = writer.open(FILE_NAME)
        file.write(result_file(made, self.options))
        return {"config": writer.workspace.out / FILE_NAME, **made}

    def _settle_all(self, bounds: list[Bound], found: Sequence[BucketResults], limit: int) -> int:
        """Find the batch size that NeMo finds for each bucket, and set it in `found`; returns NeMo's number of steps.

        NeMo goes from the longest bucket to the shortest, and begins each with twice the batch size of the previous
        one. A rank that began with another size has not made all steps of NeMo's search; missing ones are made here.
        """
        start, nemo_steps = self.options.start_batch_size, 0
        for bound, one in zip(reversed(bounds), reversed(found), strict=True):
            one.size, steps = self._settle(bound, one, start, limit)
            if one.size:
                start, nemo_steps = 2 * one.size, nemo_steps + steps
        return nemo_steps

    def _longest(self, bounds: list[Bound], found: Sequence[BucketResults], limit: int) -> float | None:
        """The longest duration in seconds of which one example fits.

        None if all buckets have a batch size above 0, or if the buckets are two-dimensional.
        """
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
        """The durations in seconds of the records that a training config of the options names.

        None if there is no such config, or if its data cannot be read on this machine.
        """
        from prepcli.manifest.durations import read_input
        from prepcli.manifest.inputs import resolve_input

        for config in (self.options.buckets_from, self.options.config):
            if config is not None and config.suffix in (".yaml", ".yml"):
                with contextlib.suppress(PrepcliError):
                    data = resolve_input(str(config), "leave out")
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

    Without a GPU, `cuda` becomes `cuda:0`, for which the child process reports the error.

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
    found = find_devices("auto", rank)
    if found.sharing:
        raise UsageError(f"{found.sharing}: batch sizes of ranks that share a GPU would be too small")
    return "cuda:0" if found.device == "cpu" else found.device


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


def estimate_batch_sizes(options: EstimateBatchSizes) -> BatchSizesReport:
    """Find the largest batch size of each bucket.

    Returns:
        The report of the run. `details` has `bucket_duration_bins` and `bucket_batch_size` for a training config, and
        in `buckets` the steps of each bucket; `is_estimate` says whether the batch sizes are estimates.

    Raises:
        UsageError: options that do not go together, or a model that cannot be loaded.
        PrepcliError: not one example fits, the model cannot make a step, or `verify` has found a batch that fails.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.

    Examples:
        >>> import prepcli
        >>> report = prepcli.estimate_batch_sizes(
        ...     model="tiny.nemo", buckets="[1.0,2.0]", device="cpu", gpu_memory="64MiB", work="sizes"
        ... )
        >>> report.details["is_estimate"], len(report.details["bucket_batch_size"])
        (True, 2)
    """
    options.check()
    check_packages()
    engine = options.engine()
    workspace = Workspace(options.work or Path(DEFAULT_WORK))
    device = _device_of(options.device, engine.rank)
    log = workspace.root / f"steps-{device.replace(':', '')}.log"
    with closing(Child(ModelTrainer, options, device, log, lambda facts: _same_device(workspace, facts))) as child:
        ran = run_job(BatchSizesJob(options, child), workspace, engine)
        report = BatchSizesReport(**msgspec.structs.asdict(ran))
        if report.status == "dry_run":
            report.details |= _plan(options)
        if report.status in ("dry_run", "incomplete"):
            return report
        if not report.details["bucket_batch_size"]:
            raise PrepcliError(report.details["advice"][0] + "; give a GPU with more memory, or a smaller model")
        if options.verify:
            _verify(child, options, report)
    if options.plot is not None:
        plot_memory(report.details, options.plot)
    if options.write_config is not None:
        from prepcli.manifest.loader_config import write_loader_config

        for note in write_loader_config(options.write_config, loader_options(report.details)):
            tell(f"prepcli: {note}")
    return report


def _plan(options: EstimateBatchSizes) -> dict[str, Any]:
    """The details of a dry run: the model, the longest and shortest bucket, and the steps that would be tried."""
    bounds = given_bounds(options.buckets, options.buckets_from)
    steps = (
        "batches of 2 and 3 of each bucket, whose bytes are counted on the CPU"
        if options.is_estimate
        else f"on {options.device}, from a batch of {options.start_batch_size:,} in the longest bucket"
    )
    return {
        "model": options.model or f"{options.model_class} of {options.config}",
        "largest_bucket": shown(bounds[-1]),
        "smallest_bucket": shown(bounds[0]),
        "steps": steps,
    }


def _verify(child: Child, options: EstimateBatchSizes, report: BatchSizesReport) -> None:
    """Make a step of the largest bucket, one of the smallest, and then one of every bucket in random order.

    One process makes all steps: a larger batch after smaller ones may fail because memory is fragmented. On a GPU, a
    new process is started for them, which has no memory in use yet.

    Raises:
        PrepcliError: a batch does not fit.
    """
    lists = list(zip(report.details["bucket_duration_bins"], report.details["bucket_batch_size"], strict=True))
    steps = [lists[-1], lists[0], *random.Random(0).sample(lists, len(lists))]
    if not options.is_estimate:
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


MAX_LABELS = 12
NUM_POINTS = 60


def plot_memory(result: Mapping[str, Any], path: Path) -> None:
    """Draw a plot with the memory of training steps on the y axis and the batch size on the x axis.

    Each bucket has a curve, dots for measured steps, and crosses for sizes that failed. A line shows the memory limit.
    `result` is what `make_result` returns. The suffix of `path` selects the format.
    Raises `UsageError` without matplotlib, or if the file cannot be written.
    """
    from matplotlib import colormaps
    from matplotlib.ticker import FuncFormatter

    figure = new_figure()
    axes = figure.add_subplot()
    rows = result["buckets"]
    unit, divisor = ("GiB", 2**30) if result["limit"] >= 2**30 else ("MiB", 2**20)
    colors = colormaps["viridis"]
    labelled = set(range(0, len(rows), max(1, -(-len(rows) // MAX_LABELS)))) | {len(rows) - 1}
    for number, row in enumerate(rows):
        color = colors(number / max(1, len(rows) - 1))
        name = f"{row['duration']:g} s" + (f", {row['tokens']} tokens" if row["tokens"] is not None else "")
        sizes, peaks = _curve(row)
        axes.plot(
            sizes,
            [peak / divisor for peak in peaks],
            color=color,
            linewidth=1,
            linestyle="--" if row["is_estimate"] else "-",
            alpha=0.7,
            label=name if number in labelled else None,
        )
        measured = [(size, peak / divisor) for size, peak in row["measured"] if peak]
        axes.plot([size for size, _ in measured], [peak for _, peak in measured], "o", color=color, markersize=3)
        for size, _ in row.get("failed", ()):
            axes.plot(size, result["limit"] / divisor, "x", color=color, markersize=5)
    axes.axhline(result["limit"] / divisor, color="tab:red", linewidth=1, label="limit")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
    axes.set_xlabel("examples in a batch")
    axes.set_ylabel(f"memory ({unit})")
    axes.set_ylim(bottom=0, top=1.1 * result["limit"] / divisor)
    basis = (
        "estimated on a CPU (dots: counted steps)"
        if result["is_estimate"]
        else f"measured on {result['device']} (x: failed)"
    )
    axes.set_title(f"{result['model']}, {len(rows)} buckets, {basis}")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5), title="bucket")
    save_figure(figure, path)


def _curve(row: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """The batch sizes and bytes of the points that are drawn for a bucket: its measured steps.

    For an estimate they are points on its extrapolated line, dense enough to look smooth on a logarithmic axis.
    """
    if not row["lines"]:
        return [size for size, _ in row["measured"]], [peak for _, peak in row["measured"]]
    largest = max(row["batch_size"], 1)
    sizes = sorted({max(1, round(largest ** (step / NUM_POINTS))) for step in range(NUM_POINTS + 1)})
    return sizes, [peak_of(row["lines"], size) for size in sizes]
