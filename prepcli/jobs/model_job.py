"""A job with a model.

Worker processes decode audio before it is needed, the main process runs the model, and a thread writes the results.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.crashes import DECODING, in_flight, key_of, noting_in_flight
from prepcli.engine.run.job import Job
from prepcli.engine.run.unit import Advance, Execution
from prepcli.engine.state.plan import Contents, Plan, UnitT
from prepcli.errors import option
from prepcli.jobs.prefetch import Batch, Decoded, Decoder, DecodingPool
from prepcli.models.devices import keeping_generators, use_device, use_full_float32, use_same_algorithms
from prepcli.models.faults import naming_faults
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


class ModelJob(Job[UnitT, Contents], Generic[UnitT, Contents, ModelT]):
    """A job whose model is in the main process of a rank, on `device`; `UnitWork` is the work for a unit.

    PyTorch computes in full float32, with the same algorithms in every run; a model may choose another precision.
    A unit begins before its first batch is decoded. Meanwhile the model may still compute batches of earlier units.
    """

    ranks_help = True
    shared_notes = DECODING
    results_to_host: ClassVar[bool] = True
    """Whether the results of a batch are copied from the GPU to the CPU."""

    def __init__(self, device: str, num_workers: int) -> None:
        """`num_workers`: number of processes for planning; the number of decoding processes comes from the engine."""
        self.device = device
        self.num_workers = num_workers

    @abstractmethod
    def load_model(self) -> ModelT:
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

    @cached_property
    def model(self) -> ModelT:
        """The model, loaded when it is first needed."""
        with keeping_generators():
            return self.load_model()

    def prepare(self) -> None:
        """Load the model."""
        _ = self.model

    def execute(self, plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution) -> Iterator[Marker]:
        """Compute units: workers decode their audio, this process runs the model, and a thread writes the results.

        All three work at the same time, on different batches and units.

        Raises:
            IncompleteError: a worker was killed, or the device has failed.
            MemoryError: the device has too little memory for work other than a batch, such as loading the model. If a
                row of a batch is too large, the row is rejected.
        """
        with noting_in_flight(execution.workspace), naming_faults(self.device, option("--devices", "cpu")):
            yield from self._attempt(plan, units, execution)

    def _attempt(self, plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution) -> Iterator[Marker]:
        written: deque[Future[Marker]] = deque()
        begun: list[_Begun] = []
        try:
            with (
                ThreadPoolExecutor(1) as writing,
                DecodingPool[Any](
                    self.decoder(plan.contents),
                    self.max_batch_samples,
                    execution.num_workers,
                    execution.workspace,
                ) as workers,
            ):
                for one, computed, wall in self._compute(plan.contents, units, workers, execution, begun):
                    begun.remove(one)
                    while written and (len(written) > 1 or written[0].done()):
                        yield wait_for(written.popleft(), execution.tick)
                    with no_interruption():
                        written.append(writing.submit(_publish, one, computed, wall, execution))
                while written:
                    yield wait_for(written.popleft(), execution.tick)
        except WorkerDiedError:
            for one in begun:
                one.take_back()
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

        def batches() -> Iterator[Batch[Any]]:
            for unit, work in self._begin(contents, units, workers, execution):
                own = list(work.batches())
                waiting.append(_Begun(unit, work, len(own), execution))
                begun.append(waiting[-1])
                for batch in own:
                    sent.append(batch)
                    yield batch

        named = (_named(one, sent.popleft()) for one in workers.decoded(batches(), execution.tick))
        # The workers start with the first task; at the first attempt, that is before CUDA is initialized.
        decoded = chain(list(islice(named, 1)), named)
        use_device(self.device)
        use_full_float32()
        use_same_algorithms()
        self.model.to(self.device)
        under_way = _UnderWay()
        with ModelRunner(self.device, self.model.rows_on_cpu, to_host=self.results_to_host) as runner:
            while waiting:  # the next unit has begun: a batch beyond the last one was requested
                one = waiting.popleft()
                one.work.begin(self.device, one.advance)
                for number in range(one.num_batches):
                    started = time.monotonic()
                    audio = next(decoded)
                    one.waited += time.monotonic() - started
                    under_way.add(one, one.work.start(number, audio, runner, one.advance))
                    yield from under_way.complete(runner.depth)
                under_way.add(one, None)
            yield from under_way.complete(0)

    def _begin(
        self, contents: Contents, units: Sequence[UnitT], workers: DecodingPool[Any], execution: Execution
    ) -> Iterator[tuple[UnitT, UnitWork[Any, Any]]]:
        """Claim the units one by one, and begin those that this rank gets; yields these units with their work."""
        left = (unit for unit in units if execution.is_left(unit))
        ahead: deque[tuple[UnitT, Begin]] = deque()
        while True:
            for unit in islice(left, UNITS_AHEAD + 1 - len(ahead)):
                ahead.append((unit, self.read_ahead(contents, unit, workers)))
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
            one, take = self._queue.popleft()
            if take is not None:
                take()
                self._num_batches -= 1
                continue
            computed = one.work.finish(one.advance)
            wall, self._started = time.monotonic() - self._started, time.monotonic()
            yield one, computed, wall


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


def _publish(one: _Begun, computed: Any, wall: float, execution: Execution) -> Marker:
    def write(writer: UnitWriter) -> None:
        one.work.write(computed, writer)
        writer.extra.update({WALL: wall, WAITED: one.waited})

    return execution.do_unit(one.unit, write)
