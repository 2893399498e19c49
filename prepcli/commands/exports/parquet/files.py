"""Writes the Parquet files of `manifest-to-parquet`, and what NeMo needs to read them."""

from collections.abc import Sequence
from typing import Any

from prepcli.audio.channels import SEVERAL_CHANNELS, channels_note
from prepcli.audio.info import unreadable
from prepcli.commands.exports.parquet.columns import FieldColumns
from prepcli.commands.exports.records import Conversion, ExportContents
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.formats.parquet import MAX_AUDIO_BYTES, ParquetFile, file_name, schema_of
from prepcli.formats.train_ds import write_train_ds
from prepcli.formats.training_config import parquet_entry
from prepcli.gate import rate_changes
from prepcli.jobs.record_job import RecordUnit
from prepcli.jobs.source import items


def write_file(
    contents: ExportContents,
    unit: RecordUnit,
    writer: UnitWriter,
    columns: FieldColumns,
    row_group_size: int,
    conversion: Conversion,
) -> None:
    """Write a Parquet file of records."""
    file = ParquetFile(writer.open(file_name(unit.number)), schema_of(columns.types), row_group_size)
    for item in items(contents, unit, writer):
        with item:
            number, record = item.number, item.record
            record.text("text")
            values = columns.values(record)
            paths = contents.records.other_audio(number, record)
            values |= {name: path for name, path in paths.items() if name in values}
            segment, stored = contents.load_audio(number, record, conversion)
            if len(stored.data) > MAX_AUDIO_BYTES:
                unreadable(segment.name, "is larger than a value of Parquet may be")
            for name, rate in rate_changes(values, stored.sampling_rate).items():
                if values[name] is not None:
                    values[name] = type(values[name])(rate)  # text if the column holds texts
            id = contents.id_of(number, record)
            file.add(stored.data, values | {"id": id}, f"{id}.{stored.format}")
            item.seconds = segment.duration
            if segment.has_several_channels:
                writer.extra[SEVERAL_CHANNELS] += 1
    file.close()


def files_for_training(units: Sequence[RecordUnit], markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
    """The facts that NeMo needs to read the files, and a note on those with several channels.

    `type` and `manifest_filepath`, the list of the files, are those of an input_cfg; `train_ds` is the path of a
    section with both.
    """
    if not markers:
        return {}
    files = [writer.workspace.out / file_name(unit.number) for unit in units]
    entry = parquet_entry(files)
    section = write_train_ds(writer, "manifest-to-parquet", {"input_cfg": [entry]})
    details = {**entry, "manifest_filepath": files, "train_ds": section}
    return details | channels_note(totals(markers)[SEVERAL_CHANNELS], "records")
