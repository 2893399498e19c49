"""Writes the shards, the lists, and the notes of `manifest-to-wenet`."""

import os
from collections.abc import Sequence
from typing import Any

from prepcli.audio.channels import SEVERAL_CHANNELS, channels_note
from prepcli.audio.info import FFMPEG, unreadable
from prepcli.audio.segments import WENET_RAW, Segment
from prepcli.commands.exports.records import Conversion, ExportContents, ExportPlan
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.errors import RecordRejected, RejectReason, option
from prepcli.formats.names import absolute_folder
from prepcli.formats.wenet import (
    LIST_NAME,
    RAW_LIST_NAME,
    WenetWriter,
    check_listable,
    is_dropped,
    num_tokens,
    raw_line,
    seconds_at,
)
from prepcli.interface.options import PathText
from prepcli.interface.printing import number_of
from prepcli.jobs.record_job import RecordUnit
from prepcli.jobs.source import items
from prepcli.storage.addresses import is_address
from prepcli.storage.paths import AnyPath

DROPPED = "dropped_by_wenet"
"""The name in markers of the number of utterances that WeNet's default filter would drop."""
_LINES_NAME = "parts/{}.list"


def listed_folder(out: AnyPath, relative_to: PathText | None) -> str:
    """The folder of the shards, as their list names it; `.` in an object store.

    Raises:
        UsageError: a list cannot hold the folder.
    """
    folder = "." if is_address(out) else _listed(absolute_folder(str(out)), relative_to)
    check_listable(folder)
    return folder


def _listed(path: str, relative_to: PathText | None) -> str:
    return path if relative_to is None else os.path.relpath(path, absolute_folder(str(relative_to)))


def write_shard(
    contents: ExportContents, unit: RecordUnit, writer: UnitWriter, name: str, conversion: Conversion
) -> None:
    """Write a tar of utterances."""
    tar = WenetWriter(writer.open(name))
    for item in items(contents, unit, writer):
        with item:
            text = item.record.text("text") or ""
            key = contents.id_of(item.number, item.record)
            segment, stored = contents.load_audio(item.number, item.record, conversion)
            tar.add_utterance(key, text, stored.format, stored.data)
            item.seconds = segment.duration
            _count(writer, segment, text)
    tar.close()


def write_lines(contents: ExportContents, unit: RecordUnit, writer: UnitWriter, relative_to: PathText | None) -> None:
    """Write a part of a data list; its paths start from the folder `relative_to`, or are absolute."""
    lines = writer.open_part(_LINES_NAME.format(unit.id))
    for item in items(contents, unit, writer):
        with item:
            text = item.record.text("text") or ""
            segment = contents.segment(item.number, item.record, WENET_RAW)
            span = _span(segment)
            key = contents.id_of(item.number, item.record)
            lines.write(raw_line(key, _listed(segment.name, relative_to), text, span))
            item.seconds = segment.duration
            _count(writer, segment, text)


def _span(segment: Segment) -> tuple[float, float] | None:
    """The seconds at which a segment begins and ends; None for a whole file.

    Files that are read through ffmpeg here, torchaudio reads through ffmpeg as well; only where a segment in the middle
    of such a file begins depends on the decoder.
    """
    is_read_by_ffmpeg = segment.info.format == FFMPEG and segment.start == 0
    if not segment.info.is_passable and not is_read_by_ffmpeg:
        unreadable(segment.name, f"cannot be read by WeNet as it is; without {option('--raw')} it is encoded again")
    if segment.channel:
        raise RecordRejected(
            RejectReason.BAD_FIELD, f"channel is {segment.channel}; a data list has no channels: leave out --raw"
        )
    if segment.has_all_samples:
        return None
    places = segment.start, segment.start + segment.num_samples
    start, end = (seconds_at(place, segment.info.sampling_rate) for place in places)
    return start, end


def _count(writer: UnitWriter, segment: Segment, text: str) -> None:
    if segment.has_several_channels:
        writer.extra[SEVERAL_CHANNELS] += 1
    writer.extra[DROPPED] += is_dropped(segment.duration, num_tokens(text))


def join_lines(markers: Sequence[Marker], writer: UnitWriter) -> None:
    """Make the data list of its parts."""
    writer.join(RAW_LIST_NAME, (_LINES_NAME.format(marker.unit) for marker in markers))


def notes(plan: ExportPlan, markers: Sequence[Marker], writer: UnitWriter, raw: bool) -> dict[str, Any]:
    """The path of the list and its `data_type`, and notes for the user.

    One note counts the utterances that WeNet's default filter would drop.
    """
    details: dict[str, Any] = {"data_list": writer.workspace.out / (RAW_LIST_NAME if raw else LIST_NAME)}
    if is_address(writer.workspace.out):
        details["in_store"] = (
            "WeNet does not read s3://, so the list has names without a folder: copy the set down or mount it, and "
            "train in its folder"
        )
    details["data_type"] = "raw" if raw else "shard"
    if not plan.contents.ids.given and plan.contents.records.index.keys["id"].any():
        details["keys"] = (
            "made of the names of files: not all records have an id of their own that is unique and without blanks "
            "and slashes"
        )
    counts = totals(markers)
    if counts[DROPPED]:
        details["filter"] = (
            f"{number_of(counts[DROPPED], 'record')} would be dropped by WeNet's default filter_conf (10 to 10,240 "
            "frames, 1 to 200 characters)"
        )
    return details | channels_note(counts[SEVERAL_CHANNELS], "records")
