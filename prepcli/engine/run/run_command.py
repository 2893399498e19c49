"""Run a job as a command: plan or run it, name its continuation and check its rejects."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from prepcli.engine.run.dry_run import dry_run_report
from prepcli.engine.run.job import AnyJob
from prepcli.engine.run.options import JobOptions
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import RunOptions, run_job
from prepcli.engine.state.clearing import clear_refused
from prepcli.engine.state.store_output import begin_listing
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import IncompleteError, TooManyRejectsError, UsageError
from prepcli.interface.calls import command_line
from prepcli.interface.printing import printable_command
from prepcli.processes.workers import is_own_rank

if TYPE_CHECKING:
    from prepcli.engine.publishing.rejects import Budget

After = Callable[[Report], object]
"""Called with the report of a finished run."""
CONTINUE = ". Continue with: "
"""Comes before the command that continues, at the end of a message."""


def run_command(
    job: AnyJob,
    workspace: Workspace,
    options: JobOptions,
    engine: RunOptions,
    after: After | None = None,
) -> Report:
    """Run the job, or only plan it in a dry run.

    Raises:
        UsageError: the output is the state folder of a run.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; it has the report.
        PrepcliError: errors of the engine; an `IncompleteError` says how to continue.
    """
    _refuse_state(workspace)
    if options.dry_run:
        return dry_run_report(job, workspace.named, engine.rank, engine.budget)
    begin_listing(workspace.out)
    try:
        report = run_job(job, workspace, engine)
    except IncompleteError as error:
        raise with_continuation(error, job.command, workspace) from None
    except UsageError:
        if engine.rank.world_size == 1:  # another rank may be about to write to it
            clear_refused(workspace)
        raise
    return conclude(report, engine.budget, after)


def _refuse_state(workspace: Workspace) -> None:
    """Refuse to write data into the state folder of a run: completion in a shell offers both names."""
    out = workspace.named
    if out.suffix == ".prepcli" and (out / "plan.json").is_file():
        raise UsageError(f"{out} holds the state of the run of {out.with_suffix('')}; choose another output")


def with_continuation(error: IncompleteError, command: str, workspace: Workspace) -> IncompleteError:
    """Return the error with the command that continues, also in its report."""
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


def conclude(report: Report, budget: "Budget", after: After | None = None) -> Report:
    """The report of a run, unless it has too many rejects; `after` is called first where this is not one of our ranks.

    Raises:
        TooManyRejectsError: with the report.
    """
    if after is not None and report.status != "incomplete" and not is_own_rank():
        after(report)
    if report.status == "too_many_rejects":
        raise TooManyRejectsError(
            f"{report.rejects:,} of {report.records_in:,} records were rejected, more than --max-rejects "
            f"allows ({budget}); see {report.rejects_filepath}",
            report,
        )
    return report
