"""Preparing the data sets of a corpus one after the other: fetching, unpacking, converting; one report for all."""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prepcli.commands.download.data_set import DataSet
from prepcli.commands.download.job import CorpusJob, workspace_of
from prepcli.commands.download.options import FetchOptions
from prepcli.commands.download.prepare import (
    Fetching,
    check_given,
    ensure_index,
    ensure_unpacked,
    has_audio_come_back,
    is_ready,
    note_scarce_space,
    plan_fetching,
)
from prepcli.engine.run.dry_run import dry_run_report
from prepcli.engine.run.options import JobOptions
from prepcli.engine.run.report import Report, format_bytes
from prepcli.engine.run.run import RunOptions, run_job
from prepcli.engine.run.run_command import with_continuation
from prepcli.errors import IncompleteError, TooManyRejectsError, UsageError
from prepcli.interface.printing import as_text
from prepcli.processes.signals import stop_on_signals


@dataclass
class DownloadReport:
    """The report of a corpus.

    Attributes:
        data_sets: the report of each data set by its name; the properties add them up.
    """

    data_sets: dict[str, Report] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """The status of all data sets, or of the first that is not done."""
        states = [report.status for report in self.data_sets.values()]
        return next((state for state in states if state not in ("done", "nothing_to_do")), states[-1])

    @property
    def records_in(self) -> int:
        """Utterances of the transcripts."""
        return sum(report.records_in for report in self.data_sets.values())

    @property
    def records_out(self) -> int:
        """Records in the manifests."""
        return sum(report.records_out for report in self.data_sets.values())

    @property
    def rejects_by_reason(self) -> dict[str, int]:
        """The number of rejected records by reason."""
        counts: Counter[str] = Counter()
        for report in self.data_sets.values():
            counts.update(report.rejects_by_reason)
        return dict(sorted(counts.items()))

    @property
    def seconds(self) -> float:
        """Seconds of audio in the output."""
        return sum(report.seconds for report in self.data_sets.values())

    @property
    def outputs(self) -> dict[str, str]:
        """The manifests by their names without `.json`."""
        return {name: path for report in self.data_sets.values() for name, path in report.outputs.items()}

    def __str__(self) -> str:
        """The text that the command line prints: the summary or the plan of each data set."""
        return format(self, "")

    def __format__(self, spec: str) -> str:
        """The text; with the spec `verbose` the one that the option `--verbose` prints."""
        return "\n".join(_text(one, spec) for one in self.data_sets.values())

    def document(self) -> Any:
        """The document for `--json`: that of the only data set, or of all by name."""
        documents = {name: _document(one) for name, one in self.data_sets.items()}
        return next(iter(documents.values())) if len(documents) == 1 else {"data_sets": documents}


def _document(report: Report) -> Any:
    if report.status == "fetched":
        return {"command": report.command, "status": report.status, "out": report.out}
    return report.document()


def _text(report: Report, spec: str) -> str:
    if report.status == "fetched":
        return as_text([f"{report.command}: unpacked in {report.out}"])
    if "fetch" not in report.details:
        return format(report, spec)
    archive = report.details["fetch"]
    size = format_bytes(archive["num_bytes"]) if archive["num_bytes"] else "unknown size"
    there = f", {format_bytes(archive['num_bytes_there'])} there" if archive["num_bytes_there"] else ""
    known = archive["checksum"] or "no checksum published"
    lines = [
        f"{report.command}: the plan (nothing is written); records are counted after unpacking",
        f"  fetch    {archive['from']} ({size}{there}), {known}",
    ]
    return as_text(lines)


def prepare_data_sets(
    data_sets: Sequence[DataSet], data_root: Path, fetch: FetchOptions, options: JobOptions
) -> DownloadReport:
    """Prepare each data set, or plan it.

    Raises:
        TooManyRejectsError: some data sets have too many rejects; the others are prepared too.
        PrepcliError: errors of fetching and of the engine.
    """
    engine = options.engine()
    if fetch.extracted is not None:
        data_sets = [one.extracted(fetch.extracted, data_root) for one in data_sets]
    fetching = fetch.fetching(engine)
    check_given(data_sets, data_root, fetching)
    if options.dry_run:
        plans = {data_set.name: _plan(data_set, data_root, fetching, engine) for data_set in data_sets}
        return DownloadReport(plans)
    alone = engine.rank.world_size == 1
    waiting = [one.name for one in data_sets if not is_ready(one, data_root)]
    if waiting and not alone:
        raise UsageError(
            f"{', '.join(waiting)}: one process must fetch and unpack them first. Run the same command once without "
            "ranks and with --fetch-only, then this one"
        )
    if alone:
        note_scarce_space(data_sets, data_root, fetching)
    report = DownloadReport()
    for data_set in data_sets:
        try:
            with stop_on_signals():  # also between fetching and converting, which listen for themselves
                if alone:
                    ensure_unpacked(data_set, data_root, fetching)
                report.data_sets[data_set.name] = _convert(data_set, data_root, fetch.fetch_only, engine)
        except IncompleteError as error:
            raise with_continuation(error, data_set.command, workspace_of(data_set, data_root)) from None
    problems = list(_too_many(report, engine))
    if problems:
        raise TooManyRejectsError("; ".join(problems), report)
    return report


def _convert(data_set: DataSet, data_root: Path, fetch_only: bool, engine: RunOptions) -> Report:
    if fetch_only:
        return _bare_report(data_set, data_root, "fetched", {})
    workspace = workspace_of(data_set, data_root)
    if engine.retry_rejects and has_audio_come_back(data_set, data_root):
        engine = replace(engine, overwrite=True)  # of a corpus on the disk, which only has manifests
    index = ensure_index(data_set, data_root, workspace.root, replace=engine.overwrite)
    return run_job(CorpusJob(data_set, data_root, index), workspace, engine)


def _too_many(report: DownloadReport, engine: RunOptions) -> Iterator[str]:
    for one in report.data_sets.values():
        if one.status == "too_many_rejects":
            yield (
                f"{one.rejects:,} of {one.records_in:,} records were rejected, more than --max-rejects allows "
                f"({engine.budget}); see {one.rejects_filepath}"
            )


def _plan(data_set: DataSet, data_root: Path, fetching: Fetching, engine: RunOptions) -> Report:
    """Return the plan of converting, or of fetching where the data set is not unpacked yet."""
    if not is_ready(data_set, data_root):
        archive = plan_fetching(data_set, data_root, fetching)
        plan = {"command": data_set.command, "status": "dry_run", "fetch": archive}
        return _bare_report(data_set, data_root, "dry_run", plan)
    with tempfile.TemporaryDirectory(prefix="prepcli-") as scratch:
        job = CorpusJob(data_set, data_root, ensure_index(data_set, data_root, Path(scratch)))
        return dry_run_report(job, data_root, engine.rank)


def _bare_report(data_set: DataSet, data_root: Path, status: str, details: dict[str, Any]) -> Report:
    """Return the report of a data set whose records are not known yet."""
    return Report(
        command=data_set.command,
        status=status,
        out=str(data_root),
        records_in=0,
        records_out=0,
        rejects=0,
        rejects_by_reason={},
        skipped=0,
        units=0,
        units_done=0,
        seconds=0.0,
        num_bytes=0,
        digest="",
        details=details,
    )
