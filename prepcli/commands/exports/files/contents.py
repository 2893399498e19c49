"""The files that `convert-audio` makes: their names, the units of their records, and how they are written."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.channels import MIX, SEVERAL_CHANNELS
from prepcli.audio.segments import Policy, Segment
from prepcli.commands.exports.records import AudioContents, Conversion
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.formats.names import digest, normal_path, plain_stem, segment_suffix
from prepcli.gate import rate_changes
from prepcli.jobs.merging import PartWriter
from prepcli.jobs.record_job import RecordUnit, even_bounds, units_of
from prepcli.jobs.records import file_identity, segment_identity
from prepcli.jobs.row_names import name_of, take_ids, with_ids
from prepcli.jobs.source import RecordSource, items
from prepcli.manifest.index import ManifestIndex
from prepcli.manifest.parts import FieldKey, KeyFunction
from prepcli.manifest.record import Record
from prepcli.planning.arrays import Scratch, Values
from prepcli.planning.hashing import have_several, mix64, num_distinct
from prepcli.planning.split import at_group_ends, by_count, in_order, order_by_group, seconds_of, selected
from prepcli.storage.paths import AnyPath

RECORDS_PER_UNIT = 64
"""Number of records per unit; it is small, because a record may be a long file."""
_KEYS: dict[str, KeyFunction] = {"path": normal_path, "stem": plain_stem}
_CHANNEL = FieldKey("channel", str, is_optional=True)
_OFFSET = "source_audio_offset"


@dataclass(frozen=True, slots=True)
class ConvertContents(AudioContents):
    """The records, grouped by the files that are made from them.

    Attributes:
        ambiguous: for each record, whether another file has the same stem.
        shared: for each record, whether other segments or channels of its file are records too.
    """

    ambiguous: NDArray[np.bool_]
    shared: NDArray[np.bool_]

    def numbers(self, unit: RecordUnit) -> list[int]:
        """The numbers of the unit's records, ascending."""
        return sorted(super(ConvertContents, self).numbers(unit))

    def stem_of(self, number: int, record: Record, channel: object) -> str:
        """The path of the record's new file below OUT, without its extension, such as `a/talk`.

        If the new files of two old files would have the same path, a digest is appended. If several segments or
        channels of the old file are records, the offset, the duration and the channel are appended: 2 s from 1.5 s on
        in channel 1 become `a/talk@1_5_2_0@c1`.
        """
        records, path = self.records, record.audio_filepath
        parts = [plain_stem(name_of(record, self.by_id))]
        if self.ambiguous[number]:
            parts.append(digest(records.base_dirs.index(records.base_dir(number)), normal_path(path)))
        if self.shared[number]:
            parts.append(segment_suffix(record.offset, record.duration)[1:])
            if type(channel) in (int, str):
                parts.append(f"c{channel}" if type(channel) is int else f"c{digest(str(channel))}")
        return "@".join(parts)


def plan_files(source: RecordSource, workspace: Workspace, policy: Policy) -> Plan[RecordUnit, ConvertContents]:
    """Index the manifests, and divide their records into units. Records that share a file are in one unit."""
    keys = with_ids(_KEYS, source.manifests) | ({"channel": _CHANNEL} if policy.chosen != MIX else {})
    records = source.read(workspace, keys)
    by_id = take_ids(records.index)
    values = dict(source.layout(records, lambda scratch: _divide(records.index, source.audio_base_dir, scratch)))
    bounds, seconds = (values.pop(name).tolist() for name in ("bounds", "seconds"))
    units = units_of("files", bounds, seconds, make=RecordUnit)
    return records.plan(units, ConvertContents(records, by_id=by_id, **values))


def _divide(index: ManifestIndex, audio_base_dir: AnyPath | None, scratch: Scratch) -> Values:
    """The `order` of the records, the `bounds` of the units in this order, and the `seconds` of audio of each unit.

    `ambiguous` and `shared` are those of `ConvertContents`.
    """
    files = file_identity(index, audio_base_dir, scratch)
    stored = segment_identity(index, files, scratch)
    if "channel" in index.keys:
        stored = mix64(stored ^ index.keys["channel"])
    ambiguous, shared = scratch.zeros(len(index), bool), scratch.zeros(len(index), bool)
    num_files, num_stored = num_distinct(files), num_distinct(stored)
    if num_distinct(index.keys["stem"]) != num_files:
        have_several(index.keys["stem"], files, ambiguous)
    if num_files != len(files):
        have_several(files, stored, shared)
    order, bounds = in_order(len(index), None, scratch), even_bounds(len(index), RECORDS_PER_UNIT)
    if num_stored != len(stored):  # records that share a file go into one unit, which writes it once
        order = order_by_group(stored, scratch)
        bounds = by_count(len(index), min(len(bounds) - 1, num_stored))
        bounds = at_group_ends(bounds, selected(stored, order, scratch))
    seconds = seconds_of(index.duration, order, bounds)
    return {"order": order, "bounds": bounds, "seconds": seconds, "ambiguous": ambiguous, "shared": shared}


class _Stored(NamedTuple):
    """A file of this unit: its path below OUT, its rate (Hz), and the segment that it holds."""

    name: str
    sampling_rate: int
    segment: Segment


def write_files(contents: ConvertContents, unit: RecordUnit, writer: UnitWriter, wanted: Conversion) -> None:
    """Write the files of a unit, and its lines of the manifest."""
    lines = PartWriter(writer)
    files: dict[str, _Stored] = {}
    for item in items(contents, unit, writer):
        with item:
            number, record = item.number, item.record
            channel = record.get("channel") if wanted.policy.chosen != MIX else None
            stem = contents.stem_of(number, record, channel)
            stored = files.get(stem)
            if stored is None:
                segment, audio = contents.load_audio(number, record, wanted)
                stored = _Stored(f"{stem}.{audio.format}", audio.sampling_rate, segment._replace(source=""))
                line = _line(contents, number, record, stored)
                writer.add(stored.name, audio.data)
                files[stem] = stored
            else:
                contents.segment(number, record, wanted.policy)  # rejects a channel that is not a number
                line = _line(contents, number, record, stored)
            lines.add(number, line)
            item.seconds = stored.segment.duration
            writer.extra[SEVERAL_CHANNELS] += stored.segment.has_several_channels
    lines.close()


def _line(contents: ConvertContents, number: int, record: Record, stored: _Stored) -> bytes:
    """The line of the new manifest for a record whose audio is in the file `stored`."""
    changes = contents.records.absolute_paths(number, record) | {"audio_filepath": stored.name}
    if record.has_offset:
        changes[_OFFSET] = record.fields["offset"]
    changes |= rate_changes(record.fields, stored.sampling_rate)
    return record.to_json(changes, ("offset",)) + b"\n"
