"""The figures of a finished run: `report.json`, the summary on screen, and the commands that continue and retry."""

import shlex
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from prepcli.engine.publishing.publish import AccountingError, Marker, read_marker, records_added
from prepcli.engine.publishing.rejects import (
    Budget,
    first_if_all_alike,
    is_asked_for,
    is_bad,
    is_unlisted,
    num_retryable,
)
from prepcli.engine.state.plan import AUDIO_BASE_DIRS, CONVERSATIONS, FINISH_UNIT, AnyPlan
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.errors import RejectReason, option
from prepcli.interface.calls import command_line
from prepcli.interface.printing import as_text, number_of, printable_command
from prepcli.interface.reports import ShownInNotebooks
from prepcli.storage.paths import AnyPath, absolute
from prepcli.version import __version__


class Report(ShownInNotebooks, msgspec.Struct):
    """The result of a run. `records_in` is `records_out` + `rejects`; `skipped` counts records with a true `_skipme`.

    `records_in` of a run that divides records, such as `segment`, counts their parts.

    `status`: done, too_many_rejects, incomplete (units are missing) or nothing_to_do (the run was finished before).
    `seconds` are seconds of audio in the output, `num_bytes` the size of its files. `outputs` are the absolute paths of
    the results, to paste into a training config: each is a text, or a list of texts where NeMo takes only a list;
    `details` are these paths and further facts; `telemetry` names the details with figures about the run. A dry run
    has the status `dry_run` and its plan in `details`.

    `left_out` is the number of rejects that do not count: those that the user's options ask for, such as a duration
    filter, and recordings that no list of a published corpus names. `max_rejects` is the
    limit for the other rejects, in words. `retry_with` is the command that tries rejects again, None if none can be
    retried; `repair_with` that of `repair_command`. `rejects_alike` is the result of `first_if_all_alike`.
    """

    command: str
    status: str
    out: str
    records_in: int = 0
    records_out: int = 0
    rejects: int = 0
    rejects_by_reason: dict[str, int] = {}
    skipped: int = 0
    units: int = 0
    units_done: int = 0
    seconds: float = 0.0
    num_bytes: int = 0
    digest: str = ""
    notes: list[str] = []
    details: dict[str, Any] = {}
    continue_with: str | None = None
    prepcli: str = __version__
    outputs: dict[str, Any] = {}
    rejects_filepath: str = ""
    left_out: int = 0
    max_rejects: str = ""
    retry_with: str | None = None
    repair_with: str | None = None
    rejects_alike: str = ""
    telemetry: list[str] = []

    def __str__(self) -> str:
        """The text that the command line prints: the summary of a run, or its plan.

        For a run without work it is one line, or a short summary if rejects can be tried again.
        """
        if self.status == "dry_run" and "seconds_per_rank" in self.details:
            return as_text(plan_lines(self.details))
        if self.status != "nothing_to_do":
            return as_text(summary_lines(self))
        lines = summary_lines(msgspec.structs.replace(self, details={}, notes=[]))
        return as_text(lines if self.retry_with else lines[:1])

    def __format__(self, spec: str) -> str:
        """The text of `str`; with the spec `verbose`, the longer text for the option `--verbose`."""
        if spec != "verbose" or self.status == "dry_run":
            return str(self)
        return as_text(summary_lines(self, verbose=True))

    def document(self) -> Any:
        """The document for `--json`: this report; for a dry run, only the plan in its `details`."""
        return self.details if self.status == "dry_run" else self

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
    telemetry: Collection[str] = (),
) -> Report:
    """The report of a run, from its plan and the markers of its finished units (by id): their counts are added up.

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
        records_in=plan.records_in + records_added(markers.values()),
        records_out=sum(marker.records_out for marker in markers.values()),
        rejects=rejects.total(),
        rejects_by_reason=dict(sorted(rejects.items())),
        skipped=plan.num_skipped,
        units=len(plan.units),
        units_done=len(markers),
        seconds=round(sum(marker.seconds for marker in markers.values()), 3),
        num_bytes=sum(marker.num_bytes for marker in markers.values()),
        digest=digest,
        notes=[*plan.notes, *sorted({note for marker in markers.values() for note in marker.notes})],
        left_out=sum(count for reason, count in rejects.items() if not is_bad(reason, command)),
        telemetry=list(telemetry),
    )
    if report.status == "done" and report.records_in != report.records_out + report.rejects:
        raise AccountingError(
            f"{report.records_in} records in, but {report.records_out} out and {report.rejects} rejected"
        )
    return report


def paths_in(details: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of `details` that are paths or lists of paths, as texts with absolute paths."""
    found: dict[str, Any] = {}
    for name, value in details.items():
        if isinstance(value, AnyPath):
            found[name] = absolute(value)
        elif isinstance(value, list) and value and all(isinstance(one, AnyPath) for one in value):
            found[name] = [absolute(one) for one in value]
    return found


def finished_report(workspace: Workspace, digest: str, found: OutputFiles | None = None) -> Report | None:
    """The stored report of the finished run whose plan has this digest; None if the run is not finished.

    `found`: as in `read_marker`.
    """
    report = read_document(workspace.report_file, Report)
    merged = read_marker(workspace, FINISH_UNIT, digest, found)
    is_ours = report is not None and report.digest == digest and merged is not None
    return report if is_ours and not workspace.is_begun else None


def set_verdict(report: Report, budget: Budget, settings: Mapping[str, Any], planned: Mapping[str, int]) -> None:
    """Set the status `too_many_rejects` in `report` if its rejects exceed `budget`, and set the fields with advice.

    `settings`: those of the run; `planned`: the rejects of its plan. For an incomplete run, only `max_rejects` and
    `continue_with` are set.
    """
    report.max_rejects = str(budget)
    if report.status == "incomplete":
        report.continue_with = command_line(of_rank=False)  # the share of this rank is done
        return
    if budget.exceeded(report.rejects_by_reason, report.records_in, report.command):
        report.status = "too_many_rejects"
    report.rejects_alike = first_if_all_alike(report.rejects_by_reason, report.rejects_filepath, report.command)
    if num_retryable(report.rejects_by_reason):
        report.retry_with = (
            f"{command_line(of_rank=False)} {retry_flag(planned, report.command)}"  # a launch id is for one launch
        )
    report.repair_with = repair_command(report.command, report.rejects_by_reason, report.rejects_filepath, settings)


def retry_flag(planned: Mapping[str, int], command: str) -> str:
    """The option with which `command` tries rejects again.

    `planned`: the rejects of its plan, by reason. Inputs in which they were found must be read again, which
    `--retry-rejects` does only for published corpora.
    """
    return "--overwrite" if num_retryable(planned) and command.split()[0] != "download" else "--retry-rejects"


def too_many(report: Report, budget: Budget) -> str:
    """The error message for too many rejects, of those that count."""
    bad = report.rejects - report.left_out
    return (
        f"{bad:,} of {number_of(report.records_in, 'record')} {'was' if bad == 1 else 'were'} rejected, more than "
        f"{option('--max-rejects')} allows ({budget}); see {report.rejects_filepath}"
    )


_NOT_TO_FIX = ("fix-durations", "make-manifest", "download", "conversations-to-tarred")
"""Commands that measure audio themselves, or whose rejects `fix-durations` does not read."""
_WRONG_DURATIONS = (RejectReason.BEYOND_AUDIO.value, RejectReason.DURATION_MISMATCH.value)


def summary_lines(report: Report, verbose: bool = False) -> list[str]:
    """The summary for people: a few aligned lines, results first; `verbose` adds figures about the run."""
    rows: list[tuple[str, str]] = []
    if report.units or report.records_in:  # empty if files were only removed
        skipped = f" ({report.skipped:,} more skipped by _skipme)" if report.skipped else ""
        rows = [
            ("records", f"{report.records_out:,} of {report.records_in:,}{skipped}"),
            _size_row(report),
            *reject_rows(report.rejects_by_reason, report.command, report.rejects_filepath),
        ]
    if report.rejects_alike:
        rows.append(("first reject", report.rejects_alike))
    shown = {key: value for key, value in report.details.items() if not isinstance(value, (dict, list))}
    rows += [(key, str(value)) for key, value in shown.items() if key not in report.telemetry]
    rows += [("note", note) for note in report.notes]
    blocks = [(name, text) for name, text in rows if "\n" in text and name not in report.outputs]
    rows = [row for row in rows if row not in blocks]
    if verbose or report.status == "incomplete":
        rows.append(("units", f"{report.units_done:,} of {report.units:,} done"))
    if verbose:
        rows += [(key, str(shown[key])) for key in report.telemetry if key in shown]
    width = max(len(name) for name, _ in rows)
    title = {
        "done": f"{report.command}: done, {report.out}",
        "nothing_to_do": f"{report.command}: nothing to do, {report.out} is complete",
        "too_many_rejects": f"{report.command}: finished with too many rejects, {report.out}",
        "dry_run": f"{report.command}: the plan (nothing is written), {report.out}",
    }.get(report.status, f"{report.command}: not complete yet, {report.out}")
    lines = [title, *(f"  {name:<{width}}  {value}" for name, value in rows)]
    for name, text in blocks:  # YAML, for example, whose lines are pasted unchanged
        lines += [f"  {name}", *(f"    {line}" for line in text.splitlines())]
    if report.retry_with:
        lines.append(retry_line(report.retry_with, report.rejects_by_reason))
    if report.repair_with:
        lines.append(repair_line(report.repair_with))
    if report.continue_with:
        lines.append(f"  continue with: {printable_command(report.continue_with)}")
    return lines


def _size_row(report: Report) -> tuple[str, str]:
    size = f"{format_bytes(report.num_bytes)} written"
    if report.records_out and not report.seconds:  # texts
        return "output", size
    hours = f"{report.seconds / 3600:,.2f} hours"
    return "audio", hours if report.status == "dry_run" else f"{hours}, {size}"


def retry_line(command: str, rejects: Mapping[str, int]) -> str:
    """The summary's line on retrying: the condition, which depends on the reasons of the rejects, then the command."""
    again, total = num_retryable(rejects), sum(count for reason, count in rejects.items() if not is_asked_for(reason))
    if again == rejects.get(RejectReason.OUT_OF_MEMORY.value):
        return f"  when there is more memory, retry with: {printable_command(command)}"
    texts = rejects.get(RejectReason.MISSING_TRANSCRIPT.value, 0)
    what, done = ("transcript", "there") if texts == again else ("audio", "repaired")
    if again == rejects.get(RejectReason.BEYOND_AUDIO.value):  # the segment may be wrong, not the audio
        what, done = "whole audio", "there"
    if 0 < texts < again:
        what, done = "audio or the transcript", "repaired or there"
    of_some = "" if again == total else f" of {again:,} of the {total:,} rejects"
    return f"  when the {what}{of_some} is {done}, retry with: {printable_command(command)}"


def repair_line(command: str) -> str:
    """The line of the summary, and of `status`, on wrong durations."""
    return f"  if durations are wrong, measure them: {printable_command(command)}"


def repair_command(command: str, rejects: Mapping[str, int], listed_in: str, settings: Mapping[str, Any]) -> str | None:
    """The command that measures the durations of rejects; None if no duration is wrong, or it does not help `command`.

    Args:
        command: the command of the run.
        rejects: counts by reason.
        listed_in: the path of the file with the rejects.
        settings: the settings of the run, with the folders from which relative audio paths start.
    """
    is_of_no_use = command.startswith(_NOT_TO_FIX) or settings.get(CONVERSATIONS)
    if is_of_no_use or not any(reason in rejects for reason in _WRONG_DURATIONS):
        return None
    folders = settings.get(AUDIO_BASE_DIRS) or []
    if len(folders) != 1:  # rejects.jsonl mixes paths that start from several folders
        return "prepcli fix-durations MANIFEST FIXED.json"
    return shlex.join(["prepcli", "fix-durations", listed_in, "fixed.json", "--audio-base-dir", folders[0]])


def plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """The lines that show the plan of a dry run (`details` of its report) to people."""
    seconds = plan["seconds_per_rank"]
    costs = seconds or plan["records_per_rank"]
    rejects = reject_rows(plan["rejects_by_reason"], plan["command"])
    if not any(name == "rejects" for name, _ in rejects):
        rejects.append(("rejects", "none so far (the audio is not read yet)"))
    units = number_of(plan["units"], "unit")
    lines = [
        f"{plan['command']}: the plan (nothing is written)",
        f"  records  {plan['records_planned']:,} of {plan['records_in']:,}, {plan['skipped']:,} skipped (_skipme)",
        *(f"  {name:<8} {text}" for name, text in rejects),
        f"  audio    {plan['hours']:,.2f} hours in {units}" if seconds else f"  units    {plan['units']:,}",
        f"  ranks    {plan['world_size']}, {min(costs):,.0f} to {max(costs):,.0f} "
        f"{'s of audio' if seconds else 'records'} each, "
        f"spread (max/mean) {plan['spread_max_over_mean']:.3f}",
    ]
    shares = [f"{share:,.1f} s" if seconds else number_of(share, "record") for share in costs]
    lines += [f"    rank {number}: {share}" for number, share in enumerate(shares if len(shares) > 1 else [])]
    return [*lines, *(f"  note     {note}" for note in plan["notes"])]


def reject_rows(rejects: Mapping[str, int], command: str, listed_in: str = "") -> list[tuple[str, str]]:
    """Rows (name, text) of the summary: records that the user's options left out, unlisted recordings, other rejects.

    A row is left out if it would count no records. `rejects`: counts by reason; `command`: the command of the run;
    `listed_in`: the path of the file with the rejects.
    """
    rows = []
    groups = (
        ("left out", "by your settings ", is_asked_for),
        ("unlisted", "named by no published transcript ", lambda reason: is_unlisted(reason, command)),
        ("rejects", "", lambda reason: is_bad(reason, command)),
    )
    for name, words, belongs in groups:
        found = {reason: count for reason, count in sorted(rejects.items()) if belongs(reason)}
        if total := sum(found.values()):
            where = f", listed in {listed_in}" if listed_in else ""
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.items())
            rows.append((name, f"{total:,} {words}({reasons}){where}"))
    return rows


def format_bytes(count: int) -> str:
    """A number of bytes as text: `1234567` -> `1.2 MB`."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"
