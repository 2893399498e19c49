"""The columns of the Parquet files of `manifest-to-parquet`, chosen from the fields of all records."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from prepcli.errors import RecordRejected
from prepcli.formats.parquet import ColumnType
from prepcli.manifest.fields import REJECT_FIELDS, decode_value, parse_fields
from prepcli.manifest.record import Record
from prepcli.manifest.scan import Range, lines_of, ranges_of, workers_for
from prepcli.manifest.sources import check_file
from prepcli.processes.pools import map_in_order
from prepcli.storage.paths import size_of

# Fields that other columns hold (the audio, and its place in the file), and marks of the manifest itself.
_NOT_COLUMNS = frozenset({"audio_filepath", "offset", "_skipme", *REJECT_FIELDS})
_RENAMED = {"id": "source_id", "audio": "source_audio"}
"""The columns of fields whose names are taken, because prepcli has columns `id` and `audio` of its own."""
OFFSET = "source_audio_offset"
_FIRST: dict[str, ColumnType] = {"duration": "float64", "text": "string"}
_MAX_INTEGER = 2**63
_MAX_IN_FLOAT = 2**53
"""All integers up to this value are exact in a column of floats."""

_NUMBERS = frozenset({"int", "wide", "long", "float"})

_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(dict[str, Any])

Shapes = dict[tuple[str, str], None]
"""Pairs of a field and the name of a type of its values, in the order of their first appearance."""


@dataclass(frozen=True, slots=True)
class FieldColumns:
    """The columns besides `id` and `audio`.

    Attributes:
        types: the type of each column.
        fields: the manifest field that each column holds.
        long: the text columns that hold only numbers, because no column of numbers could hold all of them exactly.
    """

    types: dict[str, ColumnType]
    fields: dict[str, str]
    long: tuple[str, ...] = ()

    def values(self, record: Record) -> dict[str, Any]:
        """The values of a record, by column."""
        values: dict[str, Any] = {OFFSET: record.offset} if OFFSET in self.types else {}
        for column, name in self.fields.items():
            raw = record.fields.get(name)
            if raw is not None:
                values[column] = _converted(raw, self.types[column])
        return values

    def notes(self) -> list[str]:
        """Sentences on columns that are text though the fields hold numbers."""
        why = "is text: it holds integers that neither int64 nor float64 can hold exactly"
        return [f"the column {column} {why}" for column in self.long]


def columns_of(manifests: Sequence[str], num_workers: int) -> FieldColumns:
    """Choose the columns from all fields of all lines of the manifests."""
    files = [(path, size_of(check_file(path))) for path in manifests]
    tasks = [part for path, size in files for part in ranges_of(path, size)]
    shapes: Shapes = {}
    for some in map_in_order(_shapes_of, tasks, workers_for(files, num_workers)):
        shapes |= some
    return choose_columns(shapes)


def _converted(raw: msgspec.Raw, kind: ColumnType) -> Any:
    value = decode_value(raw)
    if value is None or kind == "bool":
        return value
    if kind == "string":
        return value if isinstance(value, str) else bytes(raw).decode("utf-8")
    return float(value) if kind == "float64" else value


def choose_columns(shapes: Iterable[tuple[str, str]]) -> FieldColumns:
    """Choose the name and the type of the Parquet column for each field of the manifests.

    `shapes`: pairs of a field and the name of a type that its values have, as in `Shapes`.
    """
    kinds: dict[str, set[str]] = {}
    for name, kind in shapes:
        kinds.setdefault(name, set()).add(kind)
    types = dict(_FIRST)
    fields = {name: name for name in types}
    long: list[str] = []
    if "offset" in kinds:
        types[OFFSET] = "float64"
    for name, own in kinds.items():
        if name in _NOT_COLUMNS or name in _FIRST:
            continue
        column = _RENAMED.get(name, name)
        while column in types:
            column = f"source_{column}"
        own.discard("NoneType")
        types[column], fields[column] = _type_for(own), name
        if types[column] == "string" and own and own <= _NUMBERS:
            long.append(column)
    return FieldColumns(types, fields, tuple(long))


def _type_for(kinds: set[str]) -> ColumnType:
    if kinds == {"bool"}:
        return "bool"
    if kinds and kinds <= {"int", "wide"}:
        return "int64"
    if kinds and kinds <= {"int", "float"}:
        return "float64"
    return "string"


def _shapes_of(part: Range) -> Shapes:
    shapes: Shapes = {}
    seen: set[tuple[Any, ...]] = set()
    for line in lines_of(part):
        fields = _fields(line) if line.strip() else None
        if fields is None:
            continue
        shape = (*fields, *map(type, fields.values()))
        if shape in seen and int not in shape:
            continue
        seen.add(shape)
        shapes |= {(name, _kind(value)): None for name, value in fields.items()}
    return shapes


def _kind(value: Any) -> str:
    """The name of the type of a value; integers are `int`, `wide` (inexact as a float) or `long` (beyond int64)."""
    if type(value) is not int or -_MAX_IN_FLOAT <= value <= _MAX_IN_FLOAT:
        return type(value).__name__
    return "wide" if -_MAX_INTEGER <= value < _MAX_INTEGER else "long"


def _fields(line: bytes) -> Mapping[str, Any] | None:
    """The fields of a manifest line with their values; None for a line that will be rejected."""
    try:
        fields: dict[str, Any] = _decoder.decode(line)
        return fields
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return {name: decode_value(raw) for name, raw in parse_fields(line).items()}
    except RecordRejected:
        return None
