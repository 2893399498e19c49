"""manifest-to-parquet: NeMo manifests become Parquet files with the audio in them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from prepcli.audio.channels import SEVERAL_CHANNELS
from prepcli.audio.convert import TargetFormat
from prepcli.commands.exports.audio import load_audio
from prepcli.commands.exports.job import ExportContents, ExportJob, ExportPlan, ExportShard, ShardWriter
from prepcli.commands.exports.parquet.columns import Columns, find_columns
from prepcli.commands.exports.parquet.options import ParquetOptions
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.names import brace_text
from prepcli.formats.parquet import FILE_NAME, MAX_AUDIO_BYTES, OUTPUT_PATTERNS, ParquetFile, file_name, schema_of
from prepcli.manifest.record import Record

_RATES = ("sampling_rate", "sample_rate")


class ParquetJob(ExportJob):
    """Turns manifests into Parquet files. A unit is a file."""

    command: ClassVar[str] = "manifest-to-parquet"

    def __init__(self, manifests: Sequence[str], options: ParquetOptions, num_workers: int = 1) -> None:
        options.check()
        super().__init__(manifests, options, num_workers)
        self.parquet = options

    @property
    def shard_size(self) -> int:
        """`--shard-size`."""
        return self.parquet.shard_size

    @cached_property
    def columns(self) -> Columns:
        """The columns, by all lines of the manifests."""
        return find_columns(self.manifests, self.num_workers)

    def plan(self, workspace: Workspace) -> ExportPlan:
        """Index the manifests and divide their records into files."""
        plan = super().plan(workspace)
        for column in self.columns.long:
            plan.notes.append(
                f"the column {column} is text: it holds integers that neither int64 nor float64 can hold exactly"
            )
        return plan

    def settings(self, plan: ExportPlan) -> dict[str, Any]:
        """The options, where the audio lies, and the columns."""
        return super().settings(plan) | {"columns": dict(self.columns.types)}

    @property
    def shuffle_seed(self) -> int | None:
        """`--shuffle-seed`, with `--shuffle`."""
        return self.parquet.shuffle_seed if self.parquet.shuffle else None

    def output_patterns(self, plan: ExportPlan) -> Sequence[str]:
        """The files."""
        return OUTPUT_PATTERNS

    def prepare(self) -> None:
        """Import pyarrow once, before the worker processes are forked, and find the columns."""
        import pyarrow.parquet  # noqa: F401

        _ = self.columns

    def open_shard(self, contents: ExportContents, unit: ExportShard, writer: UnitWriter) -> ShardWriter:
        """A file."""
        file = ParquetFile(
            writer.open(file_name(unit.number)), schema_of(self.columns.types), self.parquet.row_group_size
        )
        return _Shard(contents, file, writer, self.columns, self.parquet)

    def finish(self, plan: ExportPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Nothing to merge; returns what to paste into a config."""
        if not markers:
            return {}
        numbers = brace_text(f"{0:06d}", f"{len(markers) - 1:06d}")
        details = {"type": "parquet", "manifest_filepath": writer.workspace.out / FILE_NAME.format(numbers)}
        return details | self.channels_note(markers)


@dataclass(frozen=True, slots=True)
class _Shard:
    """A file of records."""

    contents: ExportContents
    file: ParquetFile
    writer: UnitWriter
    columns: Columns
    options: ParquetOptions

    def add(self, number: int, record: Record) -> float:
        record.text("text")
        values = self.columns.values(record)
        target = TargetFormat(self.options.force_codec, self.options.target_sample_rate)
        path = self.contents.audio_path(number, record)
        piece, stored = load_audio(path, record, target, check=self.options.check_audio)
        if stored.format not in ("wav", "flac", "mp3", "ogg", "opus"):
            piece, stored = load_audio(path, record, replace(target, format="flac"))
        if len(stored.data) > MAX_AUDIO_BYTES:
            raise RecordRejected(RejectReason.UNREADABLE_AUDIO, f"{path} is larger than a value of Parquet may be")
        if stored.sampling_rate != piece.info.sampling_rate:
            # As text where the column has texts.
            known = {name: values[name] for name in _RATES if values.get(name) is not None}
            values |= {name: type(value)(stored.sampling_rate) for name, value in known.items()}
        id = self.contents.id_of(number, record)
        self.file.add(id, stored.data, f"{id}.{stored.format}", values)
        if piece.has_several_channels:
            self.writer.extra[SEVERAL_CHANNELS] += 1
        return piece.duration

    def close(self) -> None:
        self.file.close()
