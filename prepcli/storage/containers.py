"""Names of records in containers, `FILE::MEMBER`, and containers whose records are read as lines of a manifest."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

SEPARATOR = "::"
"""The text between the path of a container and the name of a member in it, or the number of a row, and between this
number and the name of a column."""
_SUFFIXES = r"tar|tar\.gz|tgz|zip|parquet|ark"
_NAME = re.compile(rf"(.+?\.(?:{_SUFFIXES}))::(.+)", re.DOTALL | re.IGNORECASE)
ONE_PASS_SUFFIXES = (".tar.gz", ".tgz")
"""Suffixes of containers that can only be read from their start."""
UNUSABLE = "_unusable"
"""In a line of a catalogue: the field that says why its record cannot be used, as `reason: detail`."""
BEGINNING = "_beginning"
"""In a line of a catalogue: the field with a checksum of the record's audio. No output gets this field.

An input is identified by the hash of its lines. The field makes this hash depend on the audio.
"""
MOVED = "_moved"
"""In a line of a catalogue: the field that is true if an end of the segment was set to a bound of its container
(`prepcli.gate.fit`). No output gets this field."""
MOVED_TEXT = b'"_moved":true'
"""The text of the field `MOVED` in a line."""
SHARD, MEMBER, ROW, COLUMN = ("shard", "member", "row", "column")
"""The fields of a reject that say where its record lies: a container, and a member or a row in it, and the column of
audio if it is not the usual one."""
_ROW = re.compile(rf"([0-9]{{1,18}})(?:{SEPARATOR}(.*))?", re.DOTALL)
_NOT_IN_NAMES = re.compile(r"[%/\x00-\x1f\x7f]")


class Row(NamedTuple):
    """A row of a Parquet file: its number, counted from 0 through the file, and the column with the audio.

    `column` is None for the column that is found by its type and name (`prepcli.formats.parquet_columns`).
    """

    number: int
    column: str | None = None

    def __str__(self) -> str:
        """The row as a member of its file: `ROW`, or `ROW::COLUMN`, without slashes and line breaks (`%2F`, `%0A`)."""
        if self.column is None:
            return str(self.number)
        return f"{self.number}{SEPARATOR}{_NOT_IN_NAMES.sub(lambda char: f'%{ord(char[0]):02X}', self.column)}"


def row_of(member: str) -> Row | None:
    """The row that the member of a Parquet file names, as `str(Row)` writes it; None for another text."""
    match = _ROW.fullmatch(member)
    if match is None or match[2] is None:
        return Row(int(match[1])) if match else None
    from urllib.parse import unquote  # few names have a column

    return Row(int(match[1]), unquote(match[2]))


class Place(NamedTuple):
    """A record in a container: the path of the container, and the name of a member or of a row."""

    path: str
    member: str

    @property
    def row(self) -> Row | None:
        """The row, if the place is one of a Parquet file."""
        return row_of(self.member) if self.path.lower().endswith(".parquet") else None

    def fields(self) -> dict[str, str | int]:
        """The fields of a reject that say where the record lies."""
        shard: dict[str, str | int] = {SHARD: self.path}
        row = self.row
        if row is None:
            return shard | {MEMBER: self.member}
        return shard | {ROW: row.number} | ({} if row.column is None else {COLUMN: row.column})

    @property
    def stem(self) -> str:
        """The name from which names in an output are made: the member's name, or `<name of the container>_<row>`."""
        row = self.row
        if row is None and not self.path.lower().endswith(".ark"):
            return self.member
        file = self.path.rpartition("/")[2]
        return f"{file.rpartition('.')[0]}_{self.member if row is None else row.number}"


@lru_cache(maxsize=64)  # a record's path is looked at several times in a row
def place_of(path: str) -> Place | None:
    """The container and the member that a path names; None for the path of a file.

    Only files with a suffix of a container have members, so that other files may have `::` in their names.
    """
    if SEPARATOR not in path:
        return None
    match = _NAME.fullmatch(path)
    return Place(match[1], match[2]) if match else None


def own_name(path: str) -> str:
    """The text from which names in an output are made: `Place.stem` for a record in a container, else the path."""
    if SEPARATOR not in path:
        return path
    place = place_of(path)
    return path if place is None else place.stem


def name_in(path: str, member: str | Row) -> str:
    """The name `FILE::MEMBER` of a member, or of a row, of the container at `path`."""
    return f"{path}{SEPARATOR}{member}"


class Catalogue(str):
    """The path of a container (or another file of a data set) that is an input in place of a manifest.

    The bytes of the file are not the lines of the manifest: `read` makes the lines.

    Attributes:
        read: function that takes the path and yields the lines with their line ends; it can be pickled.
        others: the other files that the lines depend on, such as the manifest of a shard.
        how: the options that the lines depend on, as a text.
        is_one_pass: whether the members are to be read in their order, because another order is slow or impossible.
        kind: the kind of data set, for messages.
        measures: whether the lines also depend on audio files that are not in `others`, because they are measured.
    """

    read: Callable[[str], Iterator[bytes]]
    others: tuple[str, ...]
    how: str
    is_one_pass: bool
    kind: str
    measures: bool

    def __new__(
        cls,
        path: str,
        read: Callable[[str], Iterator[bytes]] = lambda _: iter(()),
        others: tuple[str, ...] = (),
        how: str = "",
        kind: str = "",
        measures: bool = False,
    ) -> "Catalogue":
        """Make the catalogue of the container at `path`. The other arguments are the attributes of the same names."""
        self = super().__new__(cls, path)
        self.read, self.others, self.how, self.kind, self.measures = read, others, how, kind, measures
        self.is_one_pass = path.lower().endswith(ONE_PASS_SUFFIXES)
        return self
