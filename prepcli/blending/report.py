"""What `blend` reports: the data sets with their shares."""

from collections.abc import Iterator

import msgspec


class BlendedSet(msgspec.Struct):
    """A data set in the blend.

    `share` is its part of all draws, `share_of_hours` of the hours drawn: NeMo draws record by record, so sets with
    long records give more hours. `seen_per_1000_hours` is how often each of its records comes in 1,000 hours drawn.
    """

    name: str
    type: str
    hours: float
    records: int
    share: float
    share_of_hours: float
    seen_per_1000_hours: float


class BlendReport(msgspec.Struct):
    """The config that was written, and its data sets.

    `status`: done, dry_run or nothing_to_do (the file was there with this content). `checked`: NeMo has read it.
    """

    status: str
    out: str
    hours: float
    records: int
    sets: list[BlendedSet]
    checked: bool = False
    notes: list[str] = []

    def __str__(self) -> str:
        """The table that the command line prints."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        title = {
            "dry_run": f"blend: the plan of {self.out} (nothing is written)",
            "nothing_to_do": f"blend: nothing to do, {self.out} is complete",
        }
        yield title.get(self.status, f"blend: done, {self.out}")
        rows = [("set", "hours", "records", "draws", "of hours", "seen per 1,000 h")]
        for one in self.sets:
            shares = f"{one.share:.2%}", f"{one.share_of_hours:.2%}", _number(one.seen_per_1000_hours)
            rows.append((one.name, f"{one.hours:,.2f}", f"{one.records:,}", *shares))
        rows.append(("all", f"{self.hours:,.2f}", f"{self.records:,}", "100.00%", "100.00%", ""))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            yield "  " + "  ".join([row[0].ljust(widths[0]), *numbers]).rstrip()
        yield from (f"  note  {note}" for note in self.notes)


def _number(value: float) -> str:
    return f"{value:,.1f}" if value >= 1 else f"{value:.3g}"
