"""manifest-to-shar: turns NeMo manifests, with or without context audio, into numbered Lhotse Shar shards."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.audio.limits import SAME_SECONDS
from prepcli.audio.opening import in_store
from prepcli.audio.segments import SHAR, EncodedAudio, Segment, TargetFormat, with_channel
from prepcli.commands.manifest_to_shar.options import ManifestToShar, SharOptions
from prepcli.commands.manifest_to_shar.segments import SegmentStore
from prepcli.engine.commits import files_of, read_ledger
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.engine.run.job import UnitJob
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.run.unit import Advance
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError, option, same_command
from prepcli.formats.indexes import MIRROR, indexes_of, mirrored
from prepcli.formats.names import brace_text, check_loadable
from prepcli.formats.shar import (
    AUDIO_NAME,
    CONTEXT,
    CUTS_FILE,
    CUTS_NAME,
    OUTPUT_PATTERNS,
    PLAIN_CUTS_NAME,
    TARGET,
    Cut,
    CutWriter,
    FieldWriter,
    PlainCutWriter,
    Recording,
    Supervision,
    encode_json,
    recording_id,
    segment_id,
    shard_text,
)
from prepcli.formats.tar import MAX_PLAIN_NAME
from prepcli.formats.train_ds import write_shar_train_ds
from prepcli.formats.training_config import INDEXED_CONFIG, indexed_shar_config
from prepcli.interface.options import shown_defaults
from prepcli.jobs.record_job import OverRecords, RecordContents, RecordUnit, each_record, open_run
from prepcli.jobs.records import Records, hash_segments
from prepcli.manifest.context import CONTEXT_FIELDS, context_of, in_context
from prepcli.manifest.fields import decode_value, is_skipped, parse_fields
from prepcli.manifest.index import ManifestIndex
from prepcli.manifest.parts import Floats, Ints
from prepcli.manifest.record import Record
from prepcli.manifest.speakers import language_of, notes_on_speakers, speaker_of
from prepcli.planning.arrays import Scratch, Values
from prepcli.planning.hashing import chunks, occurrences
from prepcli.storage.addresses import ByteRange
from prepcli.storage.ahead import reading_ahead
from prepcli.storage.paths import real_path

# Fields that NeMo's script does not copy to the supervision's custom fields; it copies all others.
_NOT_CUSTOM = frozenset({"audio_filepath", "context_audio_filepath", "text", "offset", "duration", "speaker"})


@dataclass(frozen=True, slots=True)
class AudioPart:
    """A segment of an audio file, as a manifest names it; `offset` and `duration` in seconds."""

    audio_filepath: str
    offset: float
    duration: float

    def is_near(self, other: "AudioPart") -> bool:
        """Whether both segments begin and end at the same times, to 20 ms; their files are not compared."""
        starts = abs(self.offset - other.offset)
        ends = abs(self.offset + self.duration - other.offset - other.duration)
        return max(starts, ends) <= SAME_SECONDS + 1e-6


@dataclass(frozen=True, slots=True)
class Entry:
    """The fields of a record from which its cut is made.

    `id` is the id of the cut. `channel` is the value from the manifest, not checked yet.
    """

    id: str
    target: AudioPart
    context: AudioPart | None
    channel: Any
    text: str
    speaker: str | None
    language: str | None
    lang: str | None
    custom: dict[str, str | msgspec.Raw]

    @property
    def context_id(self) -> str:
        """The id of the recording of the context audio, made as in NeMo's script."""
        assert self.context is not None
        part = self.context
        return segment_id("context_cut", recording_id(part.audio_filepath), part.offset, part.duration)

    def cut(self, sampling_rate: int, num_samples: int) -> Cut:
        """The cut, for stored audio of `num_samples` at `sampling_rate` (Hz)."""
        recording = Recording.of(recording_id(self.target.audio_filepath), sampling_rate, num_samples)
        supervision = Supervision(
            id=f"sup-{recording.id}",
            recording_id=recording.id,
            start=0.0,  # relative to the cut; NeMo's script writes the offset in the file
            duration=recording.duration,
            channel=0,
            text=self.text,
            language=self.language,
            speaker=self.speaker,
            custom=self.custom,
        )
        custom: dict[str, str | float | bool] = {}
        if self.lang is not None:
            custom["lang"] = self.lang
        if self.target.offset:
            custom["source_audio_offset"] = self.target.offset  # the cut starts at 0 of the stored audio
        if self.context is not None:
            custom[f"{CONTEXT}_unaligned"] = True  # lets lhotse's cut.load_context_audio() read the whole context
        return Cut(self.id, 0.0, recording.duration, 0, (supervision,), recording, custom)


def read_entry(record: Record, occurrence: int, has_context: bool) -> Entry:
    """Return the fields from which the cut of a record is made.

    `occurrence`: the number of earlier records with the same cut id; if it is not 0, the id gets a suffix. With
    `has_context` the record must name a context, because in a Shar set each field has audio for every cut.

    Raises:
        RecordRejected: MISSING_FIELD for text or context, and BAD_FIELD, BAD_DURATION and BAD_OFFSET for invalid
            values.
    """
    target = AudioPart(record.audio_filepath, record.offset, record.duration)
    context = _context(record) if has_context else None
    text, normalized = record.text("text"), record.text("normalized_text")
    custom: dict[str, str | msgspec.Raw] = {name: raw for name, raw in record.fields.items() if name not in _NOT_CUSTOM}
    if not (normalized and normalized.strip()):
        # MagpieTTS replaces the text by normalized_text, even by an empty one.
        custom.pop("normalized_text", None)
        normalized = None
    if not (text and text.strip()):
        text = normalized
    if text is None:
        raise RecordRejected(RejectReason.MISSING_FIELD, "there is no text, and no normalized_text either")
    if context is not None:
        custom["context_recording_id"] = recording_id(context.audio_filepath)
    speaker = speaker_of(record)
    language = language_of(speaker or "")
    lang = record.text("lang") or language
    id = segment_id("cut", recording_id(target.audio_filepath), target.offset, target.duration)
    if occurrence:
        id = f"{id}-{occurrence + 1}"  # NeMo's ids end in a decimal point and two digits
    channel = record.get("channel")
    return Entry(id, target, context, channel, text, speaker, language or lang, lang, custom)


def _context(record: Record) -> AudioPart:
    part = context_of(record)
    assert part is not None
    return AudioPart(part.audio_filepath, part.offset, part.duration)


_CONTEXT_KEY = b'"context_audio_'
# Up to this number of hundredths of a second, float64 is exact enough to see a difference of 1e-6 from a half.
_EXACT_HUNDREDTHS = 1e9


def occurrences_of_ids(index: ManifestIndex, scratch: Scratch | None = None) -> Ints:
    """For each record, the number of earlier records with the same cut id; so `(id, number)` is unique.

    An id consists of the recording id, and of the offset and the duration to 10 ms. Ids are compared by 64-bit hash:
    different ids with the same hash count as the same id.
    """
    scratch = scratch or Scratch()
    keys = scratch.empty(len(index), np.uint64)
    for chunk in chunks(len(index)):
        keys[chunk] = hash_segments(
            index.keys["recording"][chunk], hundredths(index.offset[chunk]), hundredths(index.duration[chunk])
        )
    return occurrences(keys, scratch.empty(len(index), np.int64))


def hundredths(seconds: Floats) -> Floats:
    """`seconds` in hundredths of a second, rounded exactly as `format(x, ".2f")` rounds: whole numbers in float64."""
    scaled = seconds * 100
    rounded: NDArray[np.float64] = np.rint(scaled)
    # Multiplication rounds too: near a half, or beyond the precision of a double, the decimal digits decide.
    doubtful = (np.abs(scaled - np.floor(scaled) - 0.5) < 1e-6) | (scaled > _EXACT_HUNDREDTHS)
    for position in np.flatnonzero(doubtful).tolist():
        rounded[position] = float(f"{seconds[position]:.2f}".replace(".", ""))
    return rounded


def names_context(lines: bytes) -> bool:
    """Whether one of the `lines` names a context; lines with the mark `_skipme` do not count.

    The search usually ends early: a manifest with contexts has one in its first line.
    """
    at = lines.find(_CONTEXT_KEY)
    while at >= 0:
        start = lines.rfind(b"\n", 0, at) + 1
        end = lines.find(b"\n", at)
        end = len(lines) if end < 0 else end
        if _has_context_field(lines[start:end]):
            return True
        at = lines.find(_CONTEXT_KEY, end)
    return False


def _has_context_field(line: bytes) -> bool:
    try:
        fields = parse_fields(line)
    except RecordRejected:
        return False
    named = any(name in fields and decode_value(fields[name]) is not None for name in CONTEXT_FIELDS)
    return named and not is_skipped(fields)


_T = TypeVar("_T")

MULTI_CHANNEL, OTHER_SPEAKER, LONG_NAMES = "multi_channel", "other_speaker", "long_names"
"""The keys of three counts that units report: records with audio of several channels, records with a speaker that
Magpie refuses, and tar members whose long names lhotse 2 misreads when it reads by index."""


@dataclass(frozen=True, slots=True)
class _Located:
    """A usable record and its audio segments."""

    entry: Entry
    target: Segment
    context: Segment | None

    @property
    def has_several_channels(self) -> bool:
        """Whether a file of the record is not mono."""
        return self.target.channel is not None or (self.context is not None and self.context.channel is not None)


@dataclass(frozen=True, slots=True)
class SharContents(RecordContents):
    """The records in their order.

    Attributes:
        occurrences: for each record, the number of earlier records whose cut has the same id (`occurrences_of_ids`).
        has_context: whether a record has a context; if one has, all must have one.
    """

    occurrences: Ints
    has_context: bool


SharPlan = Plan[RecordUnit, SharContents]


class SharJob(OverRecords[RecordUnit, SharContents], UnitJob[RecordUnit, SharContents]):
    """Turns manifests into a Shar data set. A unit is a shard."""

    command: ClassVar[str] = "manifest-to-shar"
    defaults = shown_defaults(SharOptions)

    def __init__(self, manifests: Sequence[str], options: SharOptions, num_workers: int = 1) -> None:
        options.check()
        self.manifests, self.options, self.num_workers = manifests, options, num_workers
        self.wanted = TargetFormat(
            None if options.audio_format == "original" else options.audio_format, options.sampling_rate
        )

    def output_patterns(self, plan: SharPlan) -> Sequence[str]:
        """The patterns of the cuts and the tars."""
        return OUTPUT_PATTERNS

    def made_of(self, found: OutputFiles, name: str) -> Iterator[str]:
        """The names of the existing indexes of the published file `name`, next to it or in the mirror."""
        return indexes_of(found, name)

    def plan(self, workspace: Workspace) -> SharPlan:
        """Index the manifests and divide their records into shards."""
        records = self.read(workspace, {"recording": recording_id}, names_context)

        def make(scratch: Scratch) -> Values:
            return {"occurrences": occurrences_of_ids(records.index, scratch), "has_context": records.index.found}

        units, order, values = self.shards(records, self.options.shard_size, self.options.seed, make)
        notes = notes_on_speakers(record for _, record in records.sample())
        return records.plan(units, SharContents(records, **values, order=order), notes=notes)

    def check_done(self, done: Sequence[RecordUnit], workspace: Workspace) -> None:
        """Raise `UsageError` if cuts are there in the form that this set does not have: readers refuse both together.

        This is so after `gunzip` of the cuts, which removes what it unpacks. Cuts of a run that this one replaces go.
        """
        folder, _, own = self.cuts_name.partition("/")
        shards = {name: CUTS_FILE.match(name.rpartition("/")[2]) for name in workspace.found.in_folder(folder)}
        names = {name: own.format(shard[1]) for name, shard in shards.items() if shard}
        others = [name for name, expected in names.items() if name != f"{folder}/{expected}"]
        replaced = files_of(workspace, read_ledger(workspace).commits) if others else {}
        for name in others:
            if name not in replaced:
                raise UsageError(
                    f"{workspace.out / name} and {names[name]}, which this command writes, would be two files of the "
                    f"same shard, which readers refuse; move the former away, and run {same_command()} again"
                )

    def process(self, plan: SharPlan, unit: RecordUnit, writer: UnitWriter, advance: Advance) -> None:
        """Write one shard in two passes: first find all audio, so that repeated segments are known, then encode it."""
        contents, records = plan.contents, plan.contents.records
        policy = with_channel(SHAR, self.options.channel)
        with SegmentStore(self.wanted, policy, writer.workspace.tmp, check_audio=self.options.check_audio) as store:
            shard = _Shard(self, contents, unit, writer, store)
            each_record(records, records.reading_ahead(contents.numbers(unit)), shard.find, writer, advance)
            each_record(records, shard.found(), shard.add, writer, advance)
        shard.close()

    @property
    def cuts_name(self) -> str:
        """The pattern of the names of the cuts."""
        return PLAIN_CUTS_NAME if self.options.indexed else CUTS_NAME

    def finish(self, plan: SharPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Return the lines to paste into a training config, and notes; there is nothing to merge."""
        out = writer.workspace.out
        details: dict[str, Any] = {}
        if markers:
            shards = brace_text(shard_text(0), shard_text(len(markers) - 1))
            audio = [TARGET, CONTEXT] if plan.contents.has_context else [TARGET]
            fields = {"cuts": self.cuts_name.format(shards)} | {name: AUDIO_NAME.format(name, shards) for name in audio}
            details = {name: out / pattern for name, pattern in fields.items()}
            details["train_ds"] = write_shar_train_ds(writer, self.command, dict(details), shards)
            if self.options.indexed:
                details[INDEXED_CONFIG] = indexed_shar_config(fields, out)
        counts = totals(markers)
        if counts[MULTI_CHANNEL] and self.options.channel is None:
            details["channels"] = (
                f"{counts[MULTI_CHANNEL]:,.0f} records name audio of several channels: "
                f"the manifest's channel was taken, or the first; {option('--channel')} chooses another"
            )
        if counts[OTHER_SPEAKER]:
            details["speakers"] = (
                f"{counts[OTHER_SPEAKER]:,.0f} records have a speaker that MagpieTTSLhotseDataset refuses"
            )
            if not plan.notes:  # a note of the plan (`notes_on_speakers`) has these words already
                details["speakers"] += "; it requires | Language:xx Dataset:yy Speaker:zz |"
        if counts[LONG_NAMES]:
            details["long_names"] = (
                f"{counts[LONG_NAMES] / 2:,.0f} cuts have ids of more than {MAX_PLAIN_NAME} bytes with the extension; "
                "lhotse 2 misreads their audio by index (it stops or gives other data), so shorten the paths of their "
                "audio, or train without indexes"
            )
        return details


class _Shard:
    """Writes a shard: tars first and cuts last, because readers list shards by their cuts."""

    def __init__(
        self, job: SharJob, contents: SharContents, unit: RecordUnit, writer: UnitWriter, store: SegmentStore
    ) -> None:
        self._contents = contents
        self._writer = writer
        self._store = store
        self._found: dict[int, _Located] = {}
        name = shard_text(unit.number)
        fields = [TARGET, CONTEXT] if contents.has_context else [TARGET]
        self._fields = {
            AUDIO_NAME.format(one, name): FieldWriter(writer.open(AUDIO_NAME.format(one, name))) for one in fields
        }
        self._target, *self._context = self._fields.values()
        self._cuts_name = job.cuts_name.format(name)
        cuts = writer.open(self._cuts_name)
        self._cuts = PlainCutWriter(cuts) if job.options.indexed else CutWriter(cuts)

    def find(self, number: int) -> None:
        """Find the audio of a record, and register its use in the segment store."""
        contents = self._contents
        entry = read_entry(contents.records.record(number), int(contents.occurrences[number]), contents.has_context)
        found = self._found[number] = _find_audio(contents.records, number, entry, self._store)
        self._store.expect(found.target)
        if found.context is not None:
            self._store.expect(found.context)

    def found(self) -> Iterator[int]:
        """The numbers of the records whose audio was found.

        Audio in an object store is requested ahead, for several records at the same time.
        """
        if not self._contents.records.in_store:
            return iter(self._found)
        return reading_ahead(self._found, lambda number: _addresses(self._found[number]))

    def add(self, number: int) -> float:
        """Write a record whose audio was found; returns its seconds of audio."""
        found, store = self._found[number], self._store
        # Encode all audio of a record before writing any, so that the fields stay aligned.
        audio = store.take(found.target)
        context_audio = None if found.context is None else _of_context(store.take, found.context)
        entry = found.entry
        _add(self._target, entry.id, entry.id, audio)
        if context_audio is not None:
            _add(self._context[0], entry.id, entry.context_id, context_audio)
        cut = entry.cut(audio.sampling_rate, audio.num_samples)
        self._cuts.add_cut(encode_json(cut))
        self._writer.extra[MULTI_CHANNEL] += found.has_several_channels
        self._writer.extra[OTHER_SPEAKER] += language_of(entry.speaker or "") is None
        return cut.duration

    def close(self) -> None:
        """Complete the files, and write their indexes, if the set has any."""
        for field in self._fields.values():
            field.close()
        self._cuts.close()
        if isinstance(self._cuts, PlainCutWriter):
            out = self._writer.workspace.out
            (target, *context) = ((name, field.index) for name, field in self._fields.items())
            for data, index in (target, (self._cuts_name, self._cuts.index), *context):
                self._writer.add_after(f"{MIRROR}/{mirrored(out / data)}", index)
            self._writer.extra[LONG_NAMES] += self._target.num_long_names


def _addresses(found: _Located) -> list[str | ByteRange]:
    """The addresses of the record's audio in an object store, or their ranges in containers there."""
    return [one for part in (found.target, found.context) if part is not None for one in in_store(part.name)]


def _find_audio(records: Records, number: int, entry: Entry, store: SegmentStore) -> _Located:
    part = entry.target
    path = own = records.audio_path(number, part.audio_filepath)
    if entry.context is not None and entry.context.is_near(part):
        other = records.audio_path(number, entry.context.audio_filepath)
        if own == other or real_path(own) == real_path(other):
            raise RecordRejected(RejectReason.CONTEXT_IS_TARGET, "the context is the same segment as the target")
    target = store.locate(path, part.offset, part.duration, entry.channel)
    context = None
    if entry.context is not None:
        part = entry.context
        path = records.audio_path(number, part.audio_filepath)
        context = _of_context(store.locate, path, part.offset, part.duration, entry.channel)
    return _Located(entry, target, context)


def _add(field: FieldWriter, cut_id: str, id: str, audio: EncodedAudio) -> None:
    field.add_recording(cut_id, audio.format, audio.data, Recording.of(id, audio.sampling_rate, audio.num_samples))


def _of_context(function: Callable[..., _T], *arguments: Any) -> _T:
    """Call `function`; the message of a reject says that it concerns the context."""
    try:
        return function(*arguments)
    except RecordRejected as rejected:
        raise in_context(rejected) from None


def manifest_to_shar(options: ManifestToShar) -> Report:
    """Turn manifests into Lhotse Shar shards.

    Returns:
        The report of the run; `outputs` has `cuts`, `target_audio` and, if there is any, `context_audio`.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_shar("manifest_with_context.json", "shar", shard_size=16)
        >>> report.records_out
        48
        >>> report.outputs["cuts"]
        '/.../shar/cuts/cuts._OP_000000..000002_CL_.jsonl.gz'
    """
    check_loadable(options.out)
    manifests, workspace, engine = open_run(options)
    return run_job(SharJob(manifests, options, engine.num_workers), workspace, engine)
