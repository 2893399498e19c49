"""What the commands that estimate bins print: for people, to paste, and for scripts; and the exit code."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

import typer

from prepcli.cli.bins_options import OutputOptions


class Counted(Protocol):
    """What became of the examples of an input."""

    num_examples: int
    num_discarded: int
    num_skipped: int
    num_rejected: int
    first_rejected: str | None


def conclude(
    report: Counted,
    *,
    bins: str,
    lines: Callable[[], list[str]],
    config: Mapping[str, Any],
    output: OutputOptions,
) -> None:
    """Write the config, print the bins alone, the lines or the report in JSON, and judge the rejects.

    Raises `TooManyRejectsError` after all that.
    """
    from prepcli.errors import RejectReason, TooManyRejectsError

    budget = output.budget()
    if report.first_rejected:
        log(f"warning: {report.num_rejected:,} lines cannot be used; the first is {report.first_rejected}")
    if output.write_config is not None:
        from prepcli.bins.loader_config import write_loader_config

        for note in write_loader_config(output.write_config, config):
            log(note)
    if output.as_json:
        from prepcli.cli.output import print_json

        print_json(document(report))
    else:
        typer.echo(bins if output.quiet else "\n".join(lines()))
    num_records = report.num_examples + report.num_discarded + report.num_rejected
    if budget.exceeded({RejectReason.BAD_FIELD.value: report.num_rejected}, num_records):
        raise TooManyRejectsError(
            f"{report.num_rejected:,} of {num_records:,} records cannot be used, more than --max-rejects "
            f"allows ({budget})"
        )


def notes(report: Counted, left_out_by: str) -> list[str]:
    """What was not used, worded as NeMo's scripts word it; `left_out_by`: the filters that have discarded."""
    lines = []
    if report.num_discarded:
        total = report.num_examples + report.num_discarded
        lines.append(
            f"Note: we discarded {report.num_discarded}/{total} ({report.num_discarded / total:.2%}) utterances "
            f"due to {left_out_by} filtering."
        )
    if report.num_skipped:
        lines.append(f"Note: we passed over {report.num_skipped} lines with a true _skipme.")
    if report.num_rejected:
        lines.append(f"Note: {report.num_rejected} lines cannot be used; the first is {report.first_rejected}")
    return lines


def document(report: Any) -> dict[str, Any]:
    """The report as `--json` prints it: all its fields but those that hold a number for each example."""
    from dataclasses import asdict, replace

    arrays = [one.name for one in fields(report) if not one.repr]
    found = asdict(replace(report, **{name: getattr(report, name)[:0] for name in arrays}))
    return {name: value for name, value in found.items() if name not in arrays}


def plain_list(values: Sequence[object]) -> str:
    """Bins as NeMo's scripts print them."""
    return f"[{','.join(map(str, values))}]"


def percentiles_text(percentiles: Mapping[str, float], spec: str = ".2f") -> str:
    """`p50 3.20  p100 9.00`, for a line."""
    return "  ".join(f"{name} {value:{spec}}" for name, value in percentiles.items())


def log(message: str) -> None:
    """A line on stderr."""
    print(f"prepcli: {message}", file=sys.stderr)
