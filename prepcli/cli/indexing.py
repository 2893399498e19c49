"""What `prepcli index` prints."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from prepcli.indexing.options import Index
    from prepcli.indexing.report import IndexReport


def show_indexes(options: "Index", report: "IndexReport") -> None:
    """Print what was written, each problem, and the YAML to paste.

    Raises:
        typer.Exit: 1, if there are problems.
    """
    from prepcli.cli.output import print_json, print_lines

    if options.as_json:
        print_json(report)
    else:
        print_lines(_lines(report))
    if report.problems:
        raise typer.Exit(1)


def _lines(report: "IndexReport") -> list[str]:
    from prepcli.engine.report import format_bytes

    names = ", ".join(report.sets[:3]) + (f", ... ({len(report.sets)} sets)" if len(report.sets) > 3 else "")
    title = {
        "dry_run": "the plan (nothing is written)",
        "nothing_to_do": "nothing to do",
        "ok": "all indexes fit their data",
        "broken": f"{len(report.problems)} problems",
    }.get(report.status, "done")
    lines = [f"index: {title}, {names}"]
    if report.status == "dry_run":
        verb = "to rename" if report.renamed else "to write"
        count = report.renamed or report.written
        lines.append(f"  indexes  {count:,} {verb}, {report.kept:,} kept")
        lines.append(f"  data     {format_bytes(report.num_bytes)}, of which line ends and tar headers are read")
    elif report.renamed:
        lines.append(f"  indexes  {report.renamed:,} renamed")
    elif report.status == "nothing_to_do":
        return lines
    elif report.status == "ok":
        lines.append(f"  indexes  {report.files:,} with {report.records:,} records")
    else:
        lines.append(f"  indexes  {report.written:,} written, {report.kept:,} kept")
        lines.append(f"  records  {report.records:,} in {format_bytes(report.num_bytes)}")
    if report.pack:
        lines.append(f"  pack     {report.pack}")
    lines += [f"  note     {note}" for note in report.notes]
    lines += [f"  PROBLEM  {problem}" for problem in report.problems]
    for config in report.configs if not report.problems else []:
        lines += ["  config_with_indexes", *(f"    {line}" for line in config.splitlines())]
    return lines
