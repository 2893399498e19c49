"""Shows what rules cost: records and hours that each drops, as a table, a page, and values for `--json`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.commands.filter.rules import GROUPS
from prepcli.engine.publishing.side_files import write_side_file
from prepcli.engine.run.report import Report
from prepcli.interface.pages import page, paragraph, table
from prepcli.interface.printing import aligned, as_text, printable

_TOP = 5
"""Maximum number of languages, and of speakers, that a table lists: those that lose the most hours."""
_MAX_TEXT = 60
_STYLE = """\
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
table { border-collapse: collapse; }
.wide { overflow-x: auto; }
th, td { text-align: right; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #e4e7eb; }
th:first-child, td:first-child { text-align: left; min-width: 14rem; overflow-wrap: anywhere; }
"""


class FilterReport(Report):
    """The report of `filter`: `details["rules"]` has what each rule drops.

    Its text has that as a table. The command line has shown the table before the work, and prints the rest.
    """

    def __str__(self) -> str:
        text = self._text()
        return f"{text}\n{table_of(self.details, ())}" if self.status == "done" and self.details.get("rules") else text

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else self._text()

    def _text(self) -> str:
        if self.status == "done" and "marked" in self.details:
            notes = [f"  note    {note}" for note in self.notes]
            return as_text([f"filter: done, {printable(self.out)}", f"  marked  {self.details['marked']}", *notes])
        if self.status != "dry_run":
            return super().__str__()
        return f"filter: the plan (nothing is written), {printable(self.out)}\n{table_of(self.details, self.notes)}"


class RuleTally:
    """Adds up what rules drop.

    Attributes:
        alone: for each rule the records, and the seconds, that it drops if it is the only one; shape (2, rules).
        last: for each rule the records, and the seconds, that it drops and all other rules keep; shape (2, rules).
    """

    def __init__(self, num_rules: int) -> None:
        self._bits = [np.uint64(1 << bit) for bit in range(num_rules)]
        self.alone, self.last = np.zeros((2, num_rules)), np.zeros((2, num_rules))
        self._all, self._dropped = np.zeros(2), np.zeros(2)
        self._names: list[dict[str, int]] = [{} for _ in GROUPS]
        self._sums = [np.zeros((4 + 2 * num_rules, 0)) for _ in GROUPS]

    def add(
        self,
        drops: NDArray[np.uint64],
        duration: NDArray[np.float64],
        groups: Sequence[Sequence[str]],
        group_of: NDArray[np.int32],
    ) -> None:
        """Add the records of a part.

        Args:
            drops: for each record a bit per rule that drops it.
            duration: for each record, its seconds.
            groups: the languages and the speakers in the part, as in `Collected`.
            group_of: for each record, the numbers of its language and of its speaker, as in `Collected`.
        """
        is_dropped = drops != 0
        self._all += _sums(np.ones(len(drops), bool), duration)
        self._dropped += _sums(is_dropped, duration)
        for number, bit in enumerate(self._bits):
            self.alone[:, number] += _sums((drops & bit) != 0, duration)
            self.last[:, number] += _sums(drops == bit, duration)
        for number, names in enumerate(groups):
            known = self._names[number]
            at = np.array([known.setdefault(name, len(known)) for name in names], np.int64)
            sums = self._sums[number]
            if len(known) > sums.shape[1]:  # space for twice as many, because `known` grows with each part
                sums = self._sums[number] = np.pad(sums, ((0, 0), (0, 2 * len(known) - sums.shape[1])))
            here = group_of[number]
            there = here >= 0
            of_rules = ((drops & bit) != 0 for bit in self._bits)
            for row, which in enumerate([there, is_dropped & there, *(dropped & there for dropped in of_rules)]):
                selected = np.flatnonzero(which)
                of_name = here[selected]
                sums[2 * row, at] += np.bincount(of_name, minlength=len(names))
                sums[2 * row + 1, at] += np.bincount(of_name, duration[selected], len(names))

    @property
    def num_kept(self) -> int:
        """The number of records that no rule drops."""
        return int(self._all[0] - self._dropped[0])

    def facts(self, rules: Sequence[str]) -> dict[str, Any]:
        """The records and hours that rules drop, for the report; `rules`: the text of each rule, in order."""
        rows = [
            {"rule": rule, "alone": _amount(self.alone[:, n]), "last": _amount(self.last[:, n])}
            for n, rule in enumerate(rules)
        ]
        facts: dict[str, Any] = {"rules": rows, "together": _amount(self._dropped), "of": _amount(self._all)}
        for number, name in enumerate(GROUPS):
            facts[name] = [
                {
                    "name": one,
                    "of": _amount(sums[:2]),
                    "together": _amount(sums[2:4]),
                    "alone": [_amount(sums[row : row + 2]) for row in range(4, len(sums), 2)],
                }
                for one, sums in self._most_dropped(number)
            ]
        return facts

    def _most_dropped(self, number: int) -> list[tuple[str, NDArray[np.float64]]]:
        names, sums = list(self._names[number]), self._sums[number]
        order = np.lexsort((-sums[1, : len(names)], -sums[3, : len(names)]))[:_TOP]
        return [(names[at], sums[:, at]) for at in order.tolist() if sums[2, at]]


def _sums(which: NDArray[np.bool_], duration: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([np.count_nonzero(which), duration[which].sum()])


def _amount(sums: NDArray[np.float64]) -> dict[str, Any]:
    return {"records": int(sums[0]), "hours": round(float(sums[1]) / 3600, 4)}


def _tables(facts: dict[str, Any], is_wide: bool = False) -> list[tuple[str, list[list[str]]]]:
    """The tables of the report, each with a title; the first row of a table is its heading.

    `is_wide`: adds, per language and speaker, the hours that each rule drops alone, if there are several rules.
    """
    of, together = facts["of"], facts["together"]
    heading = ["drops", "alone: records", "hours", "last: records", "hours"]
    rules = [[_short(one["rule"]), *_cells(one["alone"]), *_cells(one["last"])] for one in facts["rules"]]
    rules.append(["all together", *_cells(together), "", ""])
    kept = {"records": of["records"] - together["records"], "hours": of["hours"] - together["hours"]}
    rules.append(["kept", *_cells(kept), "", ""])
    tables = [("Rules", [heading, *rules])]
    for name in GROUPS:
        rows = [[_short(one["name"]), *_cells(one["of"]), *_cells(one["together"])] for one in facts[name]]
        heading = [name, "records", "hours", "dropped: records", "hours"]
        if is_wide and len(facts["rules"]) > 1:
            heading += [f"{_short(one['rule'])}: hours" for one in facts["rules"]]
            for row, one in zip(rows, facts[name], strict=True):
                row += [_cells(amount)[1] for amount in one["alone"]]
        if rows and facts["rules"]:
            tables.append((f"By {name}", [heading, *rows]))
    return tables


def _cells(amount: dict[str, Any]) -> list[str]:
    digits = 2 if amount["hours"] >= 1 else 4
    return [f"{amount['records']:,}", f"{amount['hours']:,.{digits}f}"]


def _short(text: str) -> str:
    text = printable(" ".join(text.split()))
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


def table_of(facts: dict[str, Any], notes: Sequence[str]) -> str:
    """The records and hours that the rules drop, and the notes, as text with one line per row."""
    lines = [line for _, rows in _tables(facts) for line in aligned(rows)]
    return as_text(f"  {line}" for line in (*lines, *(f"note  {note}" for note in notes)))


def write_page(facts: dict[str, Any], notes: Sequence[str], title: str, path: Path) -> None:
    """Write the tables and the notes as an HTML page; raises `UsageError` if the file cannot be written."""
    tables = [
        f'<h2>{name}</h2><div class="wide">{table(heading, rows)}</div>'
        for name, (heading, *rows) in _tables(facts, is_wide=True)
    ]
    write_side_file(path, page(title, "".join([*tables, *map(paragraph, notes)]), _STYLE))
