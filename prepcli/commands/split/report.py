"""The report of `split`: the amount in each part next to the requested amount."""

from typing import Any

from prepcli.engine.run.report import Report
from prepcli.interface.printing import aligned, as_text, printable


class SplitReport(Report):
    """The report of `split`; `details["parts"]` has a row per part, with its number of groups."""

    def __str__(self) -> str:
        """The summary of a run, and the table; of a dry run only the table."""
        if self.status == "dry_run":
            return f"split: the plan (nothing is written), {printable(self.out)}\n{table_of(self.details['parts'])}"
        text = super().__str__()
        is_short = self.status == "nothing_to_do" or "parts" not in self.details  # other ranks are still working
        return text if is_short else f"{text}\n{table_of(self.details['parts'])}"

    def __format__(self, spec: str) -> str:
        """The text that `str` gives, whatever the format is."""
        return str(self)


def table_of(parts: list[dict[str, Any]]) -> str:
    """A text table with one row per part: the requested amount, and its records, hours and groups."""
    digits = 2 if sum(part["hours"] for part in parts) >= 1 else 4
    rows = [["part", "asked", "records", "hours", "groups"]]
    rows += [
        [part["part"], part["asked"], f"{part['records']:,}", f"{part['hours']:,.{digits}f}", f"{part['groups']:,}"]
        for part in parts
    ]
    return as_text(f"  {line}" for line in aligned(rows))
