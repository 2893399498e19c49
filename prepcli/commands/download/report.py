"""The report of `download`, which combines the reports of a corpus's data sets."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from prepcli.engine.run.report import Report, format_bytes
from prepcli.interface.printing import as_text
from prepcli.interface.reports import ShownInNotebooks


@dataclass
class DownloadReport(ShownInNotebooks):
    """The report of a corpus.

    Attributes:
        data_sets: the report of each data set, by name. The properties of this class combine these reports.
    """

    data_sets: dict[str, Report] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """The status of the first data set whose status is neither `done` nor `nothing_to_do`.

        If there is none: `done` if any data set is done, else `nothing_to_do`.
        """
        states = [report.status for report in self.data_sets.values()]
        others = [state for state in states if state not in ("done", "nothing_to_do")]
        return others[0] if others else "done" if "done" in states else "nothing_to_do"

    @property
    def records_in(self) -> int:
        """The total number of records read: utterances, and recordings that no transcript names."""
        return sum(report.records_in for report in self.data_sets.values())

    @property
    def records_out(self) -> int:
        """The total number of records in the manifests."""
        return sum(report.records_out for report in self.data_sets.values())

    @property
    def rejects_by_reason(self) -> dict[str, int]:
        """The total number of rejected records by reason, sorted by reason."""
        counts: Counter[str] = Counter()
        for report in self.data_sets.values():
            counts.update(report.rejects_by_reason)
        return dict(sorted(counts.items()))

    @property
    def seconds(self) -> float:
        """Total seconds of audio in the output."""
        return sum(report.seconds for report in self.data_sets.values())

    @property
    def outputs(self) -> dict[str, str]:
        """The path of each manifest, by its file name without `.json`."""
        return {name: path for report in self.data_sets.values() for name, path in report.outputs.items()}

    def __str__(self) -> str:
        """The text that the command line prints: the summary or the plan of each data set."""
        return format(self, "")

    def __format__(self, spec: str) -> str:
        """The text of `__str__`; with the spec `verbose`, the longer text for the option `--verbose`."""
        return "\n".join(_text(one, spec) for one in self.data_sets.values())

    def document(self) -> Any:
        """The document for `--json`: the document of a single data set, or `{"data_sets": {name: document}}`."""
        documents: dict[str, Any] = {}
        for name, one in self.data_sets.items():
            fetched = {"command": one.command, "status": one.status, "out": one.out}
            documents[name] = fetched if one.status == "fetched" else one.document()
        return next(iter(documents.values())) if len(documents) == 1 else {"data_sets": documents}


def _text(report: Report, spec: str) -> str:
    if report.status == "fetched":
        return as_text([f"{report.command}: unpacked in {report.out}"])
    if "runs" in report.details:
        lines = [f"{report.command}: the plan (nothing is written); records are counted after the recipe"]
        return as_text([*lines, f"  runs     {report.details['runs']}"])
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
