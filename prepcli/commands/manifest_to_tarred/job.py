"""manifest-to-tarred: turns NeMo manifests into numbered tar shards with manifests."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from prepcli.audio.channels import MIX, SEVERAL_CHANNELS, channels_note
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
from prepcli.commands.manifest_to_tarred.layout import TarredLayout, TarSet
from prepcli.commands.manifest_to_tarred.merge import bucketing, merge_set
from prepcli.commands.manifest_to_tarred.options import TarredOptions
from prepcli.commands.manifest_to_tarred.present import TEXT, TEXT_KEY, PresentRecords
from prepcli.commands.manifest_to_tarred.sections import shard_counts, uneven_after_rejects, uneven_text, write_sections
from prepcli.commands.manifest_to_tarred.stems import free_stem, with_names
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RejectReason, UsageError, option
from prepcli.formats.indexes import INDEX_SUFFIX, IndexedLines, SampleTarWriter, indexes_of
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
from prepcli.gate import rate_changes
from prepcli.interface.options import shown_defaults
from prepcli.jobs.record_job import RecordContents, RecordJob, RecordUnit, RecordWriter, units_of
from prepcli.jobs.records import Records, file_identity
from prepcli.jobs.row_names import name_of, take_ids, with_ids
from prepcli.manifest.index import ManifestIndex
from prepcli.manifest.parts import KeyFunction
from prepcli.manifest.record import Record
from prepcli.manifest.seconds import notes_on_limit, typical_seconds
from prepcli.planning.arrays import Growing, Scratch, Values
from prepcli.planning.hashing import Hashes
from prepcli.planning.split import (
    Indices,
    at_group_ends,
    by_count,
    by_seconds,
    order_by_group,
    positions_between,
    seconds_of,
    selected,
    shuffled,
)
from prepcli.storage.input_files import state_of
from prepcli.storage.paths import NUMBER, path_of


def plan_sets(
    index: ManifestIndex, options: TarredOptions, taken: Hashes | None = None, scratch: Scratch | None = None
) -> TarredLayout:
    """Divide the records of the index into shards.

    `index.keys` must hold `path` (normal_path), `stem` (member_stem) and `root` (marked_root). `taken`: the sorted keys
    of the stems in the set to which the records are added.

    Raises:
        UsageError: more shards than records, or other options that the records do not fit.
    """
    scratch = scratch or Scratch()
    files = file_identity(index, options.audio_base_dir, scratch)
    low, high = options.min_duration, options.max_duration
    sets: list[TarSet] = []
    left_out: list[tuple[RejectReason, Indices]] = []
    edges = _bucket_edges(options)
    for number, (start, stop) in enumerate(edges):
        folder = f"bucket{number + 1}/" if options.buckets_num > 1 else ""
        records = positions_between(index.duration, start, stop, scratch)
        tar_set, dropped = _divide(folder, start, stop, records, index, files, options, scratch)
        sets.append(tar_set)
        if options.remainder == "drop":
            left_out.append((RejectReason.REMAINDER_DROPPED, dropped))
    if low is not None:
        left_out.append((RejectReason.BELOW_MIN_DURATION, positions_between(index.duration, None, low, scratch)))
    if high is not None:
        left_out.append(
            (RejectReason.ABOVE_MAX_DURATION, positions_between(index.duration, edges[-1][1] or high, None, scratch))
        )
    return with_names(sets, left_out, index, files, options, taken, scratch)


def _bucket_edges(options: TarredOptions) -> list[tuple[float | None, float | None]]:
    """The range [min, max) of each static bucket in seconds, as in NeMo's script; one range without static buckets.

    The ranges have equal widths, and the last one includes its upper end.
    """
    if options.buckets_num == 1 or options.max_duration is None:
        return [(options.min_duration, options.max_duration)]
    low = options.min_duration or 0.0
    width = (options.max_duration - low) / options.buckets_num
    edges = [low + number * width for number in range(options.buckets_num)] + [options.max_duration + 1e-5]
    return list(pairwise(edges))


def _divide(
    folder: str,
    low: float | None,
    high: float | None,
    records: Indices,
    index: ManifestIndex,
    files: Hashes,
    options: TarredOptions,
    scratch: Scratch,
) -> tuple[TarSet, Indices]:
    """Divide `records` into the shards of one set; also returns the records that `--remainder drop` leaves out.

    `low` and `high`: the range of durations of a static bucket in seconds; None without static buckets.
    """
    where = f" in {folder[:-1]} ({low:g} to {high:g} s)" if folder and low is not None and high is not None else ""
    if not len(records):
        limits = (("--min-duration", options.min_duration), ("--max-duration", options.max_duration))
        given = " and ".join(option(name, f"{value:g}") for name, value in limits if value is not None)
        raise UsageError(f"none of the {len(index)} records is left by {given or 'the limits'}{where}")
    if options.shuffle:
        records = selected(records, shuffled(len(records), options.shuffle_seed or 0, scratch), scratch)
    if options.keep_files_together:
        records = selected(records, order_by_group(selected(files, records, scratch), scratch), scratch)
    dropped = records[:0]
    if options.shard_hours is not None:
        durations = selected(index.duration, records, scratch)
        bounds = by_seconds(durations, options.shard_hours * 3600, scratch)
    else:
        num_shards = options.num_shards or -(-len(records) // (options.shard_size or 1))
        if options.remainder == "drop" and options.shard_size:
            num_shards = len(records) // options.shard_size
        if num_shards > len(records) or num_shards == 0:
            raise UsageError(
                f"{len(records)} usable records{where} cannot fill {options.num_shards or 1} shards"
                + (f" of {options.shard_size}" if options.shard_size else "")
                + (f"; lower {option('--num-shards')}" if options.num_shards else f"; lower {option('--shard-size')}")
            )
        if options.remainder == "drop":
            size = options.shard_size or len(records) // num_shards
            dropped = np.sort(records[num_shards * size :])
            records = records[: num_shards * size]
        bounds = by_count(len(records), num_shards)
    if options.keep_files_together:
        bounds = at_group_ends(bounds, selected(files, records, scratch))
    if options.sort_in_shards:
        for lo, hi in pairwise(bounds.tolist()):
            shard = records[lo:hi]
            records[lo:hi] = shard[np.argsort(index.duration[shard], kind="stable")]
    return TarSet(folder, low, high, records, bounds, seconds_of(index.duration, records, bounds)), dropped


@dataclass(frozen=True, slots=True)
class TarShard(RecordUnit):
    """A shard: its number, and the records `records[lo:hi]` of set `set_number` of the layout."""

    set_number: int


@dataclass(frozen=True, slots=True)
class TarredContents(RecordContents):
    """The records, and their division into shards.

    `taken`: the sorted hashes of the stems in the set to which the records are added; None for a new set.
    """

    layout: TarredLayout
    taken: Hashes | None

    def numbers(self, unit: RecordUnit) -> list[int]:
        """The numbers of the shard's records."""
        assert isinstance(unit, TarShard)
        numbers: list[int] = self.layout.sets[unit.set_number].records[unit.lo : unit.hi].tolist()
        return numbers


TarredPlan = Plan[TarShard, TarredContents]


class _Member(NamedTuple):
    """A tar member of this shard, kept for the next record with the same audio."""

    name: str
    info: AudioInfo
    sampling_rate: int
    has_several_channels: bool


_NO_TEXT = "without_text"


class TarredJob(RecordJob[TarShard, TarredContents]):
    """Turns manifests into a tarred set; with `base`, adds shards to an existing set. A unit is a shard."""

    command: ClassVar[str] = "manifest-to-tarred"
    defaults = shown_defaults(TarredOptions)

    def __init__(
        self,
        manifests: Sequence[str],
        options: TarredOptions,
        base: ExistingSet | None = None,
        num_workers: int = 1,
    ) -> None:
        super().__init__(manifests, options, num_workers)
        self.options = options.decided()
        self.base = base
        if base is None:
            self.adding = f"To add records to it, give {option('--concat-to')} instead. "

    def output_patterns(self, plan: TarredPlan) -> Sequence[str]:
        """Globs of shards, manifests and metadata; for an addition, only of its new shards and version."""
        if self.base is not None:
            return names_of_version(self.base.version + 1, self.base.num_shards, len(plan.units))
        return [*OUTPUT_PATTERNS, *(f"bucket{NUMBER}/{pattern}" for pattern in OUTPUT_PATTERNS)]

    def made_of(self, found: OutputFiles, name: str) -> Iterator[str]:
        """The names of the existing indexes of the published file `name`, next to it or in the mirror."""
        return indexes_of(found, name)

    def own_settings(self) -> dict[str, Any]:
        """The options, the folders of relative audio paths, and for an addition the version to which it adds."""
        settings = super().own_settings()
        if self.base is not None:
            settings[f"{option('--concat-to')} version"] = self.base.version
        return settings

    def plan(self, workspace: Workspace) -> TarredPlan:
        """Index the manifests and divide their records into shards."""
        keys: dict[str, KeyFunction] = {"path": normal_path, "stem": member_stem, "root": marked_root}
        if self.base is not None:
            keys[TEXT_KEY] = TEXT
        records = self.read(workspace, with_ids(keys, self.manifests))
        by_id = take_ids(records.index)
        present = None
        if self.base is not None:
            present = PresentRecords.of_manifest(self.base.manifest, self.options.slice_with_offset, self.num_workers)
        layout = self._layout(records, present)
        taken = present.names if present else None
        contents = TarredContents(records, layout, taken, left_out=layout.left_out, by_id=by_id)
        return records.plan(list(self._units(layout)), contents, layout.left_out, self._notes(records, layout))

    def _layout(self, records: Records, present: PresentRecords | None) -> TarredLayout:
        if not len(records):
            return TarredLayout(sets=[])
        base = None if self.base is None else [self.base.version, tuple(state_of(self.base.manifest))]

        def make(scratch: Scratch) -> Values:
            layout = plan_sets(records.index, self.options, present.names if present else None, scratch)
            if present is not None and not self.options.allow_duplicates:
                present.refuse(records, layout)
            return layout.to_values()

        return TarredLayout.from_values(self.layout(records, make, base, self.options.allow_duplicates))

    def _units(self, layout: TarredLayout) -> Iterator[TarShard]:
        first = self.base.num_shards if self.base else 0
        for set_number, one in enumerate(layout.sets):
            name = f"{one.folder.replace('/', '-')}shard"
            make = partial(TarShard, set_number=set_number)
            yield from units_of(name, one.bounds.tolist(), one.seconds.tolist(), first=first, make=make)

    def _notes(self, records: Records, layout: TarredLayout) -> list[str]:
        uneven = uneven_text(shard_counts(layout, self.base)) if self.options.remainder == "drop" else ""
        notes = [f"{uneven}: NeMo's classic loader on several GPUs needs that"] if uneven else []
        notes += notes_on_limit(self.options.max_duration, typical_seconds(records.index.duration))
        if layout.num_same_segment:
            notes.append(f"{layout.num_same_segment:,} records name the same segment as an earlier one; they are kept")
        num_repeated = layout.num_repeated
        if num_repeated and not self.options.slice_with_offset:
            notes.append(
                f"{num_repeated:,} records are segments of files that go into several shards, a copy into each; "
                f"{option('--keep-files-together')} or {option('--slice-with-offset')} would avoid the copies"
            )
        return notes

    def missing_sample(self, plan: TarredPlan) -> str | None:
        """A message if the job reads audio, and a few sampled audio files are all missing; None otherwise."""
        return None if self.options.only_manifests else super().missing_sample(plan)

    def open_unit(self, contents: TarredContents, unit: TarShard, writer: UnitWriter) -> "_Shard":
        """Open a shard: its tar and its manifest."""
        return _Shard(contents, unit, writer, self.options)

    def finish(self, plan: TarredPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Write the manifest and metadata of each set."""
        created = max(path_of(path).stat().st_mtime for path in self.manifests)
        details: dict[str, Any] = {}
        bins: dict[str, Any] = {}
        durations = Growing(writer.folder, np.float64)
        units: dict[int, list[str]] = {}
        for unit in plan.units:
            units.setdefault(unit.set_number, []).append(unit.id)
        for number, tar_set in enumerate(plan.contents.layout.sets):
            paths, bins = merge_set(writer, tar_set, units.get(number, ()), self.options, self.base, created, durations)
            details |= paths
        if self.options.buckets_num > 1:  # the Lhotse loader mixes the buckets, and makes buckets from the bins
            bins = bucketing(durations, self.options)
        if details:
            details |= uneven_after_rejects(plan.contents.layout, self.base, markers)
            if not self.options.only_manifests:  # no loader can read a set without tars
                details["train_ds"] = write_sections(
                    writer, self.command, plan.contents.layout, self.base, markers, details, bins
                )
        if num_without := totals(markers)[_NO_TEXT]:
            details[_NO_TEXT] = f"{num_without:,} records; a model that learns to write text needs one for each"
        return details | channels_note(totals(markers)[SEVERAL_CHANNELS], "files")


class _Shard(RecordWriter):
    """Writes a shard: its tar and its manifest first, then the indexes of both."""

    def __init__(self, contents: TarredContents, unit: TarShard, writer: UnitWriter, options: TarredOptions) -> None:
        self._contents = contents
        self._writer = writer
        self._options = options
        self._wanted = TargetFormat(options.force_codec, options.target_sample_rate)
        self._policy = with_channel(TARRED_SLICES if options.slice_with_offset else TARRED, options.channel)
        self._number = unit.number
        folder = contents.layout.sets[unit.set_number].folder
        self._tar_name = folder + TAR_NAME.format(unit.number)
        self._name = folder + SHARD_MANIFEST_NAME.format(unit.number)
        self._tar = None if options.only_manifests else SampleTarWriter(writer.open(self._tar_name))
        self._manifest = IndexedLines(
            writer.open(self._name) if options.shard_manifests else writer.open_part(f"parts/{self._name}")
        )
        self._members: dict[tuple[object, ...], _Member] = {}

    def add(self, number: int, record: Record) -> float:
        changes, remove = self._place(number, record)
        self._manifest.add(record.to_json(changes, remove) + b"\n")
        if record.get("text") in (None, ""):
            self._writer.extra[_NO_TEXT] += 1
        return record.duration

    def close(self) -> None:
        writer, options = self._writer, self._options
        if several := sum(member.has_several_channels for member in self._members.values()):
            writer.extra[SEVERAL_CHANNELS] += several
        if self._tar is not None:
            self._tar.close()
            if options.index:
                writer.add_after(self._tar_name + INDEX_SUFFIX, self._tar.index)
        if options.index and options.shard_manifests:
            writer.add_after(self._name + INDEX_SUFFIX, self._manifest.index)

    def _place(self, number: int, record: Record) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Store the record's audio unless the shard already has it.

        Returns:
            The fields to set in the record's manifest line, and the names of the fields to remove.
        """
        tar, members = self._tar, self._members
        path = self._contents.records.audio_path(number, record.audio_filepath)
        sliced = self._options.slice_with_offset
        channel = self._own_channel(record)
        key = (path, channel, record.offset, record.duration) if sliced else (path, channel)
        stem = self._stem(number, record, channel)
        changes: dict[str, Any] = {"shard_id": self._number}
        if tar is None:
            extension = self._options.force_codec or os.path.splitext(path)[1][1:].lower() or "wav"
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
        if self._options.slice_with_offset:
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
        # A slice needs only its own bytes in most formats.
        source = path if self._options.slice_with_offset else read_whole(path, path)
        place = record.offset, record.duration, record.get("channel")
        segment = locate(source, probe(source, path), *place, self._policy, path)
        return segment, encoded(segment, self._wanted, self._policy, check=self._options.check_audio)
