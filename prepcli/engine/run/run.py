"""A run: plan the units, claim the output, do this rank's share, and finish when no unit of any rank is missing."""

import contextlib
import errno
import os
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prepcli.engine.cleaning import remove_unfinished
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.ranks.progress import remove_stale_tmp
from prepcli.engine.run.job import AnyJob, RunOptions
from prepcli.engine.run.report import Report, too_many
from prepcli.engine.run.starting import check_sample
from prepcli.engine.runs import FolderRun
from prepcli.engine.state.plan import AnyPlan, max_over_mean, pack
from prepcli.engine.state.stock import clear_refused
from prepcli.engine.state.work_folder import refuse_state
from prepcli.engine.state.workspace import Workspace
from prepcli.engine.store_runs import StoreRun
from prepcli.errors import (
    MORE_FILES,
    IncompleteError,
    PrepcliError,
    TooManyRejectsError,
    UsageError,
    lacks_open_files,
    option,
    same_command,
)
from prepcli.interface.calls import command_line
from prepcli.interface.printing import number_of, printable_command
from prepcli.processes.notes import take_notes
from prepcli.processes.ranks import Rank
from prepcli.processes.signals import stop_on_signals
from prepcli.processes.workers import LIFELINE, exit_when_ready, is_own_rank
from prepcli.storage.paths import AnyPath, StorePath

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
    if options.engine is not None and not job.takes_executor:
        raise UsageError(
            f"{job.command} has no tasks for an engine, because its model stays in one process for each device: start "
            "a rank for each device instead (docs/scale.md)"
        )
    take_notes()  # an earlier call in this process may have failed before it showed its notes
    refuse_state(workspace.named)
    if options.dry_run:
        return dry_run_report(job, workspace.named, options.rank, options.budget)
    lifeline = os.environ.get(LIFELINE)
    if lifeline:
        exit_when_ready(int(lifeline))
    try:
        with stop_on_signals():
            try:
                report = run_of(job, workspace, options).execute()
                if options.overwrite and report.status == "done":
                    remove_unfinished(workspace)
            except BaseException as error:
                with contextlib.suppress(OSError):
                    workspace.remove_own_tmp()
                    remove_stale_tmp(workspace)
                if isinstance(error, PrepcliError) or not isinstance(error, Exception):
                    raise
                workspace.check_claim()  # a file may be missing because another command has begun in the store
                raise PrepcliError(_describe_failure(error, workspace, options.rank)) from error
    except IncompleteError as error:
        raise with_continuation(error, job.command, workspace) from None
    except UsageError:
        if options.rank.world_size == 1:  # another rank may be about to write to this folder
            clear_refused(workspace)
        raise
    return conclude(report, options.budget, after)


def run_of(job: AnyJob, workspace: Workspace, options: RunOptions) -> FolderRun:
    """One rank's run of a job."""
    return (StoreRun if isinstance(workspace.out, StorePath) else FolderRun)(job, workspace, options)


@contextlib.contextmanager
def continuable(command: str, workspace: Workspace) -> Iterator[None]:
    """Within the context, a stop signal ends the command; the error says how to continue it.

    Raises:
        IncompleteError: there was a signal, or the block has raised the error.
    """
    try:
        with stop_on_signals():
            yield
    except IncompleteError as error:
        raise with_continuation(error, command, workspace) from None


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
    if lacks_open_files(error):
        return f"{error}; {MORE_FILES}, and run {same_command()} again to continue{kept}"
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
        size = f"{largest.cost / 3600:.2f} h" if plan.knows_seconds else number_of(largest.num_records, "record")
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
