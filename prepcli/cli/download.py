"""The output of the commands of `prepcli download`."""

from typing import TYPE_CHECKING, Any

import typer

from prepcli.cli.output import print_json, print_lines, print_plan, show_report

if TYPE_CHECKING:
    from prepcli.corpora.running import DownloadReport
    from prepcli.engine.options import JobOptions
    from prepcli.engine.report import Report


def show_data_sets(options: "JobOptions", report: "DownloadReport") -> None:
    """Print the summary or the plan of each data set; in JSON as one object."""
    if options.as_json:
        documents = {name: _document(one) for name, one in report.data_sets.items()}
        print_json(next(iter(documents.values())) if len(documents) == 1 else {"data_sets": documents})
        return
    for one in report.data_sets.values():
        if one.status == "fetched":
            print_lines([f"{one.command}: unpacked in {one.out}"])
        elif "fetch" in one.details:
            _print_fetching(one.command, one.details["fetch"])
        elif one.status == "dry_run":
            print_plan(one.details)
        else:
            show_report(options, one)


def _document(report: "Report") -> Any:
    if report.status == "dry_run":
        return report.details
    if report.status == "fetched":
        return {"command": report.command, "status": report.status, "out": report.out}
    return report


def _print_fetching(command: str, archive: dict[str, Any]) -> None:
    from prepcli.engine.report import format_bytes

    typer.echo(f"{command}: the plan (nothing is written); records are counted after unpacking")
    size = format_bytes(archive["num_bytes"]) if archive["num_bytes"] else "unknown size"
    there = f", {format_bytes(archive['num_bytes_there'])} there" if archive["num_bytes_there"] else ""
    known = archive["checksum"] or "no checksum published"
    print_lines([f"  fetch    {archive['from']} ({size}{there}), {known}"])
