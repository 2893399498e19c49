"""A job with a model: worker processes decode ahead, the main process runs the model, a thread writes the results."""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import chain, islice
from typing import Any, Generic, Protocol, TypeVar

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.crashes import DECODING, in_flight, key_of, noting_in_flight
from prepcli.engine.run.job import Job
from prepcli.engine.run.unit import Advance, Execution
from prepcli.engine.state.plan import Contents, Plan, UnitT
from prepcli.errors import option
from prepcli.jobs.prefetch import Batch, Decoded, Decoder, DecodingPool
from prepcli.models.devices import keeping_generators, use_device
from prepcli.models.faults import naming_faults
from prepcli.processes.notes import note
from prepcli.processes.pools import WorkerDiedError
from prepcli.processes.workers import no_interruption, wait_for

Item = TypeVar("Item")
Computed = TypeVar("Computed")

UNITS_AHEAD = 2
"""Number of units that are read ahead beyond the one whose batches are made; they are not claimed yet."""
WALL = "wall_seconds"
"""The key of a count of each unit: the seconds of computing it, including the wait for decoded audio."""


class UnitWork(ABC, Generic[Item, Computed]):
    """The work for one unit: batch its segments, run the model, and write the results."""

    @abstractmethod
    def batches(self) -> Iterator[Batch[Item]]:
        """The batches to decode, in the order of `compute`."""

    @abstractmethod
    def compute(self, decoded: Iterator[Decoded], device: str, advance: Advance) -> Computed:
        """Run the model over all batches, in the order of `decoded`; called in the main thread."""

    @abstractmethod
    def write(self, computed: Computed, writer: UnitWriter) -> None:
        """Write the unit's files and count its records; called in a thread, while the next unit is computed."""


Tick = Callable[[], None]
"""Called during waiting."""
Begin = Callable[[Tick], UnitWork[Any, Any]]
"""Waits for data that are read ahead, and returns the work of the unit."""


class _Model(Protocol):
    def to(self, device: str) -> None: ...


ModelT = TypeVar("ModelT", bound=_Model)


class ModelJob(Job[UnitT, Contents], Generic[UnitT, Contents, ModelT]):
    """A job whose model is in the main process of a rank, on `device`; `UnitWork` is the work for a unit.

    A unit begins, and is claimed, when its first batches are made, which is some batches before they are computed.
    """

    claims_units = True
    shared_notes = DECODING

    def __init__(self, device: str, num_workers: int) -> None:
        """`num_workers`: number of processes for planning; the engine gives the number of those that decode."""
        self.device = device
        self.num_workers = num_workers

    @abstractmethod
    def load_model(self) -> ModelT:
        """Load the model, on the CPU; raises `UsageError` if it cannot be loaded."""

    @abstractmethod
    def set_up_device(self) -> None:
        """Configure PyTorch before the model is moved to `device`."""

    @abstractmethod
    def decoder(self, contents: Contents) -> Decoder[Any]:
        """Return the decoder for worker processes."""

    @property
    @abstractmethod
    def max_batch_samples(self) -> int:
        """Maximum samples of a batch that workers return through shared memory."""

    @abstractmethod
    def read_ahead(self, contents: Contents, unit: UnitT, workers: DecodingPool[Any]) -> Begin:
        """Let `workers` read data that are needed before a unit begins; returns a function that begins the unit.

        It may be called `UNITS_AHEAD` units later, or never: other ranks may take the unit meanwhile.
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
        """Decode in worker processes, compute here, write in a thread: at the same time, across units.

        Raises:
            IncompleteError: a worker was killed, or the device has failed.
            MemoryError: the device has too little memory for more than the rows of a batch.
        """
        with noting_in_flight(execution.workspace), naming_faults(self.device, option("--devices", "cpu")):
            yield from self._attempt(plan, units, execution)

    def _attempt(self, plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution) -> Iterator[Marker]:
        written: deque[Future[Marker]] = deque()
        advanced = _Advanced(execution)
        try:
            with (
                ThreadPoolExecutor(1) as writing,
                DecodingPool[Any](
                    self.decoder(plan.contents),
                    self.max_batch_samples,
                    execution.num_workers,
                    execution.context,
                    execution.workspace,
                ) as workers,
            ):
                for unit, work, computed, wall in self._compute(plan.contents, units, workers, advanced):
                    while written and (len(written) > 1 or written[0].done()):
                        yield wait_for(written.popleft(), execution.tick)
                    with no_interruption():
                        written.append(writing.submit(_publish, unit, work, computed, wall, execution))
                while written:
                    yield wait_for(written.popleft(), execution.tick)
        except WorkerDiedError:
            advanced.take_back()
            while written:  # results that are already computed are still published
                yield wait_for(written.popleft(), execution.tick)
            raise

    def _compute(
        self, contents: Contents, units: Sequence[UnitT], workers: DecodingPool[Any], advanced: "_Advanced"
    ) -> Iterator[tuple[UnitT, UnitWork[Any, Any], Any, float]]:
        """The units, each with its work, the model's results, and the seconds that this took."""
        begun: deque[tuple[UnitT, UnitWork[Any, Any]]] = deque()
        sent: deque[Batch[Any]] = deque()

        def batches() -> Iterator[Batch[Any]]:
            for unit, work in self._begin(contents, units, workers, advanced.execution):
                begun.append((unit, work))
                for batch in work.batches():
                    sent.append(batch)
                    yield batch

        named = (_named(one, sent.popleft()) for one in workers.decoded(batches(), advanced.execution.tick))
        # The workers start with the first task; at the first attempt, that is before CUDA is initialized.
        decoded = chain(list(islice(named, 1)), named)
        use_device(self.device)
        self.set_up_device()
        self.model.to(self.device)
        started = time.monotonic()
        while begun:  # the next unit has begun: a batch beyond the last one was requested
            unit, work = begun.popleft()
            computed = work.compute(decoded, self.device, advanced)
            advanced.keep()
            wall, started = time.monotonic() - started, time.monotonic()
            yield unit, work, computed, wall

    def _begin(
        self, contents: Contents, units: Sequence[UnitT], workers: DecodingPool[Any], execution: Execution
    ) -> Iterator[tuple[UnitT, UnitWork[Any, Any]]]:
        """Claim the units one by one, and begin those that this rank gets."""
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


class _Advanced:
    """The progress of the unit that is being computed, which is taken back if the unit must be done again."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self._records, self._seconds = 0, 0.0

    def __call__(self, records: int, seconds: float) -> None:
        self._records += records
        self._seconds += seconds
        self.execution.advance(records, seconds)

    def keep(self) -> None:
        """Keep the progress: the unit is computed."""
        self._records, self._seconds = 0, 0.0

    def take_back(self) -> None:
        """Take the progress back: the unit must be done again."""
        self.execution.advance(-self._records, -self._seconds)


def _named(decoded: Decoded, batch: Batch[Any]) -> Decoded:
    """Name the rows, and keep the notes. Rows of segments that have crashed the model become rejects and silence."""
    for text in decoded.notes:
        note(text)
    decoded.keys = [key_of(item) for item in batch.items]
    for row in in_flight().reject(decoded.keys, decoded.rejects):
        decoded.audio[row : row + 1] = 0
        decoded.lengths[row] = 0
    return decoded


def _publish(
    unit: UnitT, work: UnitWork[Any, Computed], computed: Computed, wall: float, execution: Execution
) -> Marker:
    def write(writer: UnitWriter) -> None:
        work.write(computed, writer)
        writer.extra.update({WALL: wall})

    return execution.do_unit(unit, write)
