"""A job with a model.

Worker processes decode audio before it is needed, the main process runs the model, and a thread writes the results.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from typing_extensions import Unpack

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.crashes import DECODING, in_flight, key_of, noting_in_flight
from prepcli.engine.run.function import Finish, Hooks, Output, PlannedJob, Planning, Settings
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import After
from prepcli.engine.run.unit import Advance, Execution
from prepcli.engine.state.plan import Contents, Plan, UnitT
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import option
from prepcli.jobs.prefetch import Batch, Decoded, Decoder, DecodingPool
from prepcli.models.devices import keeping_generators, use_device, use_full_float32, use_same_algorithms
from prepcli.models.faults import naming_faults
from prepcli.models.ranks import run_on_devices
from prepcli.models.running import ModelRunner
from prepcli.processes.notes import note
from prepcli.processes.pools import WorkerDiedError
from prepcli.processes.workers import no_interruption, wait_for

Item = TypeVar("Item")
Computed = TypeVar("Computed")

UNITS_AHEAD = 2
"""Number of units that are read ahead while the batches of an earlier unit are made; they have not begun yet."""
WALL = "wall_seconds"
"""The key of a count of each unit: the seconds of computing it, including the wait for decoded audio."""
WAITED = "waited_seconds"
"""The key of a count of each unit: the seconds of waiting for decoded audio."""

Take = Callable[[], None]
"""Waits for the results of a batch, and keeps them."""


class UnitWork(ABC, Generic[Item, Computed]):
    """The work for one unit: batch its segments, run the model, and write the results.

    The last batches of a unit are still being computed when the first batches of the next unit are started.
    """

    @abstractmethod
    def batches(self) -> Iterator[Batch[Item]]:
        """The batches to decode."""

    def begin(self, device: str, advance: Advance) -> None:
        """Prepare for the first batch. Called in the main thread, as `start` and `finish` are."""

    @abstractmethod
    def start(self, number: int, decoded: Decoded, runner: ModelRunner, advance: Advance) -> Take:
        """Start the model on the batch with this number, and return the function that takes the results.

        The audio of `decoded` is valid only during the call.
        """

    @abstractmethod
    def finish(self, advance: Advance) -> Computed:
        """Return the results of the unit; called after the results of all its batches have been taken."""

    @abstractmethod
    def write(self, computed: Computed, writer: UnitWriter) -> None:
        """Write the unit's files and count its records; called in a thread, while other units are computed."""


Tick = Callable[[], None]
"""A function that is called again and again during a wait."""
Begin = Callable[[Tick], UnitWork[Any, Any]]
"""Waits for data that are read ahead, and returns the work of the unit."""


class _Model(Protocol):
    rows_on_cpu: int | None

    def to(self, device: str) -> None: ...


ModelT = TypeVar("ModelT", bound=_Model)


class OnDevice(ABC, Generic[UnitT, Contents, ModelT]):
    """A model in the main process of a rank, and the work for a unit with it; `run_with_model` makes it.

    Attributes:
        device: "cpu" or "cuda:N".
        model: the model; `ModelJob.prepare` loads it.
    """

    results_to_host: ClassVar[bool] = True
    """Whether the results of a batch are copied from the GPU to the CPU."""

    model: ModelT

    def __init__(self, device: str) -> None:
        self.device = device

    def planned(self, plan: Plan[UnitT, Contents], workspace: Workspace) -> None:
        """Look at the plan, before anything is written and also in a dry run; raises `UsageError` if it cannot be done.

        By default, nothing is done.
        """

    @abstractmethod
    def load(self, plan: Plan[UnitT, Contents]) -> ModelT:
        """Load the model, on the CPU; raises `UsageError` if it cannot be loaded."""

    @abstractmethod
    def decoder(self, contents: Contents) -> Decoder[Any]:
        """Return the decoder for worker processes."""

    @property
    @abstractmethod
    def max_batch_samples(self) -> int:
        """Maximum number of samples in all rows of a batch, with padding, for which shared memory is reserved."""

    @abstractmethod
    def read_ahead(self, contents: Contents, unit: UnitT, workers: DecodingPool[Any]) -> Begin:
        """Let `workers` read data that are needed before a unit begins; returns a function that begins the unit.

        The returned function is called up to `UNITS_AHEAD` units later, or never if another rank makes the unit first.
        """


class ModelJob(PlannedJob[UnitT, Contents]):
    """A job whose units are computed with a model in the main process of a rank.

    PyTorch computes in full float32, with the same algorithms in every run; a model may choose another precision.
    A unit begins before its first batch is decoded. Meanwhile the model may still compute batches of earlier units.
    """

    shared_notes = DECODING
    preparing = "loading the model"

    def __init__(
        self,
        on_device: OnDevice[UnitT, Contents, Any],
        output: Output,
        plan: Planning[UnitT, Contents],
        finish: Finish[UnitT, Contents],
        settings: Settings[UnitT, Contents],
        **hooks: Unpack[Hooks],
    ) -> None:
        """The arguments are those of `run_with_model`."""
        super().__init__(output, plan, finish, settings, **hooks)
        self.on_device = on_device
        self._is_prepared = False

    def plan(self, workspace: Workspace) -> Plan[UnitT, Contents]:
        """Return the plan."""
        made = super().plan(workspace)
        self.on_device.planned(made, workspace)
        return made

    def prepare(self, plan: Plan[UnitT, Contents]) -> None:
        """Load the model."""
        if not self._is_prepared:
            with keeping_generators():
                self.on_device.model = self.on_device.load(plan)
            self._is_prepared = True

    def execute(self, plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution) -> Iterator[Marker]:
        """Compute units: workers decode their audio, this process runs the model, and a thread writes the results.

        All three work at the same time, on different batches and units.

        Raises:
            IncompleteError: a worker was killed, or the device has failed.
            MemoryError: the device has too little memory for work other than a batch, such as loading the model. If a
                row of a batch is too large, the row is rejected.
        """
        with noting_in_flight(execution.workspace), naming_faults(self.on_device.device, option("--devices", "cpu")):
            yield from self._attempt(plan, units, execution)

    def _attempt(self, plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution) -> Iterator[Marker]:
        written: deque[Future[Marker]] = deque()
        begun: list[_Begun] = []
        try:
            with (
                ThreadPoolExecutor(1) as writing,
                DecodingPool[Any](
                    self.on_device.decoder(plan.contents),
                    self.on_device.max_batch_samples,
                    execution.num_workers,
                    execution.workspace,
                ) as workers,
            ):
                for unit, computed, wall in self._compute(plan.contents, units, workers, execution, begun):
                    begun.remove(unit)
                    while written and (len(written) > 1 or written[0].done()):
                        yield wait_for(written.popleft(), execution.tick)
                    with no_interruption():
                        written.append(writing.submit(_publish, unit, computed, wall, execution))
                while written:
                    yield wait_for(written.popleft(), execution.tick)
        except WorkerDiedError:
            for unit in begun:
                unit.take_back()
            while written:  # results that are already computed are still published
                yield wait_for(written.popleft(), execution.tick)
            raise

    def _compute(
        self,
        contents: Contents,
        units: Sequence[UnitT],
        workers: DecodingPool[Any],
        execution: Execution,
        begun: "list[_Begun]",
    ) -> "Iterator[tuple[_Begun, Any, float]]":
        """Yield the units, each with its results and the seconds of computing them; adds each unit to `begun`."""
        waiting: deque[_Begun] = deque()
        sent: deque[Batch[Any]] = deque()

        on_device = self.on_device

        def batches() -> Iterator[Batch[Any]]:
            for unit, work in begin_each(on_device, contents, units, workers, execution):
                own = list(work.batches())
                waiting.append(_Begun(unit, work, len(own), execution))
                begun.append(waiting[-1])
                for batch in own:
                    sent.append(batch)
                    yield batch

        named = (_named(audio, sent.popleft()) for audio in workers.decoded(batches(), execution.tick))
        # The workers start with the first task; at the first attempt, that is before CUDA is initialized.
        decoded = chain(list(islice(named, 1)), named)
        use_device(on_device.device)
        use_full_float32()
        use_same_algorithms()
        on_device.model.to(on_device.device)
        under_way = _UnderWay()
        model, device = on_device.model, on_device.device
        with ModelRunner(device, model.rows_on_cpu, to_host=on_device.results_to_host) as runner:
            while waiting:  # the next unit has begun: a batch beyond the last one was requested
                current = waiting.popleft()
                current.work.begin(device, current.advance)
                for number in range(current.num_batches):
                    started = time.monotonic()
                    audio = next(decoded)
                    current.waited += time.monotonic() - started
                    under_way.add(current, current.work.start(number, audio, runner, current.advance))
                    yield from under_way.complete(runner.depth)
                under_way.add(current, None)
            yield from under_way.complete(0)


def begin_each(
    on_device: OnDevice[UnitT, Contents, Any],
    contents: Contents,
    units: Sequence[UnitT],
    workers: DecodingPool[Any],
    execution: Execution,
) -> Iterator[tuple[UnitT, UnitWork[Any, Any]]]:
    """Claim units one by one, and begin those that this rank gets, some read ahead; yields them with their work."""
    left = (unit for unit in units if execution.is_left(unit))
    ahead: deque[tuple[UnitT, Begin]] = deque()
    while True:
        for unit in islice(left, UNITS_AHEAD + 1 - len(ahead)):
            ahead.append((unit, on_device.read_ahead(contents, unit, workers)))
            execution.tick()
        if not ahead:
            return
        unit, begin = ahead.popleft()
        if execution.claim(unit):
            yield unit, begin(execution.tick)


@dataclass(eq=False, slots=True)
class _Begun:
    """A unit that is being computed, and its progress: `take_back` subtracts it if the unit must be done again."""

    unit: Any
    work: UnitWork[Any, Any]
    num_batches: int
    execution: Execution
    waited: float = 0.0
    records: int = 0
    seconds: float = 0.0

    def advance(self, records: int, seconds: float) -> None:
        """Show progress."""
        self.records += records
        self.seconds += seconds
        self.execution.advance(records, seconds)

    def take_back(self) -> None:
        """Subtract the progress from that of the run: the unit must be done again."""
        self.execution.advance(-self.records, -self.seconds)


class _UnderWay:
    """Batches that are being computed, in order; the last batch of each unit is followed by a mark."""

    def __init__(self) -> None:
        self._queue: deque[tuple[_Begun, Take | None]] = deque()
        self._num_batches = 0
        self._started = time.monotonic()

    def add(self, begun: _Begun, take: Take | None) -> None:
        """Add the function that takes the results of a batch; None marks the end of the unit."""
        self._queue.append((begun, take))
        self._num_batches += take is not None

    def complete(self, depth: int) -> Iterator[tuple[_Begun, Any, float]]:
        """Take results until at most `depth` batches are under way.

        Yields each unit whose batches are all taken, with its results and the seconds of computing them.
        """
        while self._queue and (self._num_batches > depth or self._queue[0][1] is None):
            unit, take = self._queue.popleft()
            if take is not None:
                take()
                self._num_batches -= 1
                continue
            computed = unit.work.finish(unit.advance)
            wall, self._started = time.monotonic() - self._started, time.monotonic()
            yield unit, computed, wall


def _named(decoded: Decoded, batch: Batch[Any]) -> Decoded:
    """Set the `keys` of a decoded batch, and pass the notes of its worker on to the summary of the run.

    A segment that has crashed the model before is rejected, and its row becomes silence.
    """
    for text in decoded.notes:
        note(text)
    decoded.keys = [key_of(item) for item in batch.items]
    for row in in_flight().reject(decoded.keys, decoded.rejects):
        decoded.audio[row : row + 1] = 0
        decoded.lengths[row] = 0
    return decoded


def _publish(begun: _Begun, computed: Any, wall: float, execution: Execution) -> Marker:
    def write(writer: UnitWriter) -> None:
        begun.work.write(computed, writer)
        writer.extra.update({WALL: wall, WAITED: begun.waited})

    return execution.do_unit(begun.unit, write)


def run_with_model(
    output: Output,
    devices: str,
    on_device: Callable[[str], OnDevice[UnitT, Contents, Any]],
    plan: Planning[UnitT, Contents],
    finish: Finish[UnitT, Contents],
    *,
    settings: Settings[UnitT, Contents] = None,
    after: After | None = None,
    **hooks: Unpack[Hooks],
) -> Report:
    """As `prepcli.engine.run.function.run`, but a model in the main process of each rank computes the units.

    Args:
        output: where the command writes.
        devices: the option `--devices`.
        on_device: makes the object for the model on a device ("cpu" or "cuda:N"). It is also called before the devices
            are known, to find wrong options, and loads nothing yet.
        plan: called once in the main process of every rank.
        finish: called by the rank that finds all units done.
        settings: as in `run`.
        after: called with the report of a finished run.
        hooks: see `prepcli.engine.run.function.Hooks`.

    Raises:
        UsageError: as by `run`; or the model or the devices cannot be used.
        TooManyRejectsError, IncompleteError: as by `run`.
    """

    def make_job(device: str) -> ModelJob[UnitT, Contents]:
        return ModelJob(on_device(device), output, plan, finish, settings, **hooks)

    return run_on_devices(make_job, devices, output.workspace, output.engine, after)
