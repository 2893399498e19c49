"""The rows of published tables: counted by columns, and without the quotation marks that a writer of CSV has added."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prepcli.commands.download.data_set import Utterance, lines_of
from prepcli.errors import RejectReason, UsageError, naming
from prepcli.interface.printing import number_of

_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table.

    Attributes:
        where: the place of the row, `file:line`.
        line: the row as it is written.
        values: the values by column; empty for a column that the row does not have.
        problem: why the row cannot be used; empty if it has the columns of the table.
    """

    where: str
    line: str
    values: dict[str, str]
    problem: str

    def __getitem__(self, column: str) -> str:
        """The value of a column without white space around it; empty if the table does not have the column."""
        return self.values.get(column, "").strip()

    def utterance(self, manifest: str, source: str, fields: dict[str, Any]) -> Utterance:
        """Return the utterance of this row; it is a reject with the whole row if the row cannot be used."""
        if not self.problem:
            return Utterance(manifest, source, fields, self.where)
        row, reason = {"row": self.line}, RejectReason.BAD_FIELD
        return Utterance(manifest, source, row, self.where, reason=reason, detail=self.problem)


def rows_of(
    root: Path,
    table: str,
    separator: str,
    columns: Sequence[str] = (),
    needed: Sequence[str] = (),
    is_csv: bool = False,
) -> Iterator[TableRow]:
    """Yield the rows of a table that are not blank. Bytes that are not UTF-8 become U+FFFD.

    Args:
        root: the folder of the corpus.
        table: the path of the table, relative to `root`.
        separator: the text between two columns.
        columns: the names of the columns; if there are none, they are in the first line.
        needed: the columns that the first line must have.
        is_csv: whether some releases of the table were written with the quotation marks of CSV (`unquoted`).

    Raises:
        UsageError: the first line does not have a column of `needed`.
        OSError: the table cannot be read.
    """
    path = root / table
    with naming(path), path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        names = list(columns) or file.readline().rstrip("\r\n").split(separator)
        missing = next((name for name in needed if name not in names), None)
        if missing is not None:
            raise UsageError(f"{path}:1: there is no column {missing}; this is not a table of this corpus")
        empty = dict.fromkeys(names, "")
        for number, text in enumerate(file, start=1 if columns else 2):
            line = text.rstrip("\r\n")
            if line.strip():
                values = line.split(separator)
                problem = column_problem(len(values), len(names))
                by_column = empty | dict(zip(names, map(unquoted, values) if is_csv else values, strict=False))
                yield TableRow(f"{table}:{number}", line, by_column, problem)


def column_problem(number: int, expected: int) -> str:
    """Say that a row has another number of columns than its table; empty if it has the same."""
    if number == expected:
        return ""
    return f"the row has {number_of(number, 'column')}, not {expected}; correct it in the table"


def genders_of(root: Path, table: str) -> dict[str, str]:
    """The gender of each speaker in a table of lines `14 | F | train-clean-360 | …`; titles among them do no harm."""
    rows = ([column.strip() for column in line.split("|")] for _, line in lines_of(root, table))
    return {columns[0]: columns[1] for columns in rows if len(columns) > 1}


def unquoted(field: str) -> str:
    """Return a field without the quotation marks that a writer of CSV puts around it, and in front of those within it.

    A field whose inner marks are not all doubled was not written like that, so that its marks are text.
    """
    quoted = _QUOTED.fullmatch(field) if field.startswith('"') else None
    return field if quoted is None else quoted[1].replace('""', '"')
