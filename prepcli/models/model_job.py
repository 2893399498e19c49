"""A job with a model: worker processes decode ahead, the main process runs the model, a thread writes behind."""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import chain, islice
from typing import Any, Generic, Protocol, TypeVar

from prepcli.engine.job import Advance, Execution, Job
from prepcli.engine.plan import Contents, Plan, UnitT
from prepcli.engine.publish import Marker, UnitWriter
from prepcli.models.prefetch import Batch, Decoded, Decoder, DecodingPool
from prepcli.processes import no_interruption, wait_for

Item = TypeVar("Item")
Computed = TypeVar("Computed")

WALL = "wall_seconds"
"""What each unit counts: the seconds that computing it took, with the waiting for decoded audio."""


class UnitWork(ABC, Generic[Item, Computed]):
    """What becomes of one unit: its segments are batched, given to the model, and the results are written."""

    @abstractmethod
    def batches(self) -> Iterator[Batch[Item]]:
        """What must be decoded, in the order in which `compute` takes it."""

    @abstractmethod
    def compute(self, decoded: Iterator[Decoded], device: str, advance: Advance) -> Computed:
        """Run the model over all batches, each of which is the next of `decoded`; in the main thread."""

    @abstractmethod
    def write(self, computed: Computed, writer: UnitWriter) -> None:
        """Write the unit's files and count its records; in a thread, while the next unit is computed."""


class _Model(Protocol):
    def to(self, device: str) -> None: ...


ModelT = TypeVar("ModelT", bound=_Model)


class ModelJob(Job[UnitT, Contents], Generic[UnitT, Contents, ModelT]):
    """A job whose model is in the main process of a rank, on `device`; see `UnitWork` for what is done for a unit."""

    def __init__(self, device: str, num_workers: int) -> None:
        """`num_workers`: processes that plan; those that decode are the engine's number."""
        self.device = device
        self.num_workers = num_workers

    @abstractmethod
    def load_model(self) -> ModelT:
        """Load the model, on the CPU; raises `UsageError` if it cannot be loaded."""

    @abstractmethod
    def set_up_device(self) -> None:
        """Change how PyTorch computes, before the model is moved to `device`."""

    @abstractmethod
    def decoder(self, contents: Contents) -> Decoder[Any]:
        """What worker processes decode the items of batches with."""

    @property
    @abstractmethod
    def max_batch_samples(self) -> int:
        """Batches of up to so many samples come from the workers through shared memory."""

    @abstractmethod
    def begin_units(
        self, contents: Contents, units: Sequence[UnitT], workers: DecodingPool[Any], tick: Callable[[], None]
    ) -> Iterator[UnitWork[Any, Any]]:
        """The work of each unit, in turn; it may have `workers` read something for it."""

    @cached_property
    def model(self) -> ModelT:
        """The model, loaded when it is first needed."""
        return self.load_model()

    def prepare(self) -> None:
        """Load the model."""
        _ = self.model

    def execute(self, plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution) -> Iterator[Marker]:
        """Decode in worker processes, compute here, write in a thread: at the same time, across units."""
        tick = execution.tick
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
            begun: deque[UnitWork[Any, Any]] = deque()

            def batches() -> Iterator[Batch[Any]]:
                for work in self.begin_units(plan.contents, units, workers, tick):
                    begun.append(work)
                    yield from work.batches()

            decoded = workers.decoded(batches(), tick)
            # The workers start with the first task, and must do so before CUDA does.
            decoded = chain(list(islice(decoded, 1)), decoded)
            self.set_up_device()
            self.model.to(self.device)
            written: deque[Future[Marker]] = deque()
            started = time.monotonic()
            for unit in units:
                work = begun.popleft()  # it is there: at least one batch beyond the last one was asked for
                computed = work.compute(decoded, self.device, execution.advance)
                wall, started = time.monotonic() - started, time.monotonic()
                while written and (len(written) > 1 or written[0].done()):
                    yield wait_for(written.popleft(), tick)
                with no_interruption():
                    written.append(writing.submit(_publish, unit, work, computed, wall, execution))
            while written:
                yield wait_for(written.popleft(), tick)


def _publish(
    unit: UnitT, work: UnitWork[Any, Computed], computed: Computed, wall: float, execution: Execution
) -> Marker:
    with UnitWriter(execution.workspace, execution.digest, unit) as writer:
        work.write(computed, writer)
        writer.extra.update({WALL: wall})
        return writer.publish()
