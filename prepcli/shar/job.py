"""manifest-to-shar: NeMo manifests, with or without context audio, become numbered Lhotse Shar shards."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

from prepcli.audio.convert import TargetFormat
from prepcli.engine.job import Advance
from prepcli.engine.plan import Plan, Unit
from prepcli.engine.publish import Marker, UnitWriter
from prepcli.engine.workers import UnitJob
from prepcli.engine.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.names import brace_text
from prepcli.formats.shar import (
    AUDIO_NAME,
    CONTEXT,
    CUTS_NAME,
    OUTPUT_PATTERNS,
    TARGET,
    CutWriter,
    FieldWriter,
    Recording,
    recording_id,
    shard_text,
)
from prepcli.manifest.record import Record
from prepcli.records import Records, settings_over
from prepcli.shar.cuts import Entry, of_context, read_entry
from prepcli.shar.options import SharOptions
from prepcli.shar.plan import SharLayout, plan_shards
from prepcli.shar.segments import Audio, Segment, SegmentStore

_T = TypeVar("_T")

MULTI_CHANNEL, OTHER_SPEAKER = "multi_channel", "other_speaker"
"""What the units count for the summary: records with audio of several channels, with a speaker Magpie refuses."""


@dataclass(frozen=True, slots=True)
class _Located:
    """A record that can come out, and where its audio is."""

    number: int
    entry: Entry
    target: Segment
    context: Segment | None

    @property
    def has_several_channels(self) -> bool:
        """Whether a file of the record is not mono."""
        return self.target.channel is not None or (self.context is not None and self.context.channel is not None)


@dataclass(frozen=True, slots=True)
class SharShard(Unit):
    """A shard: its number, and the records `order[lo:hi]` of the layout."""

    number: int
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class SharContents:
    """The records, and how they are divided."""

    records: Records
    layout: SharLayout


SharPlan = Plan[SharShard, SharContents]


class SharJob(UnitJob[SharShard, SharContents]):
    """Turns manifests into a Shar data set. A unit is a shard."""

    command: ClassVar[str] = "manifest-to-shar"

    def __init__(self, manifests: Sequence[str], options: SharOptions, num_workers: int = 1) -> None:
        options.check()
        self.manifests = manifests
        self.options = options
        self.wanted = TargetFormat(
            None if options.audio_format == "original" else options.audio_format, options.sampling_rate
        )
        self._num_workers = num_workers

    def output_patterns(self, plan: SharPlan) -> Sequence[str]:
        """Cuts and tars."""
        return OUTPUT_PATTERNS

    def settings(self, plan: SharPlan) -> dict[str, Any]:
        """The options, and where the audio lies."""
        return settings_over(self.manifests, self.options.audio_base_dir, self.options)

    def plan(self, workspace: Workspace) -> SharPlan:
        """Index the manifests and divide their records into shards."""
        records = Records(
            self.manifests,
            self.options.audio_base_dir,
            keys={"recording": recording_id},
            spool=workspace.spool,
            num_workers=self._num_workers,
        )
        layout = plan_shards(records.index, self.options)
        durations = records.index.duration[layout.order]
        units = [
            SharShard(f"shard_{number:06d}", float(durations[lo:hi].sum()), hi - lo, number, lo, hi)
            for number, (lo, hi) in enumerate(pairwise(layout.bounds.tolist()))
        ]
        return records.plan(units, SharContents(records, layout))

    def planned_rejects(self, plan: SharPlan) -> Iterator[bytes]:
        """Lines that could not be read, in input order."""
        return plan.contents.records.planned_rejects()

    def process(self, plan: SharPlan, unit: SharShard, writer: UnitWriter, advance: Advance) -> None:
        """Write one shard: the tars, and the cuts last, for readers list by them."""
        records, layout = plan.contents.records, plan.contents.layout
        name = shard_text(unit.number)
        target = FieldWriter(writer.open(AUDIO_NAME.format(TARGET, name)))
        context = FieldWriter(writer.open(AUDIO_NAME.format(CONTEXT, name))) if layout.has_context else None
        cuts = CutWriter(writer.open(CUTS_NAME.format(name)))
        with SegmentStore(self.wanted, writer.workspace.tmp, check_audio=self.options.check_audio) as store:
            # Twice over the records: what is needed again must be known before the first is encoded.
            usable = _locate(plan.contents, layout.order[unit.lo : unit.hi].tolist(), store, writer, advance)
            for found in usable:
                try:
                    # All of a record before any of it is written, so that the fields stay aligned.
                    target_audio = store.take(found.target)
                    context_audio = None if found.context is None else _of_context(store.take, found.context)
                except RecordRejected as rejected:
                    writer.reject(records.reject_source(found.number), rejected, records.origin(found.number))
                else:
                    entry = found.entry
                    _add(target, entry.id, entry.id, target_audio)
                    if context is not None and context_audio is not None:
                        _add(context, entry.id, entry.context_id, context_audio)
                    cut = entry.cut(target_audio.sampling_rate, target_audio.num_samples)
                    cuts.add(cut)
                    writer.count(1, cut.duration)
                    writer.extra[MULTI_CHANNEL] += found.has_several_channels
                    writer.extra[OTHER_SPEAKER] += not entry.is_magpies
                advance(1, found.entry.target.duration)
        target.close()
        if context is not None:
            context.close()
        cuts.close()

    def finish(self, plan: SharPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Nothing to merge; returns what to paste into a training config, and what users should know."""
        out = writer.workspace.out
        details: dict[str, Any] = {}
        if markers:
            shards = brace_text(shard_text(0), shard_text(len(markers) - 1))
            details["cuts"] = out / CUTS_NAME.format(shards)
            for field in [TARGET, CONTEXT] if plan.contents.layout.has_context else [TARGET]:
                details[field] = out / AUDIO_NAME.format(field, shards)
        counts: Counter[str] = Counter()
        for marker in markers:
            counts.update(marker.extra)
        if counts[MULTI_CHANNEL]:
            details["channels"] = (
                f"{counts[MULTI_CHANNEL]:,.0f} records name audio of several channels: "
                "the manifest's channel was taken, or the first"
            )
        if counts[OTHER_SPEAKER]:
            details["speakers"] = (
                f"{counts[OTHER_SPEAKER]:,.0f} records have a speaker that MagpieTTSLhotseDataset refuses; "
                "it wants | Language:xx Dataset:yy Speaker:zz |"
            )
        return details


def _locate(
    contents: SharContents, numbers: Sequence[int], store: SegmentStore, writer: UnitWriter, advance: Advance
) -> list[_Located]:
    """Read the records, find their audio, and announce it to the store; reject what cannot come out."""
    records, layout = contents.records, contents.layout
    usable = []
    for number in numbers:
        try:
            entry = read_entry(Record.parse(records.line(number)), int(layout.occurrences[number]), layout.has_context)
            found = _find_audio(records, number, entry, store)
        except RecordRejected as rejected:
            writer.reject(records.reject_source(number), rejected, records.origin(number))
            advance(1, float(records.index.duration[number]))
        else:
            usable.append(found)
            store.expect(found.target)
            if found.context is not None:
                store.expect(found.context)
    return usable


def _find_audio(records: Records, number: int, entry: Entry, store: SegmentStore) -> _Located:
    part = entry.target
    path = own = records.audio_path(number, part.audio_filepath)
    if entry.context is not None and entry.context.is_near(part):
        other = records.audio_path(number, entry.context.audio_filepath)
        if own == other or os.path.realpath(own) == os.path.realpath(other):
            raise RecordRejected(RejectReason.CONTEXT_IS_TARGET, "the context is the same segment as the target")
    target = store.locate(path, part.offset, part.duration, entry.channel)
    context = None
    if entry.context is not None:
        part = entry.context
        path = records.audio_path(number, part.audio_filepath)
        context = _of_context(store.locate, path, part.offset, part.duration, entry.channel)
    return _Located(number, entry, target, context)


def _add(field: FieldWriter, cut_id: str, id: str, audio: Audio) -> None:
    field.add(cut_id, audio.format, audio.data, Recording.of(id, audio.sampling_rate, audio.num_samples))


def _of_context(function: Callable[..., _T], *arguments: Any) -> _T:
    """Call `function`; a reject says that it is about the context."""
    try:
        return function(*arguments)
    except RecordRejected as rejected:
        raise of_context(rejected) from None
