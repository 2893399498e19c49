"""A run: plan the units, claim the output, do this rank's share, and finish when no unit of any rank is missing."""

import contextlib
import errno
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from prepcli.engine.publishing.owned import retire
from prepcli.engine.publishing.publish import AccountingError, Marker, UnitWriter, read_marker
from prepcli.engine.publishing.rejects import Budget, merge_rejects, num_retryable
from prepcli.engine.ranks.launch import has_agreed, has_done, note_done, shares
from prepcli.engine.ranks.progress import note_late_rank
from prepcli.engine.ranks.stealing import Crew, remove_dead_claims
from prepcli.engine.run.job import AnyJob, RunOptions
from prepcli.engine.run.report import Report, build_report, finished_report, paths_in, set_verdict, too_many
from prepcli.engine.run.share import do_share
from prepcli.engine.run.starting import check_inputs, check_sample, claim_output, refuse_other_command, warn_if_running
from prepcli.engine.run.unit import Execution
from prepcli.engine.runs import FolderRun
from prepcli.engine.state.clearing import clear_refused
from prepcli.engine.state.in_the_way import refuse_names_that_are_one
from prepcli.engine.state.plan import FINISH_UNIT, AnyPlan, Unit, max_over_mean, pack, plan_digest
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.work_folder import refuse_state
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.engine.store_runs import StoreRun
from prepcli.errors import (
    IncompleteError,
    PrepcliError,
    TooManyRejectsError,
    UsageError,
    option,
    same_command,
    wrong_path,
)
from prepcli.interface.calls import command_line, tell
from prepcli.interface.printing import printable_command
from prepcli.processes.owner import refresh_listing
from prepcli.processes.ranks import Rank
from prepcli.processes.signals import stop_on_signals
from prepcli.processes.workers import LIFELINE, TICK, exit_when_ready, is_own_rank
from prepcli.storage.paths import AnyPath, StorePath, absolute, blocks_of

After = Callable[[Report], object]
"""Called with the report of a finished run."""
CONTINUE = ". Continue with: "
"""The words in a message before the command that continues the run."""


def run_job(job: AnyJob, workspace: Workspace, options: RunOptions, after: After | None = None) -> Report:
    """Run `job` as the rank in `options`, or only plan it in a dry run; returns the report.

    An exception that is not a `PrepcliError` is a bug or a fault of the machine: its traceback is kept in
    `OUT.prepcli/traceback_<rank>.txt`, and the run can be continued.

    `after` is called with the report of a finished run, unless this is a rank that a command has started itself.

    Raises:
        UsageError: the output was made from other inputs, with other settings or by another command; or the
            output is the state folder of a run, or is in one.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; the error has the report.
        IncompleteError: the run was interrupted, or a worker was killed; the message says how to continue.
        PrepcliError: another fault of the machine, for example a full disk.
    """
    refuse_state(workspace.named)
    if options.dry_run:
        return dry_run_report(job, workspace.named, options.rank, options.budget)
    lifeline = os.environ.get(LIFELINE)
    if lifeline:
        exit_when_ready(int(lifeline))
    try:
        with stop_on_signals(), workspace.life.at_work():
            try:
                report = run_of(job, workspace, options).execute()
            except BaseException as error:
                with contextlib.suppress(OSError):
                    workspace.remove_own_tmp()
                    workspace.remove_stale_tmp()
                if isinstance(error, PrepcliError) or not isinstance(error, Exception):
                    raise
                workspace.check_claim()  # a file may be missing because another command has cleared the directory
                raise PrepcliError(_describe_failure(error, workspace, options.rank)) from error
    except IncompleteError as error:
        raise with_continuation(error, job.command, workspace) from None
    except UsageError:
        if options.rank.world_size == 1:  # another rank may be about to write to this folder
            clear_refused(workspace)
        raise
    return conclude(report, options.budget, after)


UNIT_FOLDERS = frozenset({"manifest-to-tarred", "manifest-to-wenet", "score", "extend-codec-codes"})
"""The commands whose units are folders (`prepcli.engine.runs`); those of the others have markers."""


def run_of(job: AnyJob, workspace: Workspace, options: RunOptions) -> "Run | FolderRun":
    """One rank's run of a job: with unit folders, if the command has moved to them or OUT is in a store."""
    if isinstance(workspace.out, StorePath):
        return StoreRun(job, workspace, options)
    if job.command in UNIT_FOLDERS:
        return FolderRun(job, workspace, options)
    return Run(job, workspace, options)


class Run:
    """One rank's run of a job.

    Attributes:
        markers: by id, the markers of the units that are known to be done, by this rank or others.
    """

    def __init__(self, job: AnyJob, workspace: Workspace, options: RunOptions) -> None:
        self.job = job
        self.workspace = workspace
        self.options = options
        workspace.rank, workspace.verify_inputs = options.rank, options.verify_inputs
        try:
            refuse_other_command(job, workspace, options)
            self.plan: AnyPlan = job.plan(workspace)
            self.settings: dict[str, Any] = job.settings(self.plan)
            self.digest = plan_digest(job.command, self.settings, self.plan)
        except OSError as error:  # a folder or a file that cannot be read
            raise wrong_path(error) or error from None
        self.markers: dict[str, Marker] = {}

    def execute(self) -> Report:
        """Do the missing units of this rank's share, and then units that other ranks have not begun, if allowed.

        If all units are done then, finish the run. Returns the report.
        """
        self._check_sample()
        claim_output(self)
        self.load_markers(listed=True)
        self.job.check_done([unit for unit in self.plan.units if unit.id in self.markers], self.workspace)
        self._retry_rejects()
        if self._is_finished(self.workspace.found):
            note_late_rank(self.workspace, self.options.rank)
            with contextlib.suppress(OSError):  # a finished output may be read-only
                self.workspace.remove_stale_tmp()
                remove_dead_claims(self.workspace)
            return self._report("nothing_to_do")
        self.workspace.remove_stale_tmp()
        warn_if_running(self)
        rank = self.options.rank
        missing = [unit for unit in self.plan.units if unit.id not in self.markers]
        divided = shares(self.workspace, rank, self.plan.units, missing, self._is_done)
        own = [unit for unit in divided[rank.rank] if unit.id not in self.markers]
        takes_units = self.options.steal and rank.world_size > 1 and rank.launch_id is not None
        crew = Crew(self.workspace, rank, divided) if takes_units and self.job.claims_units else None
        with crew.at_work() if crew else contextlib.nullcontext():
            do_share(self, own, crew)
            check_inputs(self.plan)
            self.load_markers()  # units that other ranks have done meanwhile
            if len(self.markers) < len(self.plan.units):
                return self._report()
            return self._finish_once(crew)

    def load_markers(self, listed: bool = False) -> None:
        """Add to `markers` the markers of units that are done, by this rank or others.

        `listed`: open only the markers that are in a listing of their folder, and take the sizes of output files from
        `workspace.found`. This is faster if there are many units. It is only for use before the work, because a network
        file system may list a new marker late: after the work, units of other ranks would seem to be missing, and no
        rank would finish the run.
        """
        workspace = self.workspace
        found = workspace.found if listed else OutputFiles(workspace.out)
        there = _names_in(workspace.done) if listed else None
        for unit in self.plan.units:
            if unit.id not in self.markers and (there is None or f"{unit.id}.json" in there):
                marker = read_marker(workspace, unit, self.digest, found)
                if marker is not None:
                    self.markers[unit.id] = marker

    def _check_sample(self) -> None:
        """Check a sample of the audio before anything is written, if there is work."""
        options = self.options
        if not options.overwrite:
            self.load_markers(listed=True)
        if options.overwrite or options.retry_rejects or not self._is_finished(self.workspace.found):
            check_sample(self.job, self.plan, options.budget)

    def _retry_rejects(self) -> None:
        """With `--retry-rejects`, remove the markers of units with rejects to retry, before any rank does a unit.

        If the run ends before it has repeated the units, a later run finds them missing and does them. If a list of
        missing units is stored for this launch (`shares`), another rank has removed the markers before.

        Raises:
            UsageError: there are several ranks without a launch id; they would repeat units that others have just
                repeated.
        """
        rank, workspace = self.options.rank, self.workspace
        if not self.options.retry_rejects:
            return
        if has_done(workspace, rank, "retry"):
            tell(
                f"requeued ({rank.restarts} times): continuing; {option('--retry-rejects')} applied to the first "
                "start only"
            )
            self.markers.clear()  # another rank of this start may have removed some of them
        else:
            refresh_listing(workspace.done)  # rejects of a marker that is not listed would not be tried again
            self.load_markers(listed=True)
            if rank.world_size > 1 and rank.launch_id is None:
                raise UsageError(
                    f"{option('--retry-rejects')} with several ranks needs {option('--launch-id')}, the same for all "
                    "of them"
                )
            again = [unit for unit, marker in self.markers.items() if num_retryable(marker.rejects)]
            if again and not has_agreed(workspace, rank):
                self.drop(again)
            for unit in again:  # another rank may have replaced these markers: read them again
                self.markers.pop(unit, None)
            note_done(workspace, rank, "retry")
        self.load_markers(listed=True)

    execution_of: Callable[..., Execution] = Execution

    def units_of_others(self) -> list[Unit]:
        """The units of other ranks that this rank makes as well when its share is done: here none (see `Crew`)."""
        return []

    def are_done(self, units: Sequence[Unit]) -> bool:
        """As in `FolderRun`."""
        return False

    def is_over(self) -> bool:
        """As in `FolderRun`."""
        return False

    def drop(self, units: Iterable[str]) -> None:
        """Take some units and the final merge back: they are done again."""
        for unit in [FINISH_UNIT.id, *units]:
            self.markers.pop(unit, None)
            retire(self.workspace, unit)

    def _is_done(self, unit: Unit) -> bool:
        """Whether a unit is done, even if its marker is not listed yet."""
        marker = read_marker(self.workspace, unit, self.digest)
        if marker is not None:
            self.markers[unit.id] = marker
        return marker is not None

    def _is_finished(self, found: OutputFiles | None = None) -> bool:
        is_done = len(self.markers) == len(self.plan.units)
        return is_done and finished_report(self.workspace, self.digest, found) is not None

    def _finish_once(self, crew: Crew | None) -> Report:
        """Finish the run, or wait until another rank of this launch has finished it; returns the report.

        If `crew` is None, this rank finishes the run and waits for no other rank.
        """
        if crew is None:
            return self._finish()
        while not (crew.claims.take(FINISH_UNIT.id) or self._is_finished()):
            time.sleep(TICK)
        if self._is_finished():
            return self._report("done")
        report = self._finish()
        crew.disband()
        return report

    def _finish(self) -> Report:
        """Merge the files of all units, and write `report.json`; harmless if two ranks do it. Returns the report."""
        markers = [self.markers[unit.id] for unit in self.plan.units]
        refuse_names_that_are_one(self.workspace.out, (name for marker in markers for name in marker.files))
        report = self._report()
        with UnitWriter(self.workspace, self.digest, FINISH_UNIT) as writer:
            found = self.job.finish(self.plan, markers, writer)
            report.outputs = paths_in(found)
            report.details = found | report.outputs
            reject_files = [
                self.workspace.root / name
                for marker in markers
                for name in marker.work_files
                if name.startswith("rejects/")
            ]
            merged = writer.open_part(self.workspace.rejects_file.name)
            listed = 0
            for block in self._rejects(reject_files):
                merged.write(block)
                listed += block.count(b"\n")
            if listed != report.rejects:
                raise AccountingError(f"{report.rejects} records were rejected, but {listed} are listed")
            final = writer.publish()
            report.num_bytes += sum(file.num_bytes for file in final.files.values())
            set_verdict(report, self.options.budget, self.settings)
            self.workspace.check_claim()
            self.workspace.flush([self.workspace.marker_file(FINISH_UNIT.id)])  # this flushes all other markers too
            write_json(self.workspace.report_file, report, folder=writer.folder)
        self.workspace.remove_stale_tmp()
        return report

    def _rejects(self, unit_files: list[Path]) -> Iterator[bytes]:
        """All reject lines in the order of the inputs, as blocks of one or many lines."""
        if not self.job.rejects_in_order:
            inputs = [file.path for file in self.plan.inputs]
            yield from merge_rejects(self.job.planned_rejects(self.plan), unit_files, inputs)
            return
        yield from chain.from_iterable(map(blocks_of, unit_files))

    def _report(self, finished: str = "") -> Report:
        """The report of the run as it is now.

        `finished`: the status of the report if an earlier start or another rank has finished the run; "" if not.
        """
        job, workspace = self.job, self.workspace
        report = build_report(job.command, str(workspace.named), self.digest, self.plan, self.markers, job.telemetry)
        report.rejects_filepath = absolute(workspace.rejects_file)
        stored = read_document(workspace.report_file, Report) if finished else None
        if stored is not None:
            report.status = finished
            report.details, report.outputs = stored.details, stored.outputs
            report.num_bytes = stored.num_bytes
        set_verdict(report, self.options.budget, self.settings)
        if stored is not None and report.max_rejects != stored.max_rejects:  # `status` shows the value of the last run
            stored.max_rejects = report.max_rejects
            stored.status = "done" if report.status == finished else report.status
            with contextlib.suppress(OSError):  # a finished output may be read-only
                write_json(workspace.report_file, stored)
        return report


def _names_in(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def with_continuation(error: IncompleteError, command: str, workspace: Workspace) -> IncompleteError:
    """Add the command that continues the run to the message and the document of `error`, unless it has one already."""
    if error.continue_with is not None:
        return error
    continue_with = command_line()
    found = type(error)(f"{error}{CONTINUE}{printable_command(continue_with)}")
    found.document = {
        "command": command,
        "status": "incomplete",
        "out": str(workspace.named),
        "message": str(error),
        "continue_with": continue_with,
    }
    return found


def conclude(report: Report, budget: Budget, after: After | None = None) -> Report:
    """Return `report`, unless the run has too many rejects.

    If the run is complete, `after` is called first, except in a rank that a command has started itself.

    Raises:
        TooManyRejectsError: the run has too many rejects; the error has the report.
    """
    if after is not None and report.status != "incomplete" and not is_own_rank():
        after(report)
    if report.status == "too_many_rejects":
        raise TooManyRejectsError(too_many(report, budget), report)
    return report


def _describe_failure(error: Exception, workspace: Workspace, rank: Rank) -> str:
    """Describe an unexpected error, with advice, in one line; writes its traceback into the state folder."""
    name = workspace.root / f"traceback_{rank.rank}.txt"
    kept = ""
    with contextlib.suppress(OSError):
        name.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        kept = f" (traceback in {name})"
    if isinstance(error, OSError):
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        found = error.filename or (workspace.root if full else None)
        where = f"{found}: " if found else ""
        return (
            f"{where}{error.strerror or error}; nothing half written was published. Correct it and run the same "
            f"command again to continue{kept}"
        )
    if isinstance(error, MemoryError):
        return (
            f"not enough memory: {' '.join(str(error).split()) or 'out of memory'}. Run {same_command()} again to "
            f"continue, with more memory, a smaller {option('--num-workers')}, or (where a model runs) a smaller "
            f"{option('--batch-duration')}{kept}"
        )
    return f"a bug in prepcli: {type(error).__name__}: {error}{kept}; please report it"


@contextlib.contextmanager
def temporary_workspace(out: AnyPath) -> Iterator[Workspace]:
    """A workspace for planning only: nothing is written next to `out`, and compressed manifests are not unpacked.

    If an earlier run has left an index in OUT.prepcli, planning uses it.

    Raises:
        UsageError: `out` is the state folder of a run, or is in one.
    """
    refuse_state(out)
    with tempfile.TemporaryDirectory(prefix="prepcli-") as root:
        workspace = Workspace(out, Path(root), spools=False)
        workspace.index = Workspace(out).index
        yield workspace


def _dry_run_facts(job: AnyJob, plan: AnyPlan, rank: Rank) -> dict[str, Any]:
    """The facts of a plan: units, hours, and seconds of audio per rank with their spread.

    If the plan does not know seconds, hours and seconds are None, and the number of records per rank is there instead.
    """
    costs = [sum(unit.cost for unit in share) for share in pack(plan.units, rank.world_size)]
    largest = max(plan.units, key=lambda unit: unit.cost, default=None)
    document: dict[str, Any] = {
        "command": job.command,
        "status": "dry_run",
        "records_in": plan.records_in,
        "records_planned": sum(unit.num_records for unit in plan.units),
        "rejects_by_reason": plan.planned_rejects,
        "skipped": plan.num_skipped,
        "units": len(plan.units),
        "seconds": round(plan.total_cost, 3) if plan.knows_seconds else None,
        "hours": round(plan.total_cost / 3600, 3) if plan.knows_seconds else None,
        "world_size": rank.world_size,
        "seconds_per_rank": [round(cost, 3) for cost in costs] if plan.knows_seconds else None,
        "records_per_rank": None if plan.knows_seconds else [int(cost) for cost in costs],
        "spread_max_over_mean": round(max_over_mean(costs), 4),
        "notes": list(plan.notes),
    }
    if largest is not None and rank.world_size > 1 and largest.cost > plan.total_cost / rank.world_size:
        size = f"{largest.cost / 3600:.2f} h" if plan.knows_seconds else f"{largest.num_records:,} records"
        document["notes"].append(
            f"unit {largest.id} alone ({size}) is more than a rank's mean share: "
            "more ranks will not make this run faster"
        )
    return document


def dry_run_report(job: AnyJob, out: AnyPath, rank: Rank, budget: Budget | None = None) -> Report:
    """Plan the job in a temporary workspace. Returns a report with the plan in its `details`.

    Raises:
        UsageError: the inputs or the options are invalid, or the audio of a sample is missing (`check_sample`).
    """
    with temporary_workspace(out) as workspace:
        made = job.plan(workspace)
    check_sample(job, made, budget or Budget())
    plan = _dry_run_facts(job, made, rank)
    return Report(
        command=job.command,
        status="dry_run",
        out=str(out),
        records_in=plan["records_in"],
        rejects=sum(plan["rejects_by_reason"].values()),
        rejects_by_reason=plan["rejects_by_reason"],
        skipped=plan["skipped"],
        units=plan["units"],
        seconds=plan["seconds"] or 0.0,
        notes=plan["notes"],
        details=plan,
    )
