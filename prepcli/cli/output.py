"""Running a job from the command line: its plan or its summary, for people or for scripts, and the exit code."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from prepcli.cli.options import is_own_rank

if TYPE_CHECKING:
    from prepcli.engine.job import Job
    from prepcli.engine.report import Report
    from prepcli.engine.run import RunOptions
    from prepcli.engine.workspace import Workspace

EXIT_CODES = {"done": 0, "nothing_to_do": 0, "too_many_rejects": 3, "incomplete": 0}
"""By the report's status. `incomplete` here means: this rank has done its part, others have not yet."""


def run_or_plan(
    job: "Job",
    workspace: "Workspace",
    options: "RunOptions",
    *,
    dry_run: bool,
    as_json: bool,
    after: "Callable[[Report], object] | None" = None,
) -> None:
    """Run the job (or print its plan), print the summary, and leave with the right exit code.

    `after` is called with the report of a finished run. A rank that the command itself has started prints no summary.

    Raises:
        PrepcliError: what the engine raises; an interrupted run still prints its summary first with `--json`.
        typer.Exit: for the codes above 0.
    """
    from prepcli.engine import run as engine
    from prepcli.engine.dry_run import dry_run as make_plan
    from prepcli.errors import IncompleteError

    if dry_run:
        plan = make_plan(job, options.rank)
        print_json(plan) if as_json else print_plan(plan)
        return
    try:
        report = engine.run_job(job, workspace, options)
    except IncompleteError as error:
        from prepcli.engine.report import command_line

        if as_json and not is_own_rank():
            print_incomplete(job.command, workspace, str(error))
        raise type(error)(f"{error}. Continue with: {command_line()}") from None
    conclude(report, workspace, options, as_json=as_json, after=after)


def conclude(
    report: "Report",
    workspace: "Workspace",
    options: "RunOptions",
    *,
    as_json: bool,
    quiet: bool = False,
    after: "Callable[[Report], object] | None" = None,
) -> None:
    """Print the summary of a run (unless `quiet`) and leave with the right exit code; see `run_or_plan`."""
    if not is_own_rank():
        if after is not None and report.status != "incomplete":
            after(report)
        if not quiet:
            print_json(report) if as_json else print_summary(report, workspace)
        if report.status == "too_many_rejects":
            print(
                f"prepcli: {report.rejects:,} of {report.records_in:,} records were rejected, more than --max-rejects "
                f"allows ({options.budget}); see {workspace.rejects_file}",
                file=sys.stderr,
            )
    if EXIT_CODES[report.status]:
        raise typer.Exit(EXIT_CODES[report.status])


def print_incomplete(command: str, workspace: "Workspace", message: str) -> None:
    """The JSON object of a run that was interrupted."""
    from prepcli.engine.report import command_line

    document = {"command": command, "status": "incomplete", "out": str(workspace.out), "message": message}
    print_json(document | {"continue_with": command_line()})


def print_json(document: Any) -> None:
    """One JSON object on stdout."""
    import msgspec

    typer.echo(msgspec.json.encode(document).decode())


def print_summary(report: "Report", workspace: "Workspace") -> None:
    """The summary for people; a run that found nothing to do says so in one line."""
    from prepcli.engine.report import summary_lines

    lines = summary_lines(report, str(workspace.rejects_file))
    typer.echo("\n".join(lines[:1] if report.status == "nothing_to_do" else lines))


def print_plan(plan: dict[str, Any]) -> None:
    """The plan for people."""
    seconds = plan["seconds_per_rank"]
    rejects = ", ".join(f"{count:,} {reason}" for reason, count in plan["rejects_by_reason"].items()) or "none so far"
    typer.echo(
        f"{plan['command']}: the plan (nothing is written)\n"
        f"  records  {plan['records_planned']:,} of {plan['records_in']:,}, {plan['skipped']:,} passed over (_skipme)\n"
        f"  rejects  {rejects}\n"
        f"  audio    {plan['hours']:,.2f} hours in {plan['units']:,} units\n"
        f"  ranks    {plan['world_size']}, {min(seconds):,.0f} to {max(seconds):,.0f} s of audio each, "
        f"spread (max/mean) {plan['spread_max_over_mean']:.3f}"
    )
    for number, share in enumerate(seconds if len(seconds) > 1 else []):
        typer.echo(f"    rank {number}: {share:,.1f} s")
    for note in plan["notes"]:
        typer.echo(f"  note     {note}")
