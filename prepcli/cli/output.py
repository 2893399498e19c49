"""The output of commands: a plan or a summary, as text or as JSON."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from prepcli.display.printing import encodable, printable

if TYPE_CHECKING:
    from prepcli.engine.options import JobOptions
    from prepcli.engine.report import Report


def show_report(options: "JobOptions", report: "Report") -> None:
    """Print the summary of a run, or its plan; a run without work prints one line."""
    if report.status == "dry_run":
        print_json(report.details) if options.as_json else print_plan(report.details)
    elif options.as_json:
        print_json(report)
    else:
        from prepcli.engine.report import summary_lines

        lines = summary_lines(report, options.verbose)
        if report.status == "nothing_to_do" and not options.verbose:
            lines = [lines[0], *(line for line in lines[1:] if report.retry_with and report.retry_with in line)]
        print_lines(lines)


def print_json(document: Any) -> None:
    """Print one JSON object on stdout."""
    import msgspec

    try:
        text = msgspec.json.encode(document)
    except UnicodeEncodeError:  # a name that is not UTF-8
        text = msgspec.json.encode(encodable(msgspec.to_builtins(document)))
    typer.echo(text.decode())


def print_lines(lines: Iterable[str]) -> None:
    """Print lines; control characters in them are escaped, so each stays one line."""
    typer.echo("\n".join(map(printable, lines)))


def print_plan(plan: dict[str, Any]) -> None:
    """Print the plan as text."""
    seconds = plan["seconds_per_rank"]
    from prepcli.engine.report import reject_rows

    rejects = reject_rows(plan["rejects_by_reason"])
    if not any(name == "rejects" for name, _ in rejects):
        rejects.append(("rejects", "none so far (the audio is not read yet)"))
    lines = [
        f"{plan['command']}: the plan (nothing is written)",
        f"  records  {plan['records_planned']:,} of {plan['records_in']:,}, {plan['skipped']:,} skipped (_skipme)",
        *(f"  {name:<8} {text}" for name, text in rejects),
        f"  audio    {plan['hours']:,.2f} hours in {plan['units']:,} units",
        f"  ranks    {plan['world_size']}, {min(seconds):,.0f} to {max(seconds):,.0f} s of audio each, "
        f"spread (max/mean) {plan['spread_max_over_mean']:.3f}",
    ]
    lines += [f"    rank {number}: {share:,.1f} s" for number, share in enumerate(seconds if len(seconds) > 1 else [])]
    print_lines([*lines, *(f"  note     {note}" for note in plan["notes"])])
