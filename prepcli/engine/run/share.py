"""Makes the share of a rank: its own units, then those of other ranks that are missing."""

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from prepcli.engine.publishing.publish import Marker, read_marker
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.ranks.progress import (
    RankProgress,
    Reporter,
    SharedCounter,
    new_progress,
    progress_file,
    remove_stale_tmp,
)
from prepcli.engine.run.crashes import survive_crashes
from prepcli.engine.state.plan import Unit
from prepcli.errors import PrepcliError, RejectReason, option, same_command
from prepcli.processes.owner import touching
from prepcli.processes.signals import InterruptedBySignal
from prepcli.processes.workers import TICK, stop_again
from prepcli.storage.addresses import is_absolute

if TYPE_CHECKING:
    from prepcli.engine.runs import FolderRun

MIN_RECORDS = 50
"""Minimum number of records before a run stops because more than half of their audio is missing."""


class ShareProgress(NamedTuple):
    """The progress of this rank, and what counts and shows it."""

    own: RankProgress
    counter: SharedCounter
    reporter: Reporter

    def update(self) -> None:
        """Show the progress; called a few times a second."""
        self._count()
        self.reporter.update()

    def close(self, state: str, message: str) -> None:
        """Store the last state of this rank."""
        self._count()
        with contextlib.suppress(OSError):  # a full disk must not hide the more important error
            self.reporter.close(state, message)

    def _count(self) -> None:
        own = self.own
        own.records_done, own.seconds_done = self.counter.read()
        # The rank may also have done units of others.
        own.units_total = max(own.units_total, own.units_done)
        own.records_total = max(own.records_total, own.records_done)
        own.seconds_total = max(own.seconds_total, own.seconds_done)


@contextlib.contextmanager
def at_work(run: "FolderRun", units: Sequence[Unit]) -> Iterator[ShareProgress]:
    """Within the context, the rank counts as running for `status` and for other ranks; `units` are its share."""
    plan, workspace, rank = run.plan, run.workspace, run.options.rank
    own = new_progress(rank, workspace.owner)
    own.knows_seconds = plan.knows_seconds
    own.units_total = len(units)
    own.records_total = sum(unit.num_records for unit in units)
    own.seconds_total = sum(unit.cost for unit in units)
    before = sum(unit.num_records for unit in plan.units if unit.id in run.markers)
    total = sum(unit.num_records for unit in plan.units)
    progress = ShareProgress(own, SharedCounter(), Reporter(workspace, run.job.command, own, before, total))
    state, message = "failed", ""
    try:
        progress.reporter.update(force=True)
        with touching(progress_file(workspace, rank.rank)):
            yield progress
        state = "done"
    except BaseException as error:
        state = "interrupted" if isinstance(error, (InterruptedBySignal, KeyboardInterrupt)) else "failed"
        message = str(error)
        raise
    finally:
        progress.close(state, message)


def do_share(run: "FolderRun", units: Sequence[Unit], progress: ShareProgress) -> None:
    """Make `units`, then those of other ranks that this one makes as well (`units_of_others`).

    The marker of each finished unit is added to `run.markers`.

    Raises:
        IncompleteError: the run was interrupted, or a worker was killed.
        MissingAudioError: more than half of the audio is missing.
    """
    job, plan, workspace, options, markers = run.job, run.plan, run.workspace, run.options, run.markers
    own, lookout = progress.own, _Lookout(run)

    def tick() -> None:
        stop_again()
        progress.update()
        lookout.look()

    watch = MissingAudioWatch(run, options.budget, plan.records_in)

    def execute(some: Sequence[Unit]) -> None:
        execution = run.execution_of(
            workspace, run.digest, options.num_workers, progress.counter, tick, executor=executor
        )
        job.prepare(plan)
        attempts = survive_crashes(workspace, some, lambda left: job.execute(plan, left, execution), job.shared_notes)
        with lookout.watching(some), contextlib.closing(attempts) as done:
            try:
                for marker in done:
                    markers[marker.unit] = marker.slim()
                    own.units_done += 1
                    own.rejects += sum(marker.rejects.values())
                    if job.reads_audio_files:
                        watch.look(marker, markers)
            except MissingAudioError:
                done.close()  # ends the workers, which may have published more meanwhile
                watch.drop_others(some, run.digest, markers)
                raise

    with options.engine() if options.engine is not None and units else contextlib.nullcontext() as executor:
        if units:
            execute(units)
        while others := run.units_of_others():
            execute(others)


class _DoneByOthersError(Exception):
    """The units that this rank is making were made by other ranks meanwhile."""


class _Lookout:
    """Ends the work for units of which none is left, because other ranks have made them meanwhile."""

    def __init__(self, run: "FolderRun") -> None:
        self._run = run
        self._units: Sequence[Unit] = ()
        self._since: float | None = None

    @contextlib.contextmanager
    def watching(self, units: Sequence[Unit]) -> Iterator[None]:
        """The context of the work for `units`."""
        self._units, self._since = units, None
        try:
            yield
        except _DoneByOthersError:
            remove_stale_tmp(self._run.workspace)  # of our workers, which have ended
        self._units = ()

    def look(self) -> None:
        """Raise an exception that ends the work, if all units are done; called a few times a second."""
        if not (self._units and self._run.are_done(self._units)):
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif time.monotonic() - self._since > TICK:  # our own workers have reported theirs by now
            raise _DoneByOthersError


class MissingAudioError(PrepcliError):
    """More than half of the audio is missing: probably an unmounted folder, not bad records."""


class MissingAudioWatch:
    """Watches the rejects of a run's units, and stops a run whose audio is mostly missing."""

    def __init__(self, run: "FolderRun", budget: Budget, records_in: int) -> None:
        self._run, self._workspace = run, run.workspace
        self._budget = budget
        self._records_in = records_in
        self._missing: dict[str, int] = {}
        self._records = 0

    def look(self, marker: Marker, markers: dict[str, Marker]) -> None:
        """Add the counts of a unit that has just been processed, and check how much audio is missing.

        Raises:
            MissingAudioError: after at least `MIN_RECORDS` records, the audio of more than half of them is missing, and
                of more than `--max-rejects` allows. The units with missing audio then count as not done, so that the
                next run does them.
        """
        reason = RejectReason.MISSING_AUDIO.value
        self._records += marker.records_out + sum(marker.rejects.values())
        if reason in marker.rejects:
            self._missing[marker.unit] = marker.rejects[reason]
        missing = sum(self._missing.values())
        if self._records < MIN_RECORDS or 2 * missing <= self._records:
            return
        if not self._budget.exceeded({reason: missing}, self._records_in):
            return
        reject = self._example(marker)
        name, detail = (str(reject.get(field, "")) for field in ("audio_filepath", "reject_detail"))
        base = option("--audio-base-dir")
        folder = "" if not name or is_absolute(name) else f", or relative paths start from another one ({base})"
        self._run.drop(self._missing)
        raise MissingAudioError(
            f"the audio of {missing:,} of the first {self._records:,} records is missing{detail and f' ({detail})'}: "
            f"the folder is probably not mounted{folder}. Nothing is lost: run {same_command()} again when it is back. "
            f"To list the records as rejects instead, give a larger {option('--max-rejects')}"
        )

    def drop_others(self, units: Iterable[Unit], digest: str, markers: dict[str, Marker]) -> None:
        """Remove late markers of `units`, so that these units are done again: markers with rejects for missing audio.

        A marker is late if it is not in `markers`: a worker published it while the run was stopping.
        """
        late = {unit.id: read_marker(self._workspace, unit, digest) for unit in units if unit.id not in markers}
        reason = RejectReason.MISSING_AUDIO.value
        self._run.drop(name for name, one in late.items() if one and reason in one.rejects)

    def _example(self, marker: Marker) -> dict[str, Any]:
        """The first reject of the unit for missing audio; empty if there is none."""
        for name in marker.work_files:
            if name.startswith("rejects/"):
                for line in self._workspace.part_file(marker.unit, name).read_bytes().splitlines():
                    fields: dict[str, Any] = msgspec.json.decode(line)
                    if fields["reject_reason"] == RejectReason.MISSING_AUDIO.value:
                        return fields
        return {}
