"""manifest-to-parquet: turns NeMo manifests into Parquet files that contain the audio."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import msgspec

from prepcli.audio.channels import SEVERAL_CHANNELS, channels_note
from prepcli.audio.info import unreadable
from prepcli.audio.segments import PARQUET, TargetFormat, with_channel
from prepcli.commands.exports.job import ExportContents, ExportJob, ExportPlan
from prepcli.commands.exports.parquet.omnilingual import OmnilingualJob
from prepcli.commands.exports.parquet.options import ManifestToParquet, ParquetOptions
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected
from prepcli.formats.names import check_braces
from prepcli.formats.parquet import (
    MAX_AUDIO_BYTES,
    OUTPUT_PATTERNS,
    ColumnType,
    ParquetFile,
    check_installed,
    file_name,
    schema_of,
)
from prepcli.formats.train_ds import write_train_ds
from prepcli.formats.training_config import parquet_entry
from prepcli.gate import rate_changes
from prepcli.jobs.record_job import RecordUnit, RecordWriter, open_run
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
        found: dict[str, Any] = {OFFSET: record.offset} if OFFSET in self.types else {}
        for column, name in self.fields.items():
            raw = record.fields.get(name)
            if raw is not None:
                found[column] = _converted(raw, self.types[column])
        return found


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
    for name, found in kinds.items():
        if name in _NOT_COLUMNS or name in _FIRST:
            continue
        column = _RENAMED.get(name, name)
        while column in types:
            column = f"source_{column}"
        found.discard("NoneType")
        types[column], fields[column] = _type_for(found), name
        if types[column] == "string" and found and found <= _NUMBERS:
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
        found: dict[str, Any] = _decoder.decode(line)
        return found
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return {name: decode_value(raw) for name, raw in parse_fields(line).items()}
    except RecordRejected:
        return None


class ParquetJob(ExportJob[ParquetOptions]):
    """Turns manifests into Parquet files. A unit is a file."""

    command: ClassVar[str] = "manifest-to-parquet"

    @cached_property
    def columns(self) -> FieldColumns:
        """The columns, chosen from all fields of all lines of the manifests."""
        files = [(path, size_of(check_file(path))) for path in self.manifests]
        tasks = [part for path, size in files for part in ranges_of(path, size)]
        shapes: Shapes = {}
        for found in map_in_order(_shapes_of, tasks, workers_for(files, self.num_workers)):
            shapes |= found
        return choose_columns(shapes)

    def plan(self, workspace: Workspace) -> ExportPlan:
        """Index the manifests and divide their records into files."""
        plan = super().plan(workspace)
        for column in self.columns.long:
            plan.notes.append(
                f"the column {column} is text: it holds integers that neither int64 nor float64 can hold exactly"
            )
        return plan

    def settings(self, plan: ExportPlan) -> dict[str, Any]:
        """The options, the folder of the audio, and the columns."""
        return super().settings(plan) | {"columns": dict(self.columns.types)}

    def output_patterns(self, plan: ExportPlan) -> Sequence[str]:
        """A pattern for the names of the Parquet files."""
        return OUTPUT_PATTERNS

    def prepare(self) -> None:
        """Import pyarrow once, before the worker processes are forked, and find the columns."""
        import pyarrow.parquet  # noqa: F401

        _ = self.columns

    def open_unit(self, contents: ExportContents, unit: RecordUnit, writer: UnitWriter) -> RecordWriter:
        """Return the writer of a Parquet file."""
        file = ParquetFile(
            writer.open(file_name(unit.number)), schema_of(self.columns.types), self.options.row_group_size
        )
        return _Shard(contents, file, writer, self.columns, self.options)

    def finish(self, plan: ExportPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Return what NeMo needs to read the files, and a note on those with several channels.

        `type` and `manifest_filepath`, the list of the files, are those of an input_cfg; `train_ds` is the path of a
        section with both.
        """
        if not markers:
            return {}
        files = [writer.workspace.out / file_name(unit.number) for unit in plan.units]
        entry = parquet_entry(files)
        section = write_train_ds(writer, self.command, {"input_cfg": [entry]})
        details = {**entry, "manifest_filepath": files, "train_ds": section}
        return details | channels_note(totals(markers)[SEVERAL_CHANNELS], "records")


@dataclass(frozen=True, slots=True)
class _Shard(RecordWriter):
    """Writes a Parquet file of records."""

    contents: ExportContents
    file: ParquetFile
    writer: UnitWriter
    columns: FieldColumns
    options: ParquetOptions

    def add(self, number: int, record: Record) -> float:
        record.text("text")
        values = self.columns.values(record)
        target = TargetFormat(self.options.force_codec, self.options.target_sample_rate)
        check = self.options.check_audio
        policy = with_channel(PARQUET, self.options.channel)
        segment, stored = self.contents.load_audio(number, record, target, policy, check=check)
        if len(stored.data) > MAX_AUDIO_BYTES:
            unreadable(segment.name, "is larger than a value of Parquet may be")
        for name, rate in rate_changes(values, stored.sampling_rate).items():
            if values[name] is not None:
                values[name] = type(values[name])(rate)  # text if the column holds texts
        id = self.contents.id_of(number, record)
        self.file.add(stored.data, values | {"id": id}, f"{id}.{stored.format}")
        if segment.has_several_channels:
            self.writer.extra[SEVERAL_CHANNELS] += 1
        return segment.duration

    def close(self) -> None:
        self.file.close()


def manifest_to_parquet(options: ManifestToParquet) -> Report:
    """Turn manifests into Parquet files.

    Returns:
        The report of the run; `outputs["manifest_filepath"]` lists the files for `type: parquet` in an input_cfg.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or pyarrow is not installed.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_parquet("manifest.json", "parquet", shard_size=16)
        >>> report.records_out
        48
        >>> report.outputs["manifest_filepath"]
        ['/.../parquet/data-000000.parquet', '/.../parquet/data-000001.parquet', '/.../parquet/data-000002.parquet']
    """
    check_installed()
    kind = OmnilingualJob if options.form == "omnilingual" else ParquetJob
    if kind is ParquetJob:
        check_braces(options.out)
    manifests, workspace, engine = open_run(options)
    return run_job(kind(manifests, options, engine.num_workers), workspace, engine)
