"""Running a job with a model: here, or as one rank process a GPU."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from prepcli.cli.output import conclude, print_incomplete, run_or_plan

if TYPE_CHECKING:
    from prepcli.engine.job import Job
    from prepcli.engine.report import Report
    from prepcli.engine.run import RunOptions
    from prepcli.engine.workspace import Workspace

After = Callable[["Report"], object]


def run_on_devices(
    make_job: "Callable[..., Job]",
    devices: str,
    workspace: "Workspace",
    options: "RunOptions",
    *,
    dry_run: bool,
    as_json: bool,
    after: After | None = None,
) -> None:
    """Run `make_job(device=...)` on what `--devices` says; see `run_or_plan` for the rest.

    Several GPUs and no launcher: this command is started again once for each of them, and this process waits.
    """
    from prepcli.models.devices import find_devices

    has_launcher = options.rank.launcher != "none"
    found = find_devices(devices, options.rank.local_rank, has_launcher)
    if found.num_ranks > 1 and not dry_run:
        # Made here too, so that a wrong call is found before the ranks start.
        run_ranks(found.num_ranks, make_job(device="cpu"), workspace, options, as_json=as_json, after=after)
        return
    if found.num_ranks > 1:
        options = replace(options, rank=replace(options.rank, world_size=found.num_ranks))
    job = make_job(device=found.device)
    run_or_plan(job, workspace, options, dry_run=dry_run, as_json=as_json, after=after)


def run_ranks(
    num_ranks: int,
    job: "Job",
    workspace: "Workspace",
    options: "RunOptions",
    *,
    as_json: bool,
    after: After | None = None,
) -> None:
    """Start this command as `num_ranks` processes, wait for them, and print the one summary.

    Raises:
        typer.Exit: with the exit code for all of them; those that failed have said why.
    """
    import msgspec

    from prepcli.engine.launch import spawn_ranks
    from prepcli.engine.report import Report
    from prepcli.engine.workspace import read_json

    def stored() -> tuple[float, Report | None]:
        document = read_json(workspace.report_file)
        if document is None:
            return 0.0, None
        return workspace.report_file.stat().st_mtime_ns, msgspec.convert(document, Report)

    before, _ = stored()
    code = spawn_ranks(sys.argv[1:], num_ranks)
    now, report = stored()
    if code in (0, 3) and report is not None:
        if now == before:
            report.status = "nothing_to_do"
        conclude(report, workspace, options, as_json=as_json, after=after)
    elif as_json and code == 4:
        print_incomplete(job.command, workspace, "interrupted, or a rank died")
    if code:
        raise typer.Exit(code)
