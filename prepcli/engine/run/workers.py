"""The worker processes of a rank: each processes and publishes one unit at a time; a killed worker is reported."""

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from prepcli.engine.publishing.publish import Marker, UnitWriter, read_marker
from prepcli.engine.ranks.claims import Claims
from prepcli.engine.ranks.progress import SharedCounter
from prepcli.engine.run.crashes import survive_crashes, with_notes
from prepcli.engine.run.job import Advance, Execution, Job
from prepcli.engine.state.plan import AnyPlan, Contents, Plan, Unit, UnitT
from prepcli.engine.state.workspace import Workspace
from prepcli.processes.notes import take_notes
from prepcli.processes.pools import WorkerPool
from prepcli.processes.workers import TICK, begin_worker, keep_freed_memory, wait_for_any


class UnitJob(Job[UnitT, Contents]):
    """A job whose units go to worker processes one by one; the workers inherit the job and its plan."""

    claims_units = True

    @abstractmethod
    def process(self, plan: Plan[UnitT, Contents], unit: UnitT, writer: UnitWriter, advance: Advance) -> None:
        """Process one unit in a worker process: write its files, count or reject each of its records.

        Bad data is a reject. Any exception that leaves this method stops the run; nothing of the unit is published.
        """

    def execute(self, plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution) -> Iterator[Marker]:
        """Call `process` in worker processes; see `process_units`."""
        return process_units(self, plan, units, execution)


class _Worker:
    """The state of a worker process; set once by `_start_worker`."""

    job: UnitJob[Any, Any]
    plan: AnyPlan
    workspace: Workspace
    digest: str
    counter: SharedCounter
    claims: Claims | None


def _start_worker(
    job: UnitJob[Any, Any],
    plan: AnyPlan,
    workspace: Workspace,
    digest: str,
    counter: SharedCounter,
    claims: Claims | None,
) -> None:
    begin_worker()
    keep_freed_memory()
    _Worker.job, _Worker.plan = job, plan
    _Worker.workspace, _Worker.digest, _Worker.counter, _Worker.claims = workspace, digest, counter, claims


def _do_unclaimed_unit(unit: Unit) -> Marker | None:
    """Do a unit, unless another rank does it, or has done it."""
    worker = _Worker
    if worker.claims is None:
        return _do_unit(unit)
    if not worker.claims.take(unit.id):
        return None
    try:
        return _do_unit(unit) if read_marker(worker.workspace, unit, worker.digest) is None else None
    finally:
        worker.claims.release(unit.id)


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
        writer.notes += take_notes()
        marker = writer.publish()
    worker.counter.add(int(pending[0]), pending[1])
    return marker


def process_units(
    job: UnitJob[UnitT, Contents], plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution
) -> Iterator[Marker]:
    """Process `units` (longest first) in worker processes and yield the marker of each when it is published.

    Whatever ends the iteration early also ends the workers at once: a unit is published whole, or done again. A unit
    whose worker crashed is tried again, see `crashes`. Units that other ranks have claimed are left out.

    Raises:
        IncompleteError: a worker was killed; the message names the signal and the unit it was processing.
        Exception: the exception that `job.process` raised.
    """
    return survive_crashes(execution.workspace, units, lambda left: _process_once(job, plan, left, execution))


def _process_once(
    job: UnitJob[UnitT, Contents], plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution
) -> Iterator[Marker]:
    workspace = execution.workspace
    arguments = (job, plan, workspace, execution.digest, execution.counter, execution.claims)
    num_workers = min(execution.num_workers, len(units))
    with WorkerPool(num_workers, execution.context, _start_worker, arguments, workspace.units_in_hand) as pool:
        pending: set[Future[Marker | None]] = {pool.submit(_do_unclaimed_unit, unit) for unit in units}
        while pending:
            done = wait_for_any(pending)
            pending -= done
            execution.tick()
            for future in done:
                marker = future.result()
                if marker is not None:
                    yield marker
