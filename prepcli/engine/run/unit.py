"""Makes a unit, in a worker process or in the rank itself, unless another rank has made it."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prepcli.engine.publishing.publish import Marker, UnitWriter, read_marker
from prepcli.engine.ranks.drafts import drafts_of_others
from prepcli.engine.ranks.progress import SharedCounter
from prepcli.engine.run.crashes import with_notes
from prepcli.engine.state.plan import Unit, UnitT
from prepcli.engine.state.workspace import Workspace
from prepcli.interface.shared_options import UnitExecutor
from prepcli.processes.notes import take_notes
from prepcli.processes.pools import WorkerPool
from prepcli.processes.workers import TICK, begin_worker, keep_freed_memory, wait_for_any

Advance = Callable[[int, float], None]
"""Called by a job while it works, with the records and the seconds of audio done since the last call."""


@dataclass(frozen=True, slots=True)
class Execution:
    """The environment in which units are made, here or in workers: the workspace, and the progress.

    `tick` must be called a few times a second, to show progress; `counter` adds up records and seconds done in any
    process. A unit is left out if another rank has made it meanwhile. If ranks help each other, it is also left out if
    another rank has begun it meanwhile: `drafts` are the temporary folders that were known when the units were chosen.
    `executor` makes the units instead of worker processes, if there is one.
    """

    workspace: Workspace
    digest: str
    num_workers: int
    counter: SharedCounter
    tick: Callable[[], None]
    drafts: frozenset[str] | None = None
    begun: dict[str, Path] = field(default_factory=dict)
    writers: type[UnitWriter] = UnitWriter
    executor: UnitExecutor | None = None

    def advance(self, records: int, seconds: float) -> None:
        """Count records and seconds of audio as done, in the counter of all processes of this rank; show progress."""
        self.counter.add(records, seconds)
        self.tick()

    def is_left(self, unit: Unit) -> bool:
        """Whether the unit is to be made here."""
        if read_marker(self.workspace, unit, self.digest, self.workspace.found) is not None:
            return False
        return self.drafts is None or self.drafts.issuperset(drafts_of_others(self.workspace, unit.id))

    def claim(self, unit: Unit) -> bool:
        """Begin a unit, for other ranks to see; False if it is left out."""
        if not self.is_left(unit):
            return False
        if unit.id not in self.begun:
            self.begun[unit.id] = self.workspace.make_tmp(unit.id)
        return True

    def do_unit(self, unit: Unit, write: Callable[[UnitWriter], object]) -> Marker:
        """Make a unit: `write` writes its files and counts its records; returns its document.

        If `write` fails, nothing of the unit appears.
        """
        with self.writers(self.workspace, self.digest, unit, self.begun.pop(unit.id, None)) as writer:
            write(writer)
            writer.notes += take_notes()
            return writer.publish()


Process = Callable[[UnitT, UnitWriter, Advance], None]
"""Writes the files of a unit in a worker process, and counts or rejects each of its records."""


def do_in_workers(process: Process[UnitT], units: Sequence[UnitT], execution: Execution) -> Iterator[Marker]:
    """Do `units` (longest first) in worker processes and yield the marker of each when it is published.

    If the iteration ends early for any reason, the workers are ended at once: a unit is published whole, or done again.
    Units that other ranks have made are left out.

    Raises:
        WorkerDiedError: a worker was killed; the message names the signal and the unit it was processing.
        Exception: the exception that `process` raised.
    """
    num_workers = min(execution.num_workers, len(units))
    in_hand = execution.workspace.units_in_hand
    with WorkerPool(num_workers, _start_worker, (process, execution), in_hand) as pool:
        pending: set[Future[Marker | None]] = {pool.submit(_do_unit, unit) for unit in units}
        while pending:
            done = wait_for_any(pending)
            pending -= done
            execution.tick()
            for future in done:
                marker = future.result()
                if marker is not None:
                    yield marker


class _Worker:
    """The state of a worker process; set once by `_start_worker`."""

    process: Process[Any]
    execution: Execution


def _start_worker(process: Process[Any], execution: Execution) -> None:
    begin_worker()
    keep_freed_memory()
    _Worker.process, _Worker.execution = staticmethod(process), execution


def _do_unit(unit: Unit) -> Marker | None:
    return do_unit_here(_Worker.process, unit, _Worker.execution)


def do_unit_here(process: Process[UnitT], unit: UnitT, here: Execution) -> Marker | None:
    """Do a unit in this process, and return its marker; None if another rank does it, or has done it."""
    if not here.claim(unit):
        return None
    records, seconds = 0, 0.0
    last = time.monotonic()

    def advance(more_records: int, more_seconds: float) -> None:
        nonlocal records, seconds, last
        records += more_records
        seconds += more_seconds
        if time.monotonic() - last > TICK:
            here.counter.add(records, seconds)
            records, seconds, last = 0, 0.0, time.monotonic()

    def write(writer: UnitWriter) -> None:
        with with_notes(here.workspace, unit.id, writer.folder):
            process(unit, writer, advance)

    marker = here.do_unit(unit, write)
    here.counter.add(records, seconds)
    return marker
