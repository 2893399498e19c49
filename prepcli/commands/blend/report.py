"""The report of `blend`: the data sets with their shares."""

from collections.abc import Iterator

import msgspec

from prepcli.interface.printing import as_text


class BlendedSet(msgspec.Struct):
    """A data set in the blend, or a group of them.

    `weight` is its weight in its group, where all add up to 1. `share` is its part of all draws, the product of the
    weights of its levels, and `share_of_hours` its part of the hours drawn: NeMo draws record by record, so sets with
    long records give more hours. `seen_per_1000_hours` is how often each of its records comes in 1,000 hours drawn, of
    a group on average.
    """

    name: str
    type: str
    hours: float
    records: int
    share: float
    share_of_hours: float
    seen_per_1000_hours: float
    weight: float


class BlendReport(msgspec.Struct):
    """The config that was written, its data sets, and the groups that they are in.

    `status`: done, dry_run or nothing_to_do (the file was there with this content). `checked`: NeMo has read it.
    """

    status: str
    out: str
    hours: float
    records: int
    sets: list[BlendedSet]
    checked: bool = False
    notes: list[str] = []
    groups: list[BlendedSet] = []

    def __str__(self) -> str:
        """The table that the command line prints; one line if there was nothing to do."""
        lines = list(self._lines())
        return as_text(lines[:1] if self.status == "nothing_to_do" else lines)

    def _lines(self) -> Iterator[str]:
        title = {
            "dry_run": f"blend: the plan of {self.out} (nothing is written)",
            "nothing_to_do": f"blend: nothing to do, {self.out} is complete",
        }
        yield title.get(self.status, f"blend: done, {self.out}")
        rows = [("set", "hours", "records", "weight", "draws", "of hours", "seen per 1,000 h")]
        for name, one in self._in_order():
            shares = f"{one.share:.2%}", f"{one.share_of_hours:.2%}", _number(one.seen_per_1000_hours)
            rows.append((name, f"{one.hours:,.2f}", f"{one.records:,}", f"{one.weight:.4g}", *shares))
        rows.append(("all", f"{self.hours:,.2f}", f"{self.records:,}", "", "100.00%", "100.00%", ""))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            yield "  " + "  ".join([row[0].ljust(widths[0]), *numbers]).rstrip()
        yield from (f"  note  {note}" for note in self.notes)

    def _in_order(self) -> Iterator[tuple[str, BlendedSet]]:
        """The data sets, and each group before its first one, with a slash after its name."""
        groups = {group.name: group for group in self.groups}
        for one in self.sets:
            parts = one.name.split("/")
            for depth in range(1, len(parts)):
                group = groups.pop("/".join(parts[:depth]), None)
                if group is not None:
                    yield f"{group.name}/", group
            yield one.name, one


def _number(value: float) -> str:
    return f"{value:,.1f}" if value >= 1 else f"{value:.3g}"
