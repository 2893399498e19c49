"""manifest-to-wenet: NeMo manifests become shards or a data list for WeNet."""

import glob
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from prepcli.audio.channels import SEVERAL_CHANNELS
from prepcli.audio.convert import TargetFormat
from prepcli.audio.info import unreadable
from prepcli.audio.probe import probe_file
from prepcli.commands.exports.audio import load_audio, piece_of
from prepcli.commands.exports.job import ExportContents, ExportJob, ExportPlan
from prepcli.commands.exports.wenet.options import ManifestToWenet, WenetOptions
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.report import Report
from prepcli.engine.run.run_command import run_command
from prepcli.engine.state.work_folder import note_unused
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.names import absolute_folder
from prepcli.formats.wenet import (
    AUDIO_FORMATS,
    LIST_NAME,
    RAW_LIST_NAME,
    SHARD_NAME,
    WenetWriter,
    check_listable,
    is_dropped,
    num_tokens,
    raw_line,
    seconds_at,
    shard_list,
)
from prepcli.jobs.record_job import RecordUnit, RecordWriter
from prepcli.manifest.record import Record
from prepcli.manifest.sources import expand_paths
from prepcli.storage.addresses import is_address
from prepcli.storage.input_files import refuse_swapped

DROPPED = "dropped_by_wenet"
"""What the units count for the summary: utterances that the reader's default filter drops."""
_RAW_UNIT = 50_000
_LINES_NAME = "parts/{}.list"


class WenetJob(ExportJob):
    """Turns manifests into shards and their list, or with `raw` into a data list. A unit is a shard or a part of it."""

    command: ClassVar[str] = "manifest-to-wenet"
    takes_ids: ClassVar[bool] = True

    def __init__(self, manifests: Sequence[str], options: WenetOptions, out: Path, num_workers: int = 1) -> None:
        """`out`: where the shards will be; the list has their paths, or their names if they are in an object store."""
        options.check()
        super().__init__(manifests, options, num_workers)
        self.wenet = options
        self.folder = "." if is_address(out) else _listed(absolute_folder(str(out)), options.relative_to)
        if not options.raw:
            check_listable(self.folder)

    @property
    def shard_size(self) -> int:
        """`--shard-size`; parts of a data list are larger."""
        return _RAW_UNIT if self.wenet.raw else self.wenet.shard_size

    @property
    def shuffle_seed(self) -> int | None:
        """`--shuffle-seed`, with `--shuffle`."""
        return self.wenet.shuffle_seed if self.wenet.shuffle else None

    def output_patterns(self, plan: ExportPlan) -> Sequence[str]:
        """Shards and lists."""
        return (f"{glob.escape(self.wenet.prefix)}_{'[0-9]' * 9}.tar", LIST_NAME, RAW_LIST_NAME)

    def open_unit(self, contents: ExportContents, unit: RecordUnit, writer: UnitWriter) -> RecordWriter:
        """A tar, or a part of the data list."""
        if self.wenet.raw:
            return _RawPart(contents, unit, writer, self.wenet)
        return _Shard(contents, unit, writer, self.wenet)

    def finish(self, plan: ExportPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Write the list; returns its path, and how many utterances the reader would drop."""
        name = RAW_LIST_NAME if self.wenet.raw else LIST_NAME
        if self.wenet.raw:
            writer.join(name, (_LINES_NAME.format(marker.unit) for marker in markers))
        else:
            names = [shard_name(self.wenet, unit.number) for unit in plan.units]
            writer.open(name).write(shard_list(self.folder, names))
        details: dict[str, Any] = {"data_list": writer.workspace.out / name}
        if is_address(writer.workspace.out):
            details["in_store"] = (
                "WeNet does not read s3://, so the list has names without a folder: copy the set down or mount it, and "
                "train in its folder"
            )
        details["data_type"] = "raw" if self.wenet.raw else "shard"
        if not plan.contents.ids.given and plan.contents.records.index.keys["id"].any():
            details["keys"] = (
                "made of the names of files: not all records have an id of their own that is unique and without blanks "
                "and slashes"
            )
        counts: Counter[str] = Counter()
        for marker in markers:
            counts.update(marker.extra)
        if counts[DROPPED]:
            details["filter"] = (
                f"{counts[DROPPED]:,.0f} records would be dropped by WeNet's default filter_conf (10 to 10,240 frames, "
                "1 to 200 characters)"
            )
        return details | self.channels_note(markers)


def shard_name(options: WenetOptions, number: int) -> str:
    """The name of a shard."""
    return SHARD_NAME.format(options.prefix, number)


class _Shard:
    """A tar of utterances."""

    def __init__(self, contents: ExportContents, unit: RecordUnit, writer: UnitWriter, options: WenetOptions) -> None:
        self._contents = contents
        self._writer = writer
        self._options = options
        self._target = TargetFormat(options.force_codec, options.target_sample_rate)
        self._lossless = TargetFormat("flac", options.target_sample_rate)
        self._tar = WenetWriter(writer.open(shard_name(options, unit.number)))

    def add(self, number: int, record: Record) -> float:
        text = record.text("text") or ""
        key = self._contents.id_of(number, record)
        path = self._contents.audio_path(number, record)
        piece, stored = load_audio(path, record, self._target, check=self._options.check_audio)
        if stored.format not in AUDIO_FORMATS:
            piece, stored = load_audio(path, record, self._lossless)
        self._tar.add(key, text, stored.format, stored.data)
        if piece.has_several_channels:
            self._writer.extra[SEVERAL_CHANNELS] += 1
        self._writer.extra[DROPPED] += is_dropped(piece.duration, num_tokens(text))
        return piece.duration

    def close(self) -> None:
        self._tar.close()


class _RawPart:
    """A part of a data list."""

    def __init__(self, contents: ExportContents, unit: RecordUnit, writer: UnitWriter, options: WenetOptions) -> None:
        self._contents = contents
        self._writer = writer
        self._relative_to = options.relative_to
        self._lines = writer.open_part(_LINES_NAME.format(unit.id))

    def add(self, number: int, record: Record) -> float:
        text = record.text("text") or ""
        path = self._contents.audio_path(number, record)
        info = probe_file(path)
        if not info.is_passable:
            unreadable(path, "cannot be read by WeNet as it is; without --raw it is encoded again")
        piece = piece_of(record, info)
        if piece.channel:
            raise RecordRejected(
                RejectReason.BAD_FIELD, f"channel is {piece.channel}; a data list has no channels: leave out --raw"
            )
        end = piece.start + piece.num_samples
        span = (seconds_at(piece.start, info.sampling_rate), seconds_at(end, info.sampling_rate))
        is_whole = (piece.start, piece.num_samples) == (0, info.num_samples)
        key = self._contents.id_of(number, record)
        self._lines.write(raw_line(key, _listed(path, self._relative_to), text, None if is_whole else span))
        if piece.has_several_channels:
            self._writer.extra[SEVERAL_CHANNELS] += 1
        self._writer.extra[DROPPED] += is_dropped(piece.duration, num_tokens(text))
        return piece.duration

    def close(self) -> None:
        pass


def _listed(path: str, relative_to: Path | None) -> str:
    return path if relative_to is None else os.path.relpath(path, absolute_folder(str(relative_to)))


def manifest_to_wenet(options: ManifestToWenet) -> Report:
    """Turn manifests into shards for WeNet, or into a data list.

    Returns:
        The report of the run; `outputs["data_list"]` is the list to train with.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Example:
        >>> import prepcli
        >>> report = prepcli.manifest_to_wenet("manifest.json", "wenet", shard_size=16)
        >>> report.records_out
        48
        >>> report.outputs["data_list"]
        '/.../wenet/shards.list'
    """
    refuse_swapped(options.manifest, options.out)
    engine = options.engine()
    job = WenetJob(expand_paths(options.manifest), options, options.out, num_workers=engine.num_workers)
    note_unused(options.work_dir, options.out)
    return run_command(job, Workspace(options.out, work_dir=options.work_dir), options, engine)
