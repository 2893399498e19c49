"""convert-audio: writes the audio of manifests to plain files, which are cut, resampled, downmixed or copied."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.channels import MIX, SEVERAL_CHANNELS, channels_note
from prepcli.audio.segments import CONVERT, Segment, TargetFormat, with_channel
from prepcli.commands.exports.files.options import ConvertAudio, ConvertOptions
from prepcli.commands.exports.job import AudioContents
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.formats.names import digest, normal_path, plain_stem, segment_suffix
from prepcli.gate import rate_changes
from prepcli.jobs.merging import PartWriter, write_merged
from prepcli.jobs.record_job import RecordJob, RecordUnit, RecordWriter, even_bounds, open_run, units_of
from prepcli.jobs.records import OWN_AUDIO, file_identity, segment_identity
from prepcli.jobs.row_names import name_of, take_ids, with_ids
from prepcli.manifest.index import ManifestIndex
from prepcli.manifest.parts import FieldKey, KeyFunction
from prepcli.manifest.record import Record, Value
from prepcli.planning.arrays import Scratch, Values
from prepcli.planning.hashing import have_several, mix64, num_distinct
from prepcli.planning.split import at_group_ends, by_count, in_order, order_by_group, seconds_of, selected

MANIFEST_NAME = "manifest.json"
RECORDS_PER_UNIT = 64
"""Number of records per unit; it is small, because a record may be a long file."""
_KEYS: dict[str, KeyFunction] = {"path": normal_path, "stem": plain_stem}
_CHANNEL = FieldKey("channel", str, is_optional=True)
_CONTEXT = "context_audio_filepath"
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


ConvertPlan = Plan[RecordUnit, ConvertContents]


class ConvertJob(RecordJob[RecordUnit, ConvertContents]):
    """Writes the audio of records to plain files. Records that share a file are in one unit."""

    command: ClassVar[str] = "convert-audio"
    options: ConvertOptions

    def __init__(self, manifests: Sequence[str], options: ConvertOptions, num_workers: int = 1) -> None:
        super().__init__(manifests, options, num_workers)
        self.policy = with_channel(CONVERT, options.channel)

    def own_settings(self) -> dict[str, Any]:
        """The options, the audio folders, and the mark `OWN_AUDIO`: this run wrote the audio of its manifest to OUT."""
        return super().own_settings() | {OWN_AUDIO: True}

    def output_patterns(self, plan: ConvertPlan) -> Sequence[str]:
        """The name of the manifest; readers find the files through it."""
        return (MANIFEST_NAME,)

    def plan(self, workspace: Workspace) -> ConvertPlan:
        """Index the manifests, and divide their records into units."""
        by_channel = self.policy.chosen != MIX
        records = self.read(workspace, with_ids(_KEYS, self.manifests) | ({"channel": _CHANNEL} if by_channel else {}))
        by_id = take_ids(records.index)
        values = dict(self.layout(records, lambda scratch: self._divide(records.index, scratch)))
        bounds, seconds = (values.pop(name).tolist() for name in ("bounds", "seconds"))
        units = units_of("files", bounds, seconds, make=RecordUnit)
        return records.plan(units, ConvertContents(records, by_id=by_id, **values))

    def _divide(self, index: ManifestIndex, scratch: Scratch) -> Values:
        """The `order` of the records, the `bounds` of the units in this order, and the `seconds` of audio of each unit.

        `ambiguous` and `shared` are those of `ConvertContents`.
        """
        files = file_identity(index, self.audio_base_dir, scratch)
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

    def open_unit(self, contents: ConvertContents, unit: RecordUnit, writer: UnitWriter) -> RecordWriter:
        """Return the writer of the files of a unit."""
        return _Files(contents, writer, self)

    def finish(self, plan: ConvertPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Merge the manifest lines of all units in the order of the input; returns the path of the manifest."""
        write_merged(MANIFEST_NAME, markers, writer)
        details: dict[str, Any] = {"manifest": writer.workspace.out / MANIFEST_NAME}
        return details | channels_note(totals(markers)[SEVERAL_CHANNELS], "records")


class _Stored(NamedTuple):
    """A file of this unit: its path below OUT, its rate (Hz), and the segment that it holds."""

    name: str
    sampling_rate: int
    segment: Segment


class _Files(RecordWriter):
    """Writes the files of a unit, and its lines of the manifest."""

    def __init__(self, contents: ConvertContents, writer: UnitWriter, job: ConvertJob) -> None:
        self._contents = contents
        self._writer = writer
        self._policy = job.policy
        self._target = TargetFormat(job.options.force_codec, job.options.target_sample_rate)
        self._check = job.options.check_audio
        self._lines = PartWriter(writer)
        self._stored: dict[str, _Stored] = {}

    def add(self, number: int, record: Record) -> float:
        channel = record.get("channel") if self._policy.chosen != MIX else None
        stem = self._contents.stem_of(number, record, channel)
        stored = self._stored.get(stem)
        if stored is None:
            segment, audio = self._contents.load_audio(number, record, self._target, self._policy, check=self._check)
            stored = _Stored(f"{stem}.{audio.format}", audio.sampling_rate, segment._replace(source=""))
            line = self._line(number, record, stored)
            self._writer.add(stored.name, audio.data)
            self._stored[stem] = stored
        else:
            self._contents.segment(number, record, self._policy)  # rejects a channel that is not a number
            line = self._line(number, record, stored)
        self._lines.add(number, line)
        self._writer.extra[SEVERAL_CHANNELS] += stored.segment.has_several_channels
        return stored.segment.duration

    def close(self) -> None:
        self._lines.close()

    def _line(self, number: int, record: Record, stored: _Stored) -> bytes:
        """The line of the new manifest for a record whose audio is in the file `stored`."""
        changes: dict[str, Value] = {"audio_filepath": stored.name}
        if record.has_offset:
            changes[_OFFSET] = record.fields["offset"]
        changes |= rate_changes(record.fields, stored.sampling_rate)
        context = record.get(_CONTEXT)
        if isinstance(context, str) and context:
            changes[_CONTEXT] = self._contents.records.audio_path(number, context)
        return record.to_json(changes, ("offset",)) + b"\n"


def convert_audio(options: ConvertAudio) -> Report:
    """Write the audio of manifests to plain files.

    Returns:
        The report of the run; `outputs["manifest"]` is the manifest of the files.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.convert_audio("manifest.json", "converted", target_sample_rate=8000)
        >>> report.records_out
        48
        >>> report.outputs["manifest"]
        '/.../converted/manifest.json'
    """
    manifests, workspace, engine = open_run(options)
    return run_job(ConvertJob(manifests, options, num_workers=engine.num_workers), workspace, engine)
