"""Writes the shards of a tarred set."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from prepcli.audio.channels import MIX, SEVERAL_CHANNELS
from prepcli.audio.info import AudioInfo
from prepcli.audio.limits import SAME_SECONDS, segment_samples
from prepcli.audio.opening import read_whole
from prepcli.audio.probe import probe
from prepcli.audio.segments import (
    TARRED,
    TARRED_SLICES,
    EncodedAudio,
    Segment,
    TargetFormat,
    encoded,
    locate,
    with_channel,
)
from prepcli.commands.manifest_to_tarred.options import TarForm
from prepcli.commands.manifest_to_tarred.planning import TarredContents, TarShard
from prepcli.commands.manifest_to_tarred.stems import free_stem
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.errors import RecordRejected
from prepcli.formats.indexes import INDEX_SUFFIX, IndexedLines, SampleTarWriter
from prepcli.formats.names import in_shard, member_stem, normal_path, segment_suffix, tagged
from prepcli.formats.tarred import SHARD_MANIFEST_NAME, TAR_NAME
from prepcli.gate import rate_changes
from prepcli.jobs.row_names import name_of
from prepcli.jobs.source import items
from prepcli.manifest.record import Record


def write_shard(contents: TarredContents, unit: TarShard, writer: UnitWriter, form: TarForm) -> None:
    """Write a shard: its tar and its manifest first, then the indexes of both."""
    shard = _Shard(contents, unit, writer, form)
    for item in items(contents, unit, writer):
        with item:
            shard.add(item.number, item.record)
    shard.close()


class _Member(NamedTuple):
    """A tar member of this shard, kept for the next record with the same audio."""

    name: str
    info: AudioInfo
    sampling_rate: int
    has_several_channels: bool


NO_TEXT = "without_text"
"""The key of the count of records without text."""


class _Shard:
    """Writes a shard: its tar and its manifest first, then the indexes of both."""

    def __init__(self, contents: TarredContents, unit: TarShard, writer: UnitWriter, form: TarForm) -> None:
        self._contents = contents
        self._writer = writer
        self._form = form
        self._wanted = TargetFormat(form["force_codec"], form["target_sample_rate"])
        self._policy = with_channel(TARRED_SLICES if form["slice_with_offset"] else TARRED, form["channel"])
        self._number = unit.number
        folder = contents.layout.sets[unit.set_number].folder
        self._tar_name = folder + TAR_NAME.format(unit.number)
        self._name = folder + SHARD_MANIFEST_NAME.format(unit.number)
        self._tar = None if form["only_manifests"] else SampleTarWriter(writer.open(self._tar_name))
        self._manifest = IndexedLines(
            writer.open(self._name) if form["shard_manifests"] else writer.open_part(f"parts/{self._name}")
        )
        self._members: dict[tuple[object, ...], _Member] = {}
        self._unusable: dict[str, RecordRejected] = {}  # files, whose segments would each decode them as far as they go

    def add(self, number: int, record: Record) -> None:
        """Write a record, completely or not at all."""
        changes, remove = self._place(number, record)
        changes |= self._contents.records.other_audio(number, record)
        self._manifest.add(record.to_json(changes, remove) + b"\n")
        if record.get("text") in (None, ""):
            self._writer.extra[NO_TEXT] += 1

    def close(self) -> None:
        """Complete the files, and write their indexes."""
        writer, form = self._writer, self._form
        if several := sum(member.has_several_channels for member in self._members.values()):
            writer.extra[SEVERAL_CHANNELS] += several
        if self._tar is not None:
            self._tar.close()
            if form["index"]:
                writer.add_after(self._tar_name + INDEX_SUFFIX, self._tar.index)
        if form["index"] and form["shard_manifests"]:
            writer.add_after(self._name + INDEX_SUFFIX, self._manifest.index)

    def _place(self, number: int, record: Record) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Store the record's audio unless the shard already has it.

        Returns:
            The fields to set in the record's manifest line, and the names of the fields to remove.
        """
        tar, members = self._tar, self._members
        path = self._contents.records.audio_path(number, record.audio_filepath)
        sliced = self._form["slice_with_offset"]
        channel = self._own_channel(record)
        key = (path, channel, record.offset, record.duration) if sliced else (path, channel)
        stem = self._stem(number, record, channel)
        changes: dict[str, Any] = {"shard_id": self._number}
        if tar is None:
            extension = self._form["force_codec"] or os.path.splitext(path)[1][1:].lower() or "wav"
            changes |= {"audio_filepath": f"{stem}.{extension}", "abs_audio_filepath": path}
        else:
            member = members.get(key)
            if member is None:
                segment, stored = self._load(path, record)
                name = f"{stem}.{stored.format}"
                member = _Member(name, segment.info, stored.sampling_rate, segment.has_several_channels)
                tar.add(member.name, stored.data)
                members[key] = member
            else:
                segment_samples(member.info, record.offset, record.duration)  # rejects segments that end after the file
            changes["audio_filepath"] = member.name
            changes |= self._rate_changes(record, member)
            if not sliced and not record.has_offset and record.duration < member.info.duration - SAME_SECONDS:
                changes["offset"] = 0.0  # the beginning of a longer file is marked by its offset
        if sliced:
            changes["source_audio_offset"] = record.fields["offset"] if record.has_offset else 0.0
            return changes, ("offset",)
        return changes, () if record.has_offset or "offset" in changes else ("offset",)

    def _stem(self, number: int, record: Record, channel: str | None) -> str:
        contents = self._contents
        stem = member_stem(name_of(record, contents.by_id))
        if contents.layout.ambiguous[number]:
            records = contents.records
            folder = records.base_dirs.index(records.base_dir(number))
            stem = tagged(stem, folder, normal_path(record.audio_filepath))
        if channel is not None:
            stem = tagged(stem, "channel", channel)
        if self._form["slice_with_offset"]:
            stem += segment_suffix(record.offset, record.duration)
        if contents.layout.repeated[number]:
            stem = in_shard(stem, self._number)
        return stem if contents.taken is None else free_stem(stem, contents.taken)

    def _own_channel(self, record: Record) -> str | None:
        """The value of the record's field `channel` as text, if it takes precedence over `--channel`; else None."""
        chosen = self._policy.chosen
        if chosen in (None, MIX):
            return None
        own = record.get("channel")
        return None if own is None or (type(own) is int and own == chosen) else repr(own)

    def _rate_changes(self, record: Record, member: _Member) -> Mapping[str, int]:
        """The fields to set in a record's line: the rate of the stored audio in Hz.

        With the rate in the line, NeMo makes a cut without opening the audio.
        """
        return {"sampling_rate": member.sampling_rate} | rate_changes(record.fields, member.sampling_rate)

    def _load(self, path: str, record: Record) -> tuple[Segment, EncodedAudio]:
        """Read and check the record's audio, and cut and encode it if requested; returns its segment, and the bytes."""
        if (known := self._unusable.get(path)) is not None:
            raise RecordRejected(known.reason, known.detail)
        # A slice needs only its own bytes in most formats.
        source = path if self._form["slice_with_offset"] else read_whole(path, path)
        try:
            info = probe(source, path)
        except RecordRejected as rejected:
            self._unusable[path] = rejected
            raise
        place = record.offset, record.duration, record.get("channel")
        segment = locate(source, info, *place, self._policy, path)
        return segment, encoded(segment, self._wanted, self._policy, check=self._form["check_audio"])
