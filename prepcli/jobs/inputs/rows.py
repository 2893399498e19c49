"""Parquet files as inputs: each row is a record, and its audio, which is in the row, has the name `FILE::ROW`.

The name is `FILE::ROW::COLUMN` if the user has named another column with audio than the one that would be found. A row
with only the path of an audio file is rejected.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prepcli.audio.probe import probe
from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.formats.archives import checksum
from prepcli.formats.parquet import naming_damage
from prepcli.formats.parquet_audio import audio_value, column_values, open_parquet
from prepcli.formats.parquet_columns import audio_column, holds_bytes, huggingface_features, is_usual
from prepcli.jobs.inputs.catalogue import FieldNames, line, stated_duration, unusable
from prepcli.storage.containers import Row, name_in

if TYPE_CHECKING:
    import pyarrow

_HIVE = re.compile(r"/([A-Za-z_]\w*)=([^/]+)(?=/)")
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_NO_CLASS = -1
_AS_TEXT = (UUID, Decimal)


def row_lines(path: str, columns: FieldNames) -> Iterator[bytes]:
    """Yield a catalogue line for each row of a Parquet file; folders of its path such as `lang=deu_Latn` give fields.

    The audio of a row is decoded only as far as its header, and only if no column has the duration of the row.

    Raises:
        UsageError: the file is damaged, has no column with audio, or lacks a column that the user has named.
    """
    file = open_parquet(path)
    schema = file.schema_arrow
    audio = audio_column(schema, path, columns.audio)
    named = None if is_usual(schema, audio) else audio
    plain = [field.name for field in schema if field.name != audio and not holds_bytes(field.type)]
    _check_named(path, schema, plain, columns)
    features = huggingface_features(schema)
    folders = {name: value for name, value in _HIVE.findall(path) if value != _HIVE_NULL}
    row = 0
    with naming_damage(path):
        for group in range(file.metadata.num_row_groups):
            table = file.read_row_group(group, columns=plain, use_threads=False)
            values = _values(table.select(plain)) if plain else []
            num_rows = file.metadata.row_group(group).num_rows
            sounds: Iterator[tuple[pyarrow.Array, int]] | None = None
            for place in range(num_rows):
                sound = next(sounds) if sounds else None
                name = name_in(path, str(row) if named is None else Row(row, named))
                fields: dict[str, Any] = {}
                try:
                    row_fields = folders | _fields(values[place] if values else {}, features)
                    fields = columns.rename(row_fields)
                    seconds, crc32 = stated_duration(row_fields), None
                    if seconds is None:
                        if sounds is None:
                            sounds = islice(column_values(file, group, audio), place, None)
                        batch, at = sound or next(sounds)
                        value = audio_value(batch, at, name)
                        seconds, crc32 = probe(value, name).duration, checksum(value)
                    yield line(name, seconds, fields, crc32=crc32)
                except RecordRejected as rejected:
                    yield unusable(name, rejected, fields)
                row += 1


def _check_named(path: str, schema: "pyarrow.Schema", names: list[str], columns: FieldNames) -> None:
    for name in (columns.text, columns.speaker, columns.id, columns.lang):
        if name is not None and name not in names:
            if name in schema.names:
                raise UsageError(f"the column {name} of {path} holds audio or bytes; name one of {', '.join(names)}")
            raise UsageError(f"{path} has no column {name}; its columns are {', '.join(names)}")


def _values(table: "pyarrow.Table") -> list[dict[str, Any]]:
    """The rows of a table as Python objects. A value that Python cannot hold is a `RecordRejected` in its place."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            # Python's times have microseconds, and pandas, which holds nanoseconds, may be installed or not.
            column = table.column(place).cast(pa.timestamp("us", field.type.tz), safe=False)
            table = table.set_column(place, field.name, column)
    with suppress(ValueError, OverflowError, LookupError):
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows
    columns = [[_value(scalar, name) for scalar in table.column(name)] for name in table.column_names]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _value(scalar: "pyarrow.Scalar", name: str) -> object:
    import pyarrow as pa

    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return RecordRejected(RejectReason.NOT_UTF8, f"the column {name} is not UTF-8")
    except (ValueError, OverflowError, LookupError) as error:
        with suppress(pa.ArrowException):
            return scalar.cast(pa.string()).as_py()  # a date after the year 9999
        return RecordRejected(RejectReason.BAD_FIELD, f"the column {name} has a value out of range: {error}")


def _fields(row: Mapping[str, Any], features: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row, with the names of classes in place of their numbers.

    Raises:
        RecordRejected: a value could not be read.
    """
    fields = {}
    for name, value in row.items():
        if isinstance(value, RecordRejected):
            raise value
        if name in features:
            value = _with_classes(value, features[name])
        fields[name] = str(value) if isinstance(value, _AS_TEXT) else value
    return fields


def _with_classes(value: object, feature: object) -> object:
    """A value with the names of classes, which Hugging Face datasets stores as numbers; None stands for no class.

    `feature` describes the type of the value: a class, a list, or fields by their names.
    """
    if isinstance(feature, list) and len(feature) == 1:
        feature = {"_type": "List", "feature": feature[0]}
    if not isinstance(feature, dict):
        return value
    if feature.get("_type") == "ClassLabel" and isinstance(value, int):
        names = feature.get("names") or []
        return None if value == _NO_CLASS else names[value] if 0 <= value < len(names) else value
    inner = feature.get("feature") if isinstance(feature.get("_type"), str) else None  # a field may be named `feature`
    if isinstance(value, list):
        return value if inner is None else [_with_classes(item, inner) for item in value]
    if isinstance(value, dict) and isinstance(inner, dict):  # a sequence of fields is stored as fields of lists
        feature = {name: [below] for name, below in inner.items()}
    if isinstance(value, dict):
        return {name: _with_classes(item, feature.get(name)) for name, item in value.items()}
    return value
