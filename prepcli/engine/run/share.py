"""The work of one rank: the units of its share, then units that other ranks have not begun."""

import contextlib
import os
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prepcli.engine.publishing.publish import Marker, read_marker
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.ranks.progress import RankProgress, Reporter, SharedCounter, new_progress
from prepcli.engine.ranks.stealing import Crew
from prepcli.engine.run.job import AnyJob, Execution
from prepcli.engine.run.retry import MissingAudioError, MissingAudioWatch
from prepcli.engine.state.plan import AnyPlan, Unit
from prepcli.engine.state.store_output import OutputSizes
from prepcli.engine.state.workspace import Workspace
from prepcli.processes.owner import heartbeat
from prepcli.processes.ranks import Rank
from prepcli.processes.signals import InterruptedBySignal
from prepcli.processes.workers import TICK, worker_context


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of every job, beside the job's own settings. None of them shapes the output."""

    rank: Rank = field(default_factory=Rank)
    num_workers: int = 1
    overwrite: bool = False
    retry_rejects: bool = False
    verify_inputs: bool = False
    steal: bool = True
    budget: Budget = field(default_factory=Budget)


def load_markers(
    plan: AnyPlan, workspace: Workspace, digest: str, markers: dict[str, Marker], listed: bool = False
) -> None:
    """Add the markers of units that are done, by this rank or others, to `markers`.

    `listed`: only those that are listed in their folder, which spares a million attempts to open others, and with the
    files that `workspace.found` has seen. A network file system may list a new one late: that does no harm before
    the work, but at its end nobody would finish.
    """
    sizes = workspace.found if listed else OutputSizes(workspace.out)
    there = _names_in(workspace.done) if listed else None
    for unit in plan.units:
        if unit.id not in markers and (there is None or f"{unit.id}.json" in there):
            marker = read_marker(workspace, unit, digest, sizes)
            if marker is not None:
                markers[unit.id] = marker


def _names_in(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def process_share(
    job: AnyJob,
    plan: AnyPlan,
    workspace: Workspace,
    digest: str,
    options: RunOptions,
    units: Sequence[Unit],
    markers: dict[str, Marker],
    crew: Crew | None,
) -> None:
    """Do `units`; with a `crew` also those of others, until all units of the launch are done.

    `markers` gets the marker of each unit that is done.

    Raises:
        IncompleteError: interrupted, or a worker was killed.
    """
    own = new_progress(options.rank)
    own.launch_id, own.knows_seconds = options.rank.launch_id, plan.knows_seconds
    _add_to_total(own, units)
    before = sum(unit.num_records for unit in plan.units if unit.id in markers)
    total = sum(unit.num_records for unit in plan.units)
    context = worker_context()
    counter = SharedCounter(context)
    reporter = Reporter(workspace, options.rank, job.command, own, before, total)

    def tick() -> None:
        own.records_done, own.seconds_done = counter.read()
        _grow_total(own)
        reporter.update()

    watch = MissingAudioWatch(workspace, options.budget, plan.records_in)
    claims = crew.claims if crew else None
    execution = Execution(workspace, digest, options.num_workers, context, counter, tick, claims)

    def execute(some: Sequence[Unit]) -> None:
        job.prepare()
        with contextlib.closing(_generator(job.execute(plan, some, execution))) as done:
            try:
                for marker in done:
                    markers[marker.unit] = marker
                    own.units_done += 1
                    own.rejects += sum(marker.rejects.values())
                    if job.reads_audio_files:
                        watch.look(marker, markers)
            except MissingAudioError:
                done.close()  # ends the workers, which may have published more meanwhile
                watch.drop_others(some, digest, markers)
                raise

    state, message = "failed", ""
    try:
        reporter.update(force=True)
        # Ended before `close` below, or it could write "running" over the last state.
        with heartbeat(workspace.beat, reporter.beat) if units or crew else contextlib.nullcontext():
            if units:
                execute(units)
            while crew is not None:
                _reset_total(own)
                load_markers(plan, workspace, digest, markers)
                if len(markers) == len(plan.units):
                    break
                free = crew.takeable(markers)
                if free:
                    execute(free)
                else:
                    time.sleep(TICK)
                tick()
        state = "done"
    except BaseException as error:
        state = "interrupted" if isinstance(error, (InterruptedBySignal, KeyboardInterrupt)) else "failed"
        message = str(error)
        raise
    finally:
        own.records_done, own.seconds_done = counter.read()
        _grow_total(own)
        with contextlib.suppress(OSError):  # a full disk must not hide the error that matters
            reporter.close(state, message)


def _generator(markers: Iterator[Marker]) -> Generator[Marker, None, None]:
    yield from markers


def _add_to_total(own: RankProgress, units: Sequence[Unit]) -> None:
    own.units_total += len(units)
    own.records_total += sum(unit.num_records for unit in units)
    own.seconds_total += sum(unit.cost for unit in units)


def _reset_total(own: RankProgress) -> None:
    """After the own share: units that others have taken are theirs, and what was taken of others is done."""
    own.units_total, own.records_total, own.seconds_total = own.units_done, own.records_done, own.seconds_done


def _grow_total(own: RankProgress) -> None:
    """While units of others are done, the total grows with what is done."""
    own.units_total = max(own.units_total, own.units_done)
    own.records_total = max(own.records_total, own.records_done)
    own.seconds_total = max(own.seconds_total, own.seconds_done)
