"""A rank's worker processes: each processes and publishes one unit at a time; a killed worker is reported."""

import sys
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from prepcli.engine.crashes import MAX_CRASHES, note_crash, with_notes
from prepcli.engine.job import Advance, Execution, Job
from prepcli.engine.plan import AnyPlan, Contents, Plan, Unit, UnitT
from prepcli.engine.progress import SharedCounter
from prepcli.engine.publish import Marker, UnitWriter
from prepcli.engine.workspace import Workspace
from prepcli.processes import TICK, WorkerDiedError, WorkerPool, begin_worker, keep_freed_memory, wait_for_any


class UnitJob(Job[UnitT, Contents]):
    """A job whose units go one by one, as a whole, to worker processes, which inherit the job and its plan."""

    @abstractmethod
    def process(self, plan: Plan[UnitT, Contents], unit: UnitT, writer: UnitWriter, advance: Advance) -> None:
        """Do one unit, in a worker process: write its files, count or reject each of its records.

        Bad data is a reject. Any exception that leaves this method stops the run; nothing of the unit is published.
        """

    def execute(self, plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution) -> Iterator[Marker]:
        """Have worker processes call `process`; see `process_units`."""
        return process_units(self, plan, units, execution)


class _Worker:
    """What a worker process holds; set once by `_start_worker`."""

    job: UnitJob[Any, Any]
    plan: AnyPlan
    workspace: Workspace
    digest: str
    counter: SharedCounter


def _start_worker(
    job: UnitJob[Any, Any], plan: AnyPlan, workspace: Workspace, digest: str, counter: SharedCounter
) -> None:
    begin_worker()
    keep_freed_memory()
    _Worker.job, _Worker.plan = job, plan
    _Worker.workspace, _Worker.digest, _Worker.counter = workspace, digest, counter


def _do_unit(unit: Unit) -> Marker:
    worker = _Worker
    pending = [0, 0.0]
    last = time.monotonic()

    def advance(records: int, seconds: float) -> None:
        nonlocal last
        pending[0] += records
        pending[1] += seconds
        if time.monotonic() - last > TICK:
            worker.counter.add(int(pending[0]), pending[1])
            pending[:] = [0, 0.0]
            last = time.monotonic()

    with UnitWriter(worker.workspace, worker.digest, unit) as writer:
        with with_notes(worker.workspace, unit.id, writer.folder):
            worker.job.process(worker.plan, unit, writer, advance)
        marker = writer.publish()
    worker.counter.add(int(pending[0]), pending[1])
    return marker


def process_units(
    job: UnitJob[UnitT, Contents], plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution
) -> Iterator[Marker]:
    """Do `units` (longest first) in worker processes and yield each one's marker as it is published.

    Whatever ends the iteration early also ends the workers at once: a unit is published whole, or done again. A unit
    whose worker crashed is tried again, see `prepcli.engine.crashes`.

    Raises:
        IncompleteError: a worker was killed; the message names the signal and the unit it was processing.
        Exception: whatever `job.process` raised.
    """
    left = {unit.id: unit for unit in units}
    num_crashes = 0
    while left:
        try:
            for marker in _process_once(job, plan, list(left.values()), execution):
                del left[marker.unit]
                yield marker
        except WorkerDiedError as error:
            num_crashes += 1
            if not note_crash(execution.workspace, error) or num_crashes >= MAX_CRASHES:
                raise
            print(f"note: {str(error).partition(';')[0]}; trying again, to find the record", file=sys.stderr)


def _process_once(
    job: UnitJob[UnitT, Contents], plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution
) -> Iterator[Marker]:
    workspace = execution.workspace
    arguments = (job, plan, workspace, execution.digest, execution.counter)
    num_workers = min(execution.num_workers, len(units))
    with WorkerPool(num_workers, execution.context, _start_worker, arguments, workspace.units_in_hand) as pool:
        pending: set[Future[Marker]] = {pool.submit(_do_unit, unit) for unit in units}
        while pending:
            done = wait_for_any(pending)
            pending -= done
            execution.tick()
            for future in done:
                yield future.result()
