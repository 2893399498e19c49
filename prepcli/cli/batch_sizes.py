"""The output of `estimate-batch-sizes`: lists to paste into a config, and what they are based on."""

from typing import TYPE_CHECKING, Any

import typer

from prepcli.cli.bins import plain_list
from prepcli.cli.output import print_json, print_lines, show_report
from prepcli.display.printing import printable

if TYPE_CHECKING:
    from prepcli.batch_sizes.options import EstimateBatchSizes
    from prepcli.engine.report import Report


def show_batch_sizes(options: "EstimateBatchSizes", report: "Report") -> None:
    """Print the lists and the table, a plan, or JSON."""
    if options.as_json:
        print_json(report.details if report.status == "dry_run" else report)
    elif report.status == "dry_run":
        print_lines(_plan(options, report))
    elif report.status == "incomplete":
        show_report(options, report)
    else:
        typer.echo("\n".join(_lines(report.details)))


def _plan(options: "EstimateBatchSizes", report: "Report") -> list[str]:
    """What would be tried; the model's file, name or config was checked, and it was not loaded."""
    from prepcli.batch_sizes.buckets import given_bounds, shown

    bounds = given_bounds(options.buckets, options.buckets_from)
    steps = (
        "batches of 2 and 3 of each bucket, whose bytes are counted on the CPU"
        if options.is_estimate
        else f"on {options.device}, from a batch of {options.start_batch_size:,} in the longest bucket"
    )
    return [
        "estimate-batch-sizes: the plan (nothing is written)",
        f"  model    {printable(options.model or f'{options.model_class} of {options.config}')}",
        f"  buckets  {report.units:,}, from {shown(bounds[-1])} to {shown(bounds[0])}",
        f"  steps    {steps}",
        f"  ranks    {len(report.details['seconds_per_rank'])}",
    ]


def _lines(details: dict[str, Any]) -> list[str]:
    bins = [plain_list(one) if isinstance(one, list) else one for one in details["bucket_duration_bins"]]
    unit, divisor = ("GiB", 2**30) if details["limit"] >= 2**30 else ("MiB", 2**20)
    size = f"{details['memory'] / divisor:,.1f} {unit}, of which {details['limit'] / divisor:,.1f} may be used"
    where = "ESTIMATED on a CPU for a GPU" if details["is_estimate"] else f"measured on {details['device']}"
    lines = [
        f"{details['model']}, {where} with {size}.",
        "Use the following options in your config:",
        f"\tbucket_duration_bins={plain_list(bins)}",
        f"\tbucket_batch_size={plain_list(details['bucket_batch_size'])}",
        "",
        *(f"Note: {printable(note)}." for note in details["advice"]),
        f"{details['steps']:,} steps; NeMo's OOMptimizer would make {details['steps_of_nemo']:,}.",
    ]
    if "verified_steps" in details:
        lines.append(f"Verified by {details['verified_steps']} steps: largest, smallest, and all in mixed order.")
    lines += ["", f"bucket    up to (s) {'   tokens' * _has_tokens(details)}  batch size   memory ({unit})  basis"]
    for number, row in enumerate(details["buckets"]):
        tokens = f"{row['tokens']:9,}" if row["tokens"] is not None else ""
        peak = f"{row['peak'] / divisor:14.3f}" if row["peak"] else f"{'-':>14}"
        lines.append(
            f"{number:6d} {row['duration']:12.3f} {tokens} {'~' if row['is_estimate'] else ' '}{row['batch_size']:10,} "
            f"{peak}  {_basis(row)}"
        )
    return lines


def _has_tokens(details: dict[str, Any]) -> bool:
    return any(row["tokens"] is not None for row in details["buckets"])


def _basis(row: dict[str, Any]) -> str:
    sizes = ", ".join(str(size) for size, _ in row["measured"])
    if row["is_estimate"]:
        return f"extrapolated from steps of {sizes}"
    failed = ", ".join(f"{size} {outcome.replace('_', ' ')}" for size, outcome in row["failed"])
    return "; ".join(part for part in (f"fit: {sizes}" if sizes else "", failed) if part)
