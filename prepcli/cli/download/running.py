"""Running the data sets of a corpus one after the other: fetched, unpacked, converted; one summary for all."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from prepcli.cli.download.options import FetchOptions
from prepcli.cli.options import JobOptions

if TYPE_CHECKING:
    from prepcli.corpora.data_set import DataSet
    from prepcli.corpora.prepare import Fetching
    from prepcli.engine.run import RunOptions


def run_data_sets(data_sets: "Sequence[DataSet]", data_root: Path, fetch: FetchOptions, common: JobOptions) -> None:
    """Prepare each data set and print its summary, or the plan.

    Raises:
        PrepcliError: what fetching and the engine raise.
        typer.Exit: 3 where a data set has too many rejects; the others are prepared all the same.
    """
    from prepcli.cli.output import conclude, print_incomplete, print_json
    from prepcli.corpora.job import CorpusJob, workspace_of
    from prepcli.corpora.prepare import check_given, ensure_index, ensure_unpacked, is_ready, note_scarce_space
    from prepcli.engine.report import command_line
    from prepcli.engine.run import run_job
    from prepcli.engine.signals import stop_on_signals
    from prepcli.errors import IncompleteError, UsageError

    options = common.engine()
    fetching = fetch.fetching(options)
    check_given(data_sets, fetching)
    if common.dry_run:
        _print_plans(data_sets, data_root, fetching, options, common.as_json)
        return
    alone = options.rank.world_size == 1
    waiting = [one.name for one in data_sets if not is_ready(one, data_root)]
    if waiting and not alone:
        raise UsageError(
            f"{', '.join(waiting)}: fetching and unpacking is one process's work. Run the same command once without "
            "ranks and with --fetch-only, then this one"
        )
    if alone:
        note_scarce_space(data_sets, data_root, fetching)
    reports: dict[str, Any] = {}
    code = 0
    for data_set in data_sets:
        workspace = workspace_of(data_set, data_root)
        try:
            with stop_on_signals():  # also between fetching and converting, which listen for themselves
                if alone:
                    ensure_unpacked(data_set, data_root, fetching)
                if fetch.fetch_only:
                    typer.echo(f"{data_set.command}: unpacked in {data_root}", err=common.as_json)
                    reports[data_set.name] = {"command": data_set.command, "status": "fetched", "out": str(data_root)}
                    continue
                index = ensure_index(data_set, data_root, workspace.root)
                report = run_job(CorpusJob(data_set, data_root, index), workspace, options)
        except IncompleteError as error:
            if common.as_json:
                print_incomplete(data_set.command, workspace, str(error))
            raise type(error)(f"{error}. Continue with: {command_line()}") from None
        reports[data_set.name] = report
        try:
            conclude(report, workspace, options, as_json=False, quiet=common.as_json)
        except typer.Exit as done:
            code = done.exit_code
    if common.as_json:
        print_json(next(iter(reports.values())) if len(reports) == 1 else {"data_sets": reports})
    if code:
        raise typer.Exit(code)


def _print_plans(
    data_sets: "Sequence[DataSet]", data_root: Path, fetching: "Fetching", options: "RunOptions", as_json: bool
) -> None:
    from prepcli.cli.output import print_json, print_plan
    from prepcli.corpora.job import CorpusJob
    from prepcli.corpora.prepare import ensure_index, is_ready, plan_fetching
    from prepcli.engine.dry_run import dry_run
    from prepcli.engine.report import format_bytes

    plans: dict[str, Any] = {}
    for data_set in data_sets:
        if is_ready(data_set, data_root):
            with tempfile.TemporaryDirectory(prefix="prepcli-") as scratch:
                job = CorpusJob(data_set, data_root, ensure_index(data_set, data_root, Path(scratch)))
                plans[data_set.name] = plan = dry_run(job, options.rank)
            if not as_json:
                print_plan(plan)
            continue
        archive = plan_fetching(data_set, data_root, fetching)
        plans[data_set.name] = {"command": data_set.command, "status": "dry_run", "fetch": archive}
        if not as_json:
            typer.echo(f"{data_set.command}: the plan (nothing is written); records are known when it is unpacked")
            size = format_bytes(archive["num_bytes"]) if archive["num_bytes"] else "unknown size"
            there = f", {format_bytes(archive['num_bytes_there'])} there" if archive["num_bytes_there"] else ""
            known = archive["checksum"] or "no checksum published"
            typer.echo(f"  fetch    {archive['from']} ({size}{there}), {known}")
    if as_json:
        print_json(next(iter(plans.values())) if len(plans) == 1 else {"data_sets": plans})
