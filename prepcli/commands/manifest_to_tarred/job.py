"""manifest-to-tarred: NeMo manifests to numbered tar shards with manifests."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from prepcli.audio.channels import SEVERAL_CHANNELS, channels_note
from prepcli.audio.convert import EncodedAudio, TargetFormat, convert, copy, read_file
from prepcli.audio.info import AudioInfo
from prepcli.audio.limits import SAME_SECONDS
from prepcli.audio.probe import probe_bytes, probe_file
from prepcli.audio.read import segment_samples
from prepcli.commands.manifest_to_tarred.layout import TarredLayout
from prepcli.commands.manifest_to_tarred.merge import bucketing, merge_set
from prepcli.commands.manifest_to_tarred.options import TarredOptions
from prepcli.commands.manifest_to_tarred.plan import plan_sets
from prepcli.commands.manifest_to_tarred.present import TEXT, TEXT_KEY, PresentRecords
from prepcli.commands.manifest_to_tarred.sections import shard_counts, shards_note, uneven_after_rejects, write_sections
from prepcli.commands.manifest_to_tarred.stems import TakenNames
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.job import Advance
from prepcli.engine.run.workers import UnitJob
from prepcli.engine.state.plan import Plan, Unit
from prepcli.engine.state.store_output import OutputSizes
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected
from prepcli.formats.indexes import INDEX_SUFFIX, LineWriter, SampleTarWriter, indexes_of
from prepcli.formats.names import (
    in_shard,
    marked_root,
    member_stem,
    normal_path,
    segment_suffix,
    tagged,
)
from prepcli.formats.tarred import (
    OUTPUT_PATTERNS,
    SHARD_MANIFEST_NAME,
    TAR_NAME,
    ExistingSet,
    names_of_version,
)
from prepcli.interface.options import shown_defaults
from prepcli.jobs.records import Records, settings_over
from prepcli.manifest.parts import KeyFunction
from prepcli.manifest.record import Record
from prepcli.manifest.seconds import notes_on_limit, typical_seconds
from prepcli.planning.arrays import Growing, Scratch, Values
from prepcli.processes.in_hand import take_in_hand
from prepcli.storage.input_files import state_of
from prepcli.storage.paths import NUMBER, path_of

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class TarShard(Unit):
    """A shard: its number, and the records `records[lo:hi]` of set `set_number` of the layout."""

    set_number: int
    number: int
    lo: int
    hi: int


def number_of(unit: Unit) -> int:
    """The number of the shard that a unit of a stored plan stands for."""
    return int(unit.id.rpartition("_")[2])


@dataclass(frozen=True, slots=True)
class TarredContents:
    """The records, their division into shards, and the names taken in the set to which they are added."""

    records: Records
    layout: TarredLayout
    taken: TakenNames | None


TarredPlan = Plan[TarShard, TarredContents]


@dataclass(frozen=True, slots=True)
class _Member:
    """A tar member of this shard, for the next record with the same audio."""

    name: str
    info: AudioInfo
    sampling_rate: int


class TarredJob(UnitJob[TarShard, TarredContents]):
    """Turns manifests into a tarred set; with `base`, adds shards to an existing set. A unit is a shard."""

    command: ClassVar[str] = "manifest-to-tarred"
    defaults = shown_defaults(TarredOptions)

    def __init__(
        self,
        manifests: Sequence[str],
        options: TarredOptions,
        base: ExistingSet | None = None,
        num_workers: int = 1,
        num_replaced: int = 0,
    ) -> None:
        """`num_replaced`: the number of shards that an earlier run has planned, which `--overwrite` removes."""
        options.check()
        self.manifests = manifests
        self.options = options.decided()
        self.base = base
        self._num_replaced = num_replaced
        self.wanted = TargetFormat(options.force_codec, options.target_sample_rate)
        self._num_workers = num_workers

    def output_patterns(self, plan: TarredPlan) -> Sequence[str]:
        """Shards, manifests and metadata; for a concatenation only the new shards and the new version."""
        if self.base is not None:
            num_shards = max(len(plan.units), self._num_replaced)
            return names_of_version(self.base.version + 1, self.base.num_shards, num_shards)
        return [*OUTPUT_PATTERNS, *(f"bucket{NUMBER}/{pattern}" for pattern in OUTPUT_PATTERNS)]

    def made_of(self, found: OutputSizes, name: str) -> Iterator[str]:
        """The index of a tar or a manifest."""
        return indexes_of(found, name)

    def settings(self, plan: TarredPlan) -> dict[str, Any]:
        """The options, the audio folder, and the version that a concatenation extends."""
        return self.own_settings()

    def own_settings(self) -> dict[str, Any]:
        """The settings, which do not depend on the plan."""
        settings = settings_over(self.manifests, self.options.audio_base_dir, self.options)
        if self.base is not None:
            settings["--concat-to version"] = self.base.version
        return settings

    def plan(self, workspace: Workspace) -> TarredPlan:
        """Index the manifests and divide their records into shards."""
        keys: dict[str, KeyFunction] = {"path": normal_path, "stem": member_stem, "root": marked_root}
        if self.base is not None:
            keys[TEXT_KEY] = TEXT
        records = Records(
            self.manifests,
            self.options.audio_base_dir,
            keys=keys,
            workspace=workspace,
            num_workers=self._num_workers,
        )
        present = None
        if self.base is not None:
            present = PresentRecords.of_manifest(self.base.manifest, self.options.slice_with_offset, self._num_workers)
        layout = self._layout(records, present)
        contents = TarredContents(records, layout, present.names if present else None)
        return records.plan(list(self._units(contents)), contents, layout.left_out, self._notes(records, layout))

    def _layout(self, records: Records, present: PresentRecords | None) -> TarredLayout:
        if not len(records):
            return TarredLayout(sets=[])
        base = None if self.base is None else [self.base.version, tuple(state_of(self.base.manifest))]

        def make(scratch: Scratch) -> Values:
            layout = plan_sets(records.index, self.options, present.names if present else None, scratch)
            if present is not None and not self.options.allow_duplicates:
                present.refuse(records, layout)
            return layout.to_values()

        what = [self.command, self.own_settings(), base, self.options.allow_duplicates]
        return TarredLayout.from_values(records.layout(what, make))

    def _units(self, contents: TarredContents) -> Iterator[TarShard]:
        first = self.base.num_shards if self.base else 0
        for set_number, tar_set in enumerate(contents.layout.sets):
            prefix = f"{tar_set.folder.replace('/', '-')}shard_"
            places = pairwise(tar_set.bounds.tolist())
            for k, ((lo, hi), seconds) in enumerate(zip(places, tar_set.seconds.tolist(), strict=True), first):
                yield TarShard(f"{prefix}{k:06d}", seconds, hi - lo, set_number, k, lo, hi)

    def _notes(self, records: Records, layout: TarredLayout) -> list[str]:
        notes = shards_note(shard_counts(layout, self.base))
        notes += notes_on_limit(self.options.max_duration, typical_seconds(records.index.duration))
        if layout.num_same_segment:
            notes.append(f"{layout.num_same_segment:,} records name the same segment as an earlier one; they are kept")
        num_repeated = layout.num_repeated
        if num_repeated and not self.options.slice_with_offset:
            notes.append(
                f"{num_repeated:,} records are segments of files that go into several shards, a copy into each; "
                "--keep-files-together or --slice-with-offset would avoid the copies"
            )
        return notes

    def missing_sample(self, plan: TarredPlan) -> str | None:
        """Looks for a few audio files of the manifests."""
        return None if self.options.only_manifests else plan.contents.records.missing_sample()

    def planned_rejects(self, plan: TarredPlan) -> Iterator[bytes]:
        """Unreadable lines and records that the options leave out, in input order."""
        return plan.contents.records.planned_rejects(plan.contents.layout.left_out)

    def process(self, plan: TarredPlan, unit: TarShard, writer: UnitWriter, advance: Advance) -> None:
        """Write one shard: its tar, its manifest, and the indexes of both last."""
        records, tar_set = plan.contents.records, plan.contents.layout.sets[unit.set_number]
        options = self.options
        tar = None
        tar_name = tar_set.folder + TAR_NAME.format(unit.number)
        if not options.only_manifests:
            tar = SampleTarWriter(writer.open(tar_name))
        name = tar_set.folder + SHARD_MANIFEST_NAME.format(unit.number)
        manifest = LineWriter(writer.open(name) if options.shard_manifests else writer.open_part(f"parts/{name}"))
        members: dict[tuple[object, ...], _Member] = {}
        for record_number in records.reading_ahead(tar_set.records[unit.lo : unit.hi].tolist()):
            try:
                record = Record.parse(records.line(record_number))
                changes, remove = self._place(plan.contents, record_number, record, unit.number, members, tar)
            except RecordRejected as rejected:
                writer.reject(records.reject_source(record_number), rejected, records.origin(record_number))
            else:
                manifest.add(record.to_json(changes, remove) + b"\n")
                writer.count(1, record.duration)
            advance(1, float(records.index.duration[record_number]))
        if tar is not None:
            tar.close()
        if several := sum(member.info.num_channels > 1 for member in members.values()):
            writer.extra[SEVERAL_CHANNELS] += several
        if options.index and tar is not None:
            writer.add_after(tar_name + INDEX_SUFFIX, tar.index)
        if options.index and options.shard_manifests:
            writer.add_after(name + INDEX_SUFFIX, manifest.index)

    def _place(
        self,
        contents: TarredContents,
        number: int,
        record: Record,
        shard: int,
        members: dict[tuple[object, ...], _Member],
        tar: SampleTarWriter | None,
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Store the record's audio unless the shard has it; return the changes to its manifest line."""
        path = contents.records.audio_path(number, record.audio_filepath)
        sliced = self.options.slice_with_offset
        key = (path, record.offset, record.duration) if sliced else (path,)
        stem = self._stem(contents, number, record, shard)
        changes: dict[str, Any] = {"shard_id": shard}
        if tar is None:
            extension = self.options.force_codec or os.path.splitext(path)[1][1:].lower() or "wav"
            changes |= {"audio_filepath": f"{stem}.{extension}", "abs_audio_filepath": path}
        else:
            member = members.get(key)
            if member is None:
                info, stored = self._load(path, record)
                member = _Member(f"{stem}.{stored.format}", info, stored.sampling_rate)
                tar.add(member.name, stored.data)
                members[key] = member
            else:
                segment_samples(member.info, record.offset, record.duration)  # reject what ends beyond the file
            changes["audio_filepath"] = member.name
            changes |= self._rate_changes(record, member)
            if not sliced and not record.has_offset and record.duration < member.info.duration - SAME_SECONDS:
                changes["offset"] = 0.0  # the beginning of a longer file: say so
        if sliced:
            changes["source_audio_offset"] = record.fields["offset"] if record.has_offset else 0.0
            return changes, ("offset",)
        return changes, () if record.has_offset or "offset" in changes else ("offset",)

    def _stem(self, contents: TarredContents, number: int, record: Record, shard: int) -> str:
        stem = member_stem(record.audio_filepath)
        if contents.layout.ambiguous[number]:
            records = contents.records
            folder = records.base_dirs.index(records.base_dir(number))
            stem = tagged(stem, folder, normal_path(record.audio_filepath))
        if self.options.slice_with_offset:
            stem += segment_suffix(record.offset, record.duration)
        if contents.layout.repeated[number]:
            stem = in_shard(stem, shard)
        return stem if contents.taken is None else contents.taken.free(stem)

    def _rate_changes(self, record: Record, member: _Member) -> Mapping[str, int]:
        """The rate (Hz) of what is stored: with it, NeMo makes a cut without opening the audio."""
        changes = {"sampling_rate": member.sampling_rate}
        if member.sampling_rate != member.info.sampling_rate and "sample_rate" in record.fields:
            changes["sample_rate"] = member.sampling_rate
        return changes

    def _load(self, path: str, record: Record) -> tuple[AudioInfo, EncodedAudio]:
        """Read and check the record's audio; cut and encode it if requested."""
        take_in_hand(path, record.offset, record.duration)
        if self.options.slice_with_offset:
            info = probe_file(path)
            start, num_samples = segment_samples(info, record.offset, record.duration)
            if (start, num_samples) == (0, info.num_samples) and self.wanted.is_met_by(info):
                return info, self._copy(read_file(path), info, path)
            return info, convert(path, info, self.wanted, start, num_samples, name=path)
        data = read_file(path)
        info = probe_bytes(data, path)
        segment_samples(info, record.offset, record.duration)
        if self.wanted.is_met_by(info):
            return info, self._copy(data, info, path)
        return info, convert(data, info, self.wanted, name=path)

    def _copy(self, data: bytes, info: AudioInfo, path: str) -> EncodedAudio:
        return copy(data, info, decode=self.options.check_audio, name=path)

    def finish(self, plan: TarredPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Write the manifest and metadata of each set."""
        created = max(path_of(path).stat().st_mtime for path in self.manifests)
        details: dict[str, Any] = {}
        bins: dict[str, Any] = {}
        durations = Growing(writer.folder, np.float64)
        for tar_set in plan.contents.layout.sets:
            paths, bins = merge_set(writer, tar_set, self.options, self.base, created, durations)
            details |= paths
        if self.options.buckets_num > 1:  # the Lhotse loader mixes the buckets, and makes its own of the bins
            bins = bucketing(durations, self.options)
        if details:
            details |= uneven_after_rejects(plan.contents.layout, self.base, markers)
            workspace, with_tars = writer.workspace, not self.options.only_manifests
            layout = plan.contents.layout
            details["train_ds"] = write_sections(workspace, self.command, layout, self.base, details, bins, with_tars)
        return details | channels_note((marker.extra for marker in markers), "files", "make mono files first")
