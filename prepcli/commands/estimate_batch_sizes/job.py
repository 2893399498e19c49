"""estimate-batch-sizes as a job: a unit is a bucket, and ranks try different buckets."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

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
from prepcli.commands.estimate_batch_sizes.children import Child
from prepcli.commands.estimate_batch_sizes.messages import Hello, Setup
from prepcli.commands.estimate_batch_sizes.options import EstimateBatchSizes, parse_memory
from prepcli.commands.estimate_batch_sizes.probes import FOLDER, Record
from prepcli.commands.estimate_batch_sizes.result import make_result, result_file
from prepcli.commands.estimate_batch_sizes.search import next_start
from prepcli.commands.estimate_batch_sizes.searching import Search, Settings
from prepcli.engine.publishing.publish import Marker, UnitWriter
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
DEVICE_FILE = "device.json"


@dataclass(frozen=True, slots=True)
class Bucket(Unit):
    """A bucket by its number; its cost is its duration, so that the engine begins with the largest, as NeMo does."""

    number: int


BatchSizesPlan = Plan[Bucket, list[Bound]]


class BatchSizesJob(Job[Bucket, list[Bound]]):
    """Finds the batch size of each bucket.

    Args:
        options: of the command.
        child: the process that makes steps. It stays from the first step to the end of the command, so that NeMo is
            imported once, and is replaced only when it has died. A server that has imported NeMo and forks further
            children would be quicker then, but importing NeMo may initialize CUDA (numba looks for GPUs), which no
            fork survives; and on the CPU no child is replaced.
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
        record = Record(execution.workspace.root, execution.digest)
        with self.child.ticking(execution.tick):
            search = self._search(plan.contents, record, execution.workspace)
            for unit in sorted(units, key=lambda one: one.number, reverse=True):
                record.reload()
                with UnitWriter(execution.workspace, execution.digest, unit) as writer:
                    search.settle(unit.number, search.start_of(unit.number))
                    writer.count(1, 0.0)
                    marker = writer.publish()
                execution.advance(1, unit.cost)
                yield marker

    def finish(self, plan: BatchSizesPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Follow NeMo's search over all buckets, and write the lists.

        The ranks began some buckets where they expected the larger one to end. Where it ended elsewhere, a step or two
        may be missing.
        """
        digest = markers[0].digest
        record = Record(writer.workspace.root, digest)
        search = self._search(plan.contents, record, writer.workspace)
        sizes = search.results(finish=True)
        longest = search.longest(sizes)
        hello = stored_hello(writer.workspace) or self.child.hello()
        starts, start = [0] * len(sizes), self.options.start_batch_size
        for number in reversed(range(len(sizes))):
            starts[number] = start
            start = next_start(sizes[number], start)
        durations = self._durations()
        made = make_result(plan.contents, sizes, starts, search, record, hello, longest, self.options, durations)
        file = writer.open(FILE_NAME)
        file.write(result_file(made, self.options))
        return {"config": writer.workspace.out / FILE_NAME, **made}

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

    def _search(self, bounds: list[Bound], record: Record, workspace: Workspace) -> Search:
        options = self.options
        hello = stored_hello(workspace) or self.child.hello()
        settings = Settings(
            bounds, options.start_batch_size, options.threshold, options.is_estimate, hello.limit, hello.static
        )
        return Search(settings, record, self.child)


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
    setup = Setup(
        model=options.model,
        model_class=options.model_class,
        config=None if options.config is None else str(options.config),
        optimizer=options.optimizer,
        dtype=options.dtype,
        ddp=options.ddp,
        device=device,
        memory_fraction=options.memory_fraction,
        gpu_memory=None if options.gpu_memory is None else parse_memory(options.gpu_memory),
        ratio=options.ratio,
    )
    log = workspace.root / f"steps-{device.replace(':', '')}.log"
    return Child(setup, log, options.probe_timeout, lambda hello: _same_device(workspace, hello))


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


def stored_hello(workspace: Workspace) -> Hello | None:
    """What the first child process of this search was."""
    return read_document(workspace.root / FOLDER / DEVICE_FILE, Hello)


def _same_device(workspace: Workspace, own: Hello) -> None:
    """Keep what the first child is, and check that all are on the same kind of device.

    Raises:
        UsageError: this one is not; the results of two kinds of GPUs must not be mixed.
    """
    (workspace.root / FOLDER).mkdir(exist_ok=True)
    first = publish_json_once(workspace.root / FOLDER / DEVICE_FILE, own, Hello)
    if first is not None and (first.device, first.memory) != (own.device, own.memory):
        raise UsageError(
            f"{workspace.named} was begun on {first.device} with {first.memory / 2**30:.1f} GiB, and this is "
            f"{own.device} with {own.memory / 2**30:.1f} GiB; choose another --work, or give --overwrite to start again"
        )
