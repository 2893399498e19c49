"""manifest-to-wenet: turns NeMo manifests into shards or a data list for WeNet."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from prepcli.audio.channels import SEVERAL_CHANNELS, channels_note
from prepcli.audio.info import unreadable
from prepcli.audio.segments import WENET, WENET_RAW, TargetFormat, with_channel
from prepcli.commands.exports.job import ExportContents, ExportJob, ExportPlan
from prepcli.commands.exports.wenet.options import ManifestToWenet, WenetOptions
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.errors import RecordRejected, RejectReason, option
from prepcli.formats.names import absolute_folder
from prepcli.formats.wenet import (
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
from prepcli.jobs.inputs.named import refuse_containers
from prepcli.jobs.record_job import RecordUnit, RecordWriter, open_run
from prepcli.manifest.record import Record
from prepcli.storage.addresses import is_address
from prepcli.storage.paths import AnyPath

DROPPED = "dropped_by_wenet"
"""The name in markers of the number of utterances that WeNet's default filter would drop."""
_LINES_NAME = "parts/{}.list"


class WenetJob(ExportJob[WenetOptions]):
    """Turns manifests into shards and their list, or with `raw` into a data list.

    A unit is a shard, or a part of the data list.
    """

    command: ClassVar[str] = "manifest-to-wenet"
    takes_ids: ClassVar[bool] = True

    def __init__(self, manifests: Sequence[str], options: WenetOptions, out: AnyPath, num_workers: int = 1) -> None:
        """`out`: the folder of the shards. If it is in an object store, the list names shards without their folder."""
        super().__init__(manifests, options, num_workers)
        self.folder = "." if is_address(out) else _listed(absolute_folder(str(out)), options.relative_to)
        if not options.raw:
            check_listable(self.folder)

    def output_patterns(self, plan: ExportPlan) -> Sequence[str]:
        """Patterns of the names of the shards and lists."""
        return (f"{glob.escape(self.options.prefix)}_{'[0-9]' * 9}.tar", LIST_NAME, RAW_LIST_NAME)

    def open_unit(self, contents: ExportContents, unit: RecordUnit, writer: UnitWriter) -> RecordWriter:
        """Return the writer of a tar, or of a part of the data list."""
        if self.options.raw:
            return _RawPart(contents, unit, writer, self.options)
        return _Shard(contents, unit, writer, self.options)

    def finish(self, plan: ExportPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Write the data list; returns its path and its `data_type`, and notes for the user.

        One note counts the utterances that WeNet's default filter would drop.
        """
        name = RAW_LIST_NAME if self.options.raw else LIST_NAME
        if self.options.raw:
            writer.join(name, (_LINES_NAME.format(marker.unit) for marker in markers))
        else:
            names = [SHARD_NAME.format(self.options.prefix, unit.number) for unit in plan.units]
            writer.open(name).write(shard_list(self.folder, names))
        details: dict[str, Any] = {"data_list": writer.workspace.out / name}
        if is_address(writer.workspace.out):
            details["in_store"] = (
                "WeNet does not read s3://, so the list has names without a folder: copy the set down or mount it, and "
                "train in its folder"
            )
        details["data_type"] = "raw" if self.options.raw else "shard"
        if not plan.contents.ids.given and plan.contents.records.index.keys["id"].any():
            details["keys"] = (
                "made of the names of files: not all records have an id of their own that is unique and without blanks "
                "and slashes"
            )
        counts = totals(markers)
        if counts[DROPPED]:
            details["filter"] = (
                f"{counts[DROPPED]:,.0f} records would be dropped by WeNet's default filter_conf (10 to 10,240 frames, "
                "1 to 200 characters)"
            )
        return details | channels_note(counts[SEVERAL_CHANNELS], "records")


class _Shard(RecordWriter):
    """Writes a tar of utterances."""

    def __init__(self, contents: ExportContents, unit: RecordUnit, writer: UnitWriter, options: WenetOptions) -> None:
        self._contents = contents
        self._writer = writer
        self._options = options
        self._target = TargetFormat(options.force_codec, options.target_sample_rate)
        self._policy = with_channel(WENET, options.channel)
        self._tar = WenetWriter(writer.open(SHARD_NAME.format(options.prefix, unit.number)))

    def add(self, number: int, record: Record) -> float:
        text = record.text("text") or ""
        key = self._contents.id_of(number, record)
        check = self._options.check_audio
        segment, stored = self._contents.load_audio(number, record, self._target, self._policy, check=check)
        self._tar.add_utterance(key, text, stored.format, stored.data)
        if segment.has_several_channels:
            self._writer.extra[SEVERAL_CHANNELS] += 1
        self._writer.extra[DROPPED] += is_dropped(segment.duration, num_tokens(text))
        return segment.duration

    def close(self) -> None:
        self._tar.close()


class _RawPart(RecordWriter):
    """Writes a part of a data list."""

    def __init__(self, contents: ExportContents, unit: RecordUnit, writer: UnitWriter, options: WenetOptions) -> None:
        self._contents = contents
        self._writer = writer
        self._relative_to = options.relative_to
        self._lines = writer.open_part(_LINES_NAME.format(unit.id))

    def add(self, number: int, record: Record) -> float:
        text = record.text("text") or ""
        segment = self._contents.segment(number, record, WENET_RAW)
        path, info = segment.name, segment.info
        if not info.is_passable:
            unreadable(path, f"cannot be read by WeNet as it is; without {option('--raw')} it is encoded again")
        if segment.channel:
            raise RecordRejected(
                RejectReason.BAD_FIELD, f"channel is {segment.channel}; a data list has no channels: leave out --raw"
            )
        end = segment.start + segment.num_samples
        span = (seconds_at(segment.start, info.sampling_rate), seconds_at(end, info.sampling_rate))
        key = self._contents.id_of(number, record)
        listed = _listed(path, self._relative_to)
        self._lines.write(raw_line(key, listed, text, None if segment.has_all_samples else span))
        if segment.has_several_channels:
            self._writer.extra[SEVERAL_CHANNELS] += 1
        self._writer.extra[DROPPED] += is_dropped(segment.duration, num_tokens(text))
        return segment.duration


def _listed(path: str, relative_to: Path | None) -> str:
    return path if relative_to is None else os.path.relpath(path, absolute_folder(str(relative_to)))


def manifest_to_wenet(options: ManifestToWenet) -> Report:
    """Turn manifests into shards for WeNet, or into a data list.

    Returns:
        The report of the run; `outputs["data_list"]` is the list to train with.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_wenet("manifest.json", "wenet", shard_size=16)
        >>> report.records_out
        48
        >>> report.outputs["data_list"]
        '/.../wenet/shards.list'
    """
    manifests, workspace, engine = open_run(options)
    if options.raw:
        refuse_containers(manifests, "--raw")
    return run_job(WenetJob(manifests, options, options.out, engine.num_workers), workspace, engine)
