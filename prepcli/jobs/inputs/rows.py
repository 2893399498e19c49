"""Parquet files as inputs: each row is a record, and its audio, which is in the row, has the name `FILE::ROW`.

A column with audio is one that Hugging Face datasets can cast to audio (features/audio.py), or one with lists of bytes,
as in omnilingual-asr. A row with only the path of an audio file is rejected.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from prepcli.audio.probe import probe
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.archives import checksum
from prepcli.formats.parquet import naming_damage
from prepcli.formats.parquet_audio import audio_column, audio_value, huggingface_features, open_parquet, read_column
from prepcli.jobs.inputs.catalogue import FieldNames, line, stated_duration, unusable
from prepcli.storage.containers import name_in

if TYPE_CHECKING:
    import pyarrow

_HIVE = re.compile(r"/([A-Za-z_]\w*)=([^/]+)(?=/)")
_ROWS = 1024


def row_lines(path: str, columns: FieldNames) -> Iterator[bytes]:
    """Yield a catalogue line for each row of a Parquet file; folders of its path such as `lang=deu_Latn` give fields.

    The audio of a row is decoded only as far as its header, and only if no column has the duration of the row.

    Raises:
        UsageError: the file is damaged, has no column with audio, or lacks a column that the user has named.
    """
    file = open_parquet(path)
    schema = file.schema_arrow
    audio = audio_column(schema, path, columns.audio)
    plain = [name for name in schema.names if name != audio]
    _check_named(path, plain, columns)
    labels = _labels(schema)
    folders = dict(_HIVE.findall(path))
    row = 0
    with naming_damage(path):
        for group in range(file.metadata.num_row_groups):
            values = file.read_row_group(group, columns=plain, use_threads=False).to_pylist() if plain else []
            num_rows = file.metadata.row_group(group).num_rows
            sounds = None
            for place in range(num_rows):
                name = name_in(path, row)
                fields: dict[str, Any] = {}
                try:
                    row_fields = folders | _named(values[place] if values else {}, labels)
                    fields = columns.rename(row_fields)
                    seconds, crc32 = stated_duration(row_fields), None
                    if seconds is None:
                        if sounds is None:
                            sounds = read_column(file, group, audio)
                        value = audio_value(sounds, place, name)
                        seconds, crc32 = probe(value, name).duration, checksum(value)
                    yield line(name, seconds, fields, crc32=crc32)
                except RecordRejected as rejected:
                    yield unusable(name, rejected, fields)
                row += 1


def _check_named(path: str, names: list[str], columns: FieldNames) -> None:
    for name in (columns.text, columns.speaker, columns.id, columns.lang):
        if name is not None and name not in names:
            raise UsageError(f"{path} has no column {name}; its columns are {', '.join(names)}")


def _labels(schema: "pyarrow.Schema") -> dict[str, list[str]]:
    """The columns in which Hugging Face stores classes as numbers, each with a list: item i is the name of class i."""
    found = {}
    for name, feature in huggingface_features(schema).items():
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
            found[name] = list(feature.get("names") or [])
    return found


def _named(row: Mapping[str, Any], labels: Mapping[str, list[str]]) -> dict[str, Any]:
    """The values of a row, with the names of classes in place of their numbers; values that hold bytes are left out."""
    found = {}
    for name, value in row.items():
        if isinstance(value, bytes) or (isinstance(value, dict) and "bytes" in value):
            continue
        names = labels.get(name)
        found[name] = names[value] if names and isinstance(value, int) and 0 <= value < len(names) else value
    return found
