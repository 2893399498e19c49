"""The end of a run in figures: `report.json`, the summary on screen, and the command that continues."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from prepcli.engine.plan import AnyPlan
from prepcli.engine.publish import AccountingError, Marker
from prepcli.printing import printable_command
from prepcli.version import __version__


class Report(msgspec.Struct):
    """What a run did. `records_in` = `records_out` + `rejects`, checked; `skipped` had a true `_skipme`.

    `status`: done, too_many_rejects, incomplete (units are missing) or nothing_to_do (it was finished before).
    `seconds` are seconds of audio in the output, `num_bytes` the size of its files. `outputs` are the paths of what was
    made, as they can be pasted into a training config; `details` are those and further facts. A dry run has the status
    `dry_run` and its plan in `details`.
    """

    command: str
    status: str
    out: str
    records_in: int
    records_out: int
    rejects: int
    rejects_by_reason: dict[str, int]
    skipped: int
    units: int
    units_done: int
    seconds: float
    num_bytes: int
    digest: str
    notes: list[str] = []
    details: dict[str, Any] = {}
    continue_with: str | None = None
    prepcli: str = __version__
    outputs: dict[str, str] = {}
    rejects_filepath: str = ""

    def __str__(self) -> str:
        """The summary that the command line prints."""
        return "\n".join(summary_lines(self))

    def __repr__(self) -> str:
        """One line for notebooks and logs."""
        return (
            f"Report({self.command!r}, {self.status!r}, out={self.out!r}, records_in={self.records_in}, "
            f"records_out={self.records_out}, rejects_by_reason={self.rejects_by_reason}, "
            f"seconds={self.seconds}, outputs={self.outputs})"
        )


def build_report(
    command: str,
    out: str,
    digest: str,
    plan: AnyPlan,
    markers: Mapping[str, Marker],
) -> Report:
    """Add up the plan's own rejects and the markers of the units that are done.

    Raises:
        AccountingError: all units are done, but records in are not records out + rejects.
    """
    rejects = Counter(plan.planned_rejects)
    for marker in markers.values():
        rejects.update(marker.rejects)
    report = Report(
        command=command,
        status="done" if len(markers) == len(plan.units) else "incomplete",
        out=out,
        records_in=plan.records_in,
        records_out=sum(marker.records_out for marker in markers.values()),
        rejects=rejects.total(),
        rejects_by_reason=dict(sorted(rejects.items())),
        skipped=plan.num_skipped,
        units=len(plan.units),
        units_done=len(markers),
        seconds=round(sum(marker.seconds for marker in markers.values()), 3),
        num_bytes=sum(file.num_bytes for marker in markers.values() for file in marker.files.values()),
        digest=digest,
        notes=list(plan.notes),
    )
    if report.status == "done" and report.records_in != report.records_out + report.rejects:
        raise AccountingError(
            f"{report.records_in} records in, but {report.records_out} out and {report.rejects} rejected"
        )
    return report


def summary_lines(report: Report) -> list[str]:
    """The summary for people: a few aligned lines."""
    rows: list[tuple[str, str]] = [
        ("records", f"{report.records_out:,} of {report.records_in:,}" + _skipped(report.skipped)),
        ("audio", f"{report.seconds / 3600:,.2f} hours, {format_bytes(report.num_bytes)} written"),
        ("units", f"{report.units_done:,} of {report.units:,} done"),
    ]
    if report.rejects:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(report.rejects_by_reason.items()))
        rows.append(("rejects", f"{report.rejects:,} ({reasons}), listed in {report.rejects_filepath}"))
    rows += [(key, str(value)) for key, value in report.details.items() if not isinstance(value, (dict, list))]
    rows += [("note", note) for note in report.notes]
    width = max(len(name) for name, _ in rows)
    title = {
        "done": f"{report.command}: done, {report.out}",
        "nothing_to_do": f"{report.command}: nothing to do, {report.out} is complete",
        "too_many_rejects": f"{report.command}: finished with too many rejects, {report.out}",
    }.get(report.status, f"{report.command}: not complete yet, {report.out}")
    lines = [title, *(f"  {name:<{width}}  {value}" for name, value in rows)]
    if report.continue_with:
        lines.append(f"  continue with: {printable_command(report.continue_with)}")
    return lines


def _skipped(count: int) -> str:
    return f" ({count:,} more skipped by _skipme)" if count else ""


def format_bytes(count: int) -> str:
    """`1234567` -> `1.2 MB`."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"
