"""The report of `estimate-batch-sizes`: lists to paste into a config, and a table with the steps of each bucket."""

from typing import Any

from prepcli.commands.estimate_bins.text import plain_list
from prepcli.engine.run.report import Report
from prepcli.interface.printing import as_text, printable


class BatchSizesReport(Report):
    """The report of a search. `details` has the bins and batch sizes, and in `buckets` the steps of each bucket."""

    def __str__(self) -> str:
        if self.status == "dry_run":
            return as_text(_plan(self))
        return super().__str__() if self.status == "incomplete" else "\n".join(_lines(self.details))


def _plan(report: BatchSizesReport) -> list[str]:
    """The lines that show the plan of a dry run, in which the model is not loaded."""
    details = report.details
    return [
        "estimate-batch-sizes: the plan (nothing is written)",
        f"  model    {details['model']}",
        f"  buckets  {report.units:,}, from {details['largest_bucket']} to {details['smallest_bucket']}",
        f"  steps    {details['steps']}",
        f"  ranks    {len(details['seconds_per_rank'])}",
    ]


def _lines(details: dict[str, Any]) -> list[str]:
    bins = [plain_list(bound) if isinstance(bound, list) else bound for bound in details["bucket_duration_bins"]]
    unit, divisor = ("GiB", 2**30) if details["limit"] >= 2**30 else ("MiB", 2**20)
    size = f"{details['memory'] / divisor:,.1f} {unit}, of which {details['limit'] / divisor:,.1f} may be used"
    where = "ESTIMATED on a CPU for a GPU" if details["is_estimate"] else f"measured on {details['device']}"
    lines = [
        f"{details['model']}, {where} with {size}.",
        "Use the following options in your config:",
        f"\tbucket_duration_bins={plain_list(bins)}",
        f"\tbucket_batch_size={plain_list(details['bucket_batch_size'])}",
        "For models that turn speech into text, also:",
        f"\tmax_tps={details['max_tps']:g}",
        f"\tmax_duration={details['max_duration']:g}",
        "",
        *(f"Note: {printable(note)}." for note in details["advice"]),
        f"{details['steps']:,} steps; NeMo's OOMptimizer would make {details['steps_of_nemo']:,}.",
    ]
    if "verified_steps" in details:
        lines.append(f"Verified by {details['verified_steps']} steps: largest, smallest, and all in mixed order.")
    has_tokens = any(row["tokens"] is not None for row in details["buckets"])
    lines += ["", f"bucket    up to (s) {'   tokens' * has_tokens}  batch size   memory ({unit})  basis"]
    for number, row in enumerate(details["buckets"]):
        tokens = f"{row['tokens']:9,}" if row["tokens"] is not None else ""
        peak = f"{row['peak'] / divisor:14.3f}" if row["peak"] else f"{'-':>14}"
        lines.append(
            f"{number:6d} {row['duration']:12.3f} {tokens} {'~' if row['is_estimate'] else ' '}{row['batch_size']:10,} "
            f"{peak}  {_basis(row)}"
        )
    return lines


def _basis(row: dict[str, Any]) -> str:
    sizes = ", ".join(str(size) for size, _ in row["measured"])
    if row["is_estimate"]:
        return f"extrapolated from steps of {sizes}"
    failed = ", ".join(f"{size} {outcome.replace('_', ' ')}" for size, outcome in row["failed"])
    return "; ".join(part for part in (f"fit: {sizes}" if sizes else "", failed) if part)
