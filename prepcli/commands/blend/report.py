"""The report of `blend`: the table of the data sets."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from prepcli.commands.blend.nodes import Node
from prepcli.interface.printing import aligned, as_text
from prepcli.interface.reports import ShownInNotebooks


class BlendedSet(msgspec.Struct):
    """A data set in the blend, or a group of them.

    `weight`: its weight in its group; the weights of a group add up to 1. `share`: its share of the records that are
    drawn; for NeMo, the product of the weights of its levels. `share_of_hours`: its share of the hours that are drawn;
    NeMo draws record by record, so sets with long records give more hours. `seen_per_1000_hours`: how often each of its
    records is drawn in 1,000 hours; for a group, the mean.
    """

    name: str
    type: str
    hours: float
    records: int
    share: float
    share_of_hours: float
    seen_per_1000_hours: float
    weight: float


class BlendReport(ShownInNotebooks, msgspec.Struct):
    """The config that was written, its data sets, and the groups that they are in.

    `status`: done, dry_run or nothing_to_do (the file already had this content). `checked`: the sets
    have been checked.
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
        for name, row in self._in_order():
            shares = f"{row.share:.2%}", f"{row.share_of_hours:.2%}", _number(row.seen_per_1000_hours)
            rows.append((name, f"{row.hours:,.2f}", f"{row.records:,}", f"{row.weight:.4g}", *shares))
        rows.append(("all", f"{self.hours:,.2f}", f"{self.records:,}", "", "100.00%", "100.00%", ""))
        yield from (f"  {line}" for line in aligned(rows))
        yield from (f"  note  {note}" for note in self.notes)

    def _in_order(self) -> Iterator[tuple[str, BlendedSet]]:
        """The data sets with their names; each group, named with a slash, precedes its first data set."""
        groups = {group.name: group for group in self.groups}
        for part in self.sets:
            parts = part.name.split("/")
            for depth in range(1, len(parts)):
                group = groups.pop("/".join(parts[:depth]), None)
                if group is not None:
                    yield f"{group.name}/", group
            yield part.name, part


def _number(value: float) -> str:
    return f"{value:,.1f}" if value >= 1 else f"{value:.3g}"


def report_of(out: Path, root: Node, draws: Sequence[float], notes: list[str]) -> BlendReport:
    """The report with all rows of its table; `draws`: for each data set, its share of the utterances, from 0 to 1."""
    leaves = [(name, leaf) for name, leaf, _ in root.leaves()]
    hours = [share * leaf.seconds / leaf.records for (_, leaf), share in zip(leaves, draws, strict=True)]
    sets = [
        _row(name, leaf, share, of_hours / sum(hours))
        for (name, leaf), share, of_hours in zip(leaves, draws, hours, strict=True)
    ]
    groups = []
    for name, group, _ in root.below():
        if group.children:
            within = [part for part in sets if part.name.startswith(f"{name}/")]
            groups.append(
                _row(name, group, sum(part.share for part in within), sum(part.share_of_hours for part in within))
            )
    total = round(root.seconds / 3600, 4)
    return BlendReport("done", str(out), total, root.records, sets, notes=notes, groups=groups)


def _row(name: str, node: Node, share: float, of_hours: float) -> BlendedSet:
    hours = node.seconds / 3600
    shares = round(share, 6), round(of_hours, 6), 1000 * of_hours / hours
    return BlendedSet(name, node.entry["type"], round(hours, 4), node.records, *shares, round(node.weight, 6))
