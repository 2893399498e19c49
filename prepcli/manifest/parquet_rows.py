"""Turns rows of a Parquet file with audio into lines of a NeMo manifest, which the readers of manifests can read."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import msgspec

from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.parquet import check_installed, naming_damage
from prepcli.formats.parquet_audio import open_parquet
from prepcli.formats.parquet_columns import BYTES, audio_form, check_names, shown
from prepcli.manifest.parts import Columns
from prepcli.manifest.sources import Blocks, open_bytes
from prepcli.storage.ranges import openable

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet as pq

_MAGIC = b"PAR1"
_ROWS = 4096
_ROWS_WITH_AUDIO = 64
_NOT_FIELDS = frozenset({"audio_filepath", "duration", "offset", "_skipme"})
"""Columns that have a meaning in a manifest, but not for NeMo's reader of Parquet."""


def check_is_parquet(path: str) -> None:
    """Check, before worker processes read a file, that it is Parquet and that pyarrow is installed.

    Raises:
        UsageError: pyarrow is not installed, or the file is not Parquet.
    """
    check_installed()
    import pyarrow.parquet  # noqa: F401 - before workers are forked

    with open_bytes(path) as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise UsageError(f"{path} is not a Parquet file; give the type of the data that it holds")


def open_rows(path: str, columns: Columns) -> BinaryIO:
    """Open a Parquet file to read its rows as lines of JSON.

    A line has the fields `audio_filepath`, which is the id of the row, `duration`, and the columns that `columns`
    needs. The audio is read only if the file has no column with durations; if the audio of a row cannot be read, its
    line has no duration.

    Raises:
        UsageError: the file is damaged, or has neither durations nor audio.
    """
    return cast(BinaryIO, io.BufferedReader(Blocks(path, _lines(path, columns))))


def _lines(path: str, columns: Columns) -> Iterator[bytes]:
    """The rows of the file as JSON lines, in blocks of several lines."""
    assert columns.parquet is not None
    encode = msgspec.json.Encoder(enc_hook=str).encode_lines
    number = 0
    with naming_damage(path), open_parquet(path) as file:
        check_names(file.schema_arrow, path)
        names = set(file.schema_arrow.names)
        wanted, num_rows = _wanted(columns, names), _ROWS
        if columns.parquet.duration not in names:
            wanted, num_rows = [*wanted, _audio(path, columns, file)], _ROWS_WITH_AUDIO
        for batch in file.iter_batches(batch_size=num_rows, columns=wanted, use_threads=False):
            yield encode(_records(batch.to_pydict(), f"{Path(path).stem}_", number, columns))
            number += batch.num_rows


def _records(values: dict[str, list[Any]], stem: str, first: int, columns: Columns) -> list[dict[str, Any]]:
    """The fields of some rows, from the values of each column.

    Without a column `id`, the id of a row is `stem` and the number of the row, which counts from `first`.
    """
    assert columns.parquet is not None
    audio, seconds = values.pop(columns.parquet.audio, []), values.get(columns.parquet.duration)
    names = values.get("id") or [f"{stem}{first + number}" for number in range(len(audio or seconds or []))]
    if seconds is None:
        seconds = [_seconds(value, columns, str(name)) for value, name in zip(audio, names, strict=True)]
    fields = {name: column for name, column in values.items() if name not in _NOT_FIELDS}
    fields |= {"audio_filepath": list(map(str, names)), "duration": seconds}
    records = [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]
    for place, value in enumerate(seconds):
        if value is None:
            del records[place]["duration"]
    return records


def _wanted(columns: Columns, names: set[str]) -> list[str]:
    """The columns to read besides the audio: the columns that `columns.numbers` needs, the id, and the duration."""
    assert columns.parquet is not None
    if columns.numbers is not None and not columns.numbers.fields:
        return sorted(names - {columns.parquet.audio})
    fields = columns.numbers.fields if columns.numbers is not None else ()
    return [name for name in ("id", columns.parquet.duration, *fields) if name in names]


def _audio(path: str, columns: Columns, file: "pq.ParquetFile") -> str:
    """The name of the column with the encoded audio; `COLUMN.bytes` for a struct, as Hugging Face writes it."""
    assert columns.parquet is not None
    name, schema = columns.parquet.audio, file.schema_arrow
    if name not in schema.names or columns.seconds_of is None:
        raise UsageError(
            f"{path} has no column {columns.parquet.duration} with durations, and no column {name} with audio to "
            f"measure (its columns are {', '.join(schema.names)}); name them with duration_field or audio_field"
        )
    kind = _check_bytes(path, name, schema.field(name).type)
    return f"{name}.{BYTES}" if kind.num_fields else name


def check_audio_bytes(path: str, column: str) -> None:
    """Raise `UsageError` if a Parquet file is damaged, or has no column of this name with the bytes of audio files."""
    import pyarrow.parquet as pq

    with naming_damage(path):
        schema = pq.read_schema(openable(path))
    if column not in schema.names:
        names = ", ".join(schema.names)
        raise UsageError(
            f"{path} has no column {column} with audio (its columns are {names}); name it with audio_field"
        )
    _check_bytes(path, column, schema.field(column).type)


def _check_bytes(path: str, name: str, kind: "pyarrow.DataType") -> "pyarrow.DataType":
    if audio_form(kind) != "bytes":
        raise UsageError(
            f"the column {name} of {path} holds {shown(kind)}, and NeMo reads the bytes of audio files; name another "
            f"with audio_field, or make such files: prepcli manifest-to-parquet {path} OUT"
        )
    return kind


def _seconds(audio: object, columns: Columns, name: str) -> float | None:
    """The duration of a row's audio; None if it cannot be read."""
    assert columns.seconds_of is not None
    data = audio.get("bytes") if isinstance(audio, dict) else audio
    if not isinstance(data, bytes):
        return None
    try:
        return columns.seconds_of(data, name)
    except RecordRejected:
        return None
