"""manifest-to-shar: NeMo manifests, with or without context audio, to numbered Lhotse Shar shards."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.convert import TargetFormat
from prepcli.commands.manifest_to_shar.cuts import Entry, read_entry
from prepcli.commands.manifest_to_shar.options import ManifestToShar, SharOptions
from prepcli.commands.manifest_to_shar.segments import Audio, Segment, SegmentStore
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.job import Advance
from prepcli.engine.run.report import Report
from prepcli.engine.run.run_command import run_command
from prepcli.engine.run.workers import UnitJob
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.store_output import OutputSizes
from prepcli.engine.state.work_folder import note_unused
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.indexes import MIRROR, indexes_of, mirrored
from prepcli.formats.names import brace_text, check_loadable
from prepcli.formats.shar import (
    AUDIO_NAME,
    CONTEXT,
    CUTS_NAME,
    OUTPUT_PATTERNS,
    PLAIN_CUTS_NAME,
    TARGET,
    CutWriter,
    FieldWriter,
    PlainCutWriter,
    Recording,
    recording_id,
    shard_text,
)
from prepcli.formats.tar import MAX_PLAIN_NAME
from prepcli.formats.train_ds import write_shar_train_ds
from prepcli.formats.training_config import INDEXED_CONFIG, indexed_shar_config
from prepcli.interface.options import shown_defaults
from prepcli.jobs.record_job import OverRecords, RecordContents, RecordUnit, each_record, units_of
from prepcli.jobs.records import Records, hash_segments
from prepcli.manifest.context import CONTEXT_FIELDS, in_context
from prepcli.manifest.fields import decode_value, is_skipped, parse_fields
from prepcli.manifest.index import ManifestIndex
from prepcli.manifest.parts import Floats, Ints
from prepcli.manifest.sources import expand_paths
from prepcli.manifest.speakers import notes_on_speakers
from prepcli.planning.arrays import Scratch
from prepcli.planning.hashing import chunks, occurrences
from prepcli.planning.split import Indices, by_count, in_order, seconds_of
from prepcli.storage.addresses import is_address
from prepcli.storage.ahead import reading_ahead
from prepcli.storage.input_files import refuse_swapped
from prepcli.storage.paths import real_path

_CONTEXT_KEY = b'"context_audio_'
# Below this number of hundredths of a second, float64 resolves the distance to a half to 1e-6.
_EXACT_HUNDREDTHS = 1e9


@dataclass(frozen=True, slots=True)
class SharLayout:
    """Shard k holds the records `order[bounds[k]:bounds[k + 1]]` (numbers in the index), `seconds[k]` of audio.

    `occurrences[i]`: the number of records before record i whose cut has the same id by NeMo's naming.
    `has_context`: some record has a context, so all must have one.
    """

    order: Indices
    bounds: Indices
    seconds: Floats
    occurrences: Ints
    has_context: bool

    def to_values(self) -> dict[str, Any]:
        """All of it, as named values and arrays."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def plan_shards(index: ManifestIndex, options: SharOptions, scratch: Scratch | None = None) -> SharLayout:
    """Divide the index's records, evenly; `index.keys` must hold `recording` (recording_id).

    `index.found` tells whether a line has a context (`names_context`).
    """
    scratch = scratch or Scratch()
    num_records = len(index)
    order = in_order(num_records, options.shuffle_seed if options.shuffle else None, scratch)
    # If every line is a reject, there is one bound and no shard.
    bounds = by_count(num_records, -(-num_records // options.shard_size)) if num_records else np.zeros(1, np.int64)
    seconds = seconds_of(index.duration, order, bounds)
    return SharLayout(order, bounds, seconds, occurrences_of_ids(index, scratch), index.found)


def occurrences_of_ids(index: ManifestIndex, scratch: Scratch | None = None) -> Ints:
    """For each record, the number of earlier ones with the same recording id, offset and duration to 10 ms.

    Ids are made of these, so `(id, occurrence)` is different for any two records. Found by 64-bit hash: if
    two different ids ever share a hash, their records get occurrences that they do not need.
    """
    scratch = scratch or Scratch()
    keys = scratch.empty(len(index), np.uint64)
    for chunk in chunks(len(index)):
        keys[chunk] = hash_segments(
            index.keys["recording"][chunk], hundredths(index.offset[chunk]), hundredths(index.duration[chunk])
        )
    return occurrences(keys, scratch.empty(len(index), np.int64))


def hundredths(seconds: Floats) -> Floats:
    """`seconds` in hundredths, rounded exactly as `format(x, ".2f")` rounds; whole numbers of type float64."""
    scaled = seconds * 100
    rounded: NDArray[np.float64] = np.rint(scaled)
    # Multiplication rounds too: near a half, or beyond the precision of a double, the decimal digits decide.
    doubtful = (np.abs(scaled - np.floor(scaled) - 0.5) < 1e-6) | (scaled > _EXACT_HUNDREDTHS)
    for position in np.flatnonzero(doubtful).tolist():
        rounded[position] = float(f"{seconds[position]:.2f}".replace(".", ""))
    return rounded


def names_context(lines: bytes) -> bool:
    """Whether any of some whole lines that is not skipped has a context; a manifest has them in its first line."""
    return any(map(_has_context_field, _lines_with_key(lines)))


def _lines_with_key(lines: bytes) -> Iterator[bytes]:
    """The lines in which the name of such a field is; searched for at the speed of reading."""
    at = lines.find(_CONTEXT_KEY)
    while at >= 0:
        start = lines.rfind(b"\n", 0, at) + 1
        end = lines.find(b"\n", at)
        end = len(lines) if end < 0 else end
        yield lines[start:end]
        at = lines.find(_CONTEXT_KEY, end)


def _has_context_field(line: bytes) -> bool:
    try:
        fields = parse_fields(line)
    except RecordRejected:
        return False
    named = any(name in fields and decode_value(fields[name]) is not None for name in CONTEXT_FIELDS)
    return named and not is_skipped(fields)


_T = TypeVar("_T")

MULTI_CHANNEL, OTHER_SPEAKER, LONG_NAMES = "multi_channel", "other_speaker", "long_names"
"""What the units count for the summary: records with audio of several channels, with a speaker Magpie refuses; and
members with names that lhotse 2 misreads by index."""


@dataclass(frozen=True, slots=True)
class _Located:
    """A usable record and its audio segments."""

    number: int
    entry: Entry
    target: Segment
    context: Segment | None

    @property
    def has_several_channels(self) -> bool:
        """Whether a file of the record is not mono."""
        return self.target.channel is not None or (self.context is not None and self.context.channel is not None)


@dataclass(frozen=True, slots=True)
class SharContents(RecordContents):
    """The records and their division into shards."""

    layout: SharLayout


SharPlan = Plan[RecordUnit, SharContents]


class SharJob(OverRecords[RecordUnit, SharContents], UnitJob[RecordUnit, SharContents]):
    """Turns manifests into a Shar data set. A unit is a shard."""

    command: ClassVar[str] = "manifest-to-shar"
    defaults = shown_defaults(SharOptions)

    def __init__(self, manifests: Sequence[str], options: SharOptions, num_workers: int = 1) -> None:
        options.check()
        self.manifests = manifests
        self.options = options
        self.wanted = TargetFormat(
            None if options.audio_format == "original" else options.audio_format, options.sampling_rate
        )
        self.num_workers = num_workers

    def output_patterns(self, plan: SharPlan) -> Sequence[str]:
        """Cuts and tars."""
        return OUTPUT_PATTERNS

    def made_of(self, found: OutputSizes, name: str) -> Iterator[str]:
        """The index of cuts or a tar."""
        return indexes_of(found, name)

    def plan(self, workspace: Workspace) -> SharPlan:
        """Index the manifests and divide their records into shards."""
        records = self.read(workspace, {"recording": recording_id}, names_context)
        layout = SharLayout(
            **self.layout(records, lambda scratch: plan_shards(records.index, self.options, scratch).to_values())
        )
        units = units_of("shard", layout.bounds.tolist(), layout.seconds.tolist(), make=RecordUnit)
        notes = notes_on_speakers(record for _, record in records.sample())
        return records.plan(units, SharContents(records, layout, order=layout.order), notes=notes)

    def process(self, plan: SharPlan, unit: RecordUnit, writer: UnitWriter, advance: Advance) -> None:
        """Write one shard, in two passes: repeated segments must be known before the first one is encoded."""
        contents, records = plan.contents, plan.contents.records
        with SegmentStore(self.wanted, writer.workspace.tmp, check_audio=self.options.check_audio) as store:
            shard = _Shard(contents, unit, writer, store, self._cuts_name, is_indexed=self.options.indexed)
            each_record(records, records.reading_ahead(contents.numbers(unit)), shard.find, writer, advance)
            each_record(records, shard.found(), shard.add, writer, advance)
        shard.close()

    @property
    def _cuts_name(self) -> str:
        return PLAIN_CUTS_NAME if self.options.indexed else CUTS_NAME

    def finish(self, plan: SharPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Return the lines to paste into a training config, and notes; there is nothing to merge."""
        out = writer.workspace.out
        details: dict[str, Any] = {}
        if markers:
            shards = brace_text(shard_text(0), shard_text(len(markers) - 1))
            audio = [TARGET, CONTEXT] if plan.contents.layout.has_context else [TARGET]
            fields = {"cuts": self._cuts_name.format(shards)} | {
                name: AUDIO_NAME.format(name, shards) for name in audio
            }
            details = {name: out / pattern for name, pattern in fields.items()}
            details["train_ds"] = write_shar_train_ds(writer.workspace, self.command, dict(details), shards)
            if self.options.indexed:
                details[INDEXED_CONFIG] = indexed_shar_config(fields, out)
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
                f"{counts[OTHER_SPEAKER]:,.0f} records have a speaker that MagpieTTSLhotseDataset refuses"
            )
            if not plan.notes:  # of which one says more (`notes_on_speakers`), unless the sample had no such speaker
                details["speakers"] += "; it requires | Language:xx Dataset:yy Speaker:zz |"
        if counts[LONG_NAMES]:
            details["long_names"] = (
                f"{counts[LONG_NAMES] / 2:,.0f} cuts have ids of more than {MAX_PLAIN_NAME} bytes with the extension; "
                "lhotse 2 misreads their audio by index (it stops or gives other data), so shorten the paths of their "
                "audio, or train without indexes"
            )
        return details


class _Shard:
    """Writes a shard: the tars first, the cuts last, because readers list shards by their cuts."""

    def __init__(
        self,
        contents: SharContents,
        unit: RecordUnit,
        writer: UnitWriter,
        store: SegmentStore,
        cuts_name: str,
        *,
        is_indexed: bool,
    ) -> None:
        self._contents = contents
        self._writer = writer
        self._store = store
        self._found: dict[int, _Located] = {}
        name = shard_text(unit.number)
        fields = [TARGET, CONTEXT] if contents.layout.has_context else [TARGET]
        self._fields = {
            AUDIO_NAME.format(one, name): FieldWriter(writer.open(AUDIO_NAME.format(one, name))) for one in fields
        }
        self._target, *self._context = self._fields.values()
        self._cuts_name = cuts_name.format(name)
        cuts = writer.open(self._cuts_name)
        self._cuts = PlainCutWriter(cuts) if is_indexed else CutWriter(cuts)

    def find(self, number: int) -> None:
        """Find the audio of a record, and announce it to the store."""
        records, layout = self._contents.records, self._contents.layout
        entry = read_entry(records.record(number), int(layout.occurrences[number]), layout.has_context)
        found = self._found[number] = _find_audio(records, number, entry, self._store)
        self._store.expect(found.target)
        if found.context is not None:
            self._store.expect(found.context)

    def found(self) -> Iterator[int]:
        """The records whose audio was found; audio in an object store is requested for several of them at once."""
        if not self._contents.records.in_store:
            return iter(self._found)
        return reading_ahead(self._found, lambda number: _addresses(self._found[number]))

    def add(self, number: int) -> float:
        """Write a record that was found; returns its seconds of audio."""
        found, store = self._found[number], self._store
        # Get all audio of a record before writing any of it, so that the fields stay aligned.
        audio = store.take(found.target)
        context_audio = None if found.context is None else _of_context(store.take, found.context)
        entry = found.entry
        _add(self._target, entry.id, entry.id, audio)
        if context_audio is not None:
            _add(self._context[0], entry.id, entry.context_id, context_audio)
        cut = entry.cut(audio.sampling_rate, audio.num_samples)
        self._cuts.add(cut)
        self._writer.extra[MULTI_CHANNEL] += found.has_several_channels
        self._writer.extra[OTHER_SPEAKER] += not entry.is_magpies
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


def _addresses(found: _Located) -> list[str]:
    """The addresses of the audio of a record."""
    paths = [found.target.path] if found.context is None else [found.target.path, found.context.path]
    return list(filter(is_address, paths))


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
    return _Located(number, entry, target, context)


def _add(field: FieldWriter, cut_id: str, id: str, audio: Audio) -> None:
    field.add(cut_id, audio.format, audio.data, Recording.of(id, audio.sampling_rate, audio.num_samples))


def _of_context(function: Callable[..., _T], *arguments: Any) -> _T:
    """Call `function`; the message of a reject says that it is about the context."""
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

    Example:
        >>> import prepcli
        >>> report = prepcli.manifest_to_shar("manifest_with_context.json", "shar", shard_size=16)
        >>> report.records_out
        48
        >>> report.outputs["cuts"]
        '/.../shar/cuts/cuts._OP_000000..000002_CL_.jsonl.gz'
    """
    engine = options.engine()
    refuse_swapped(options.manifest, options.out)
    check_loadable(options.out)
    job = SharJob(expand_paths(options.manifest), options, num_workers=engine.num_workers)
    note_unused(options.work_dir, options.out)
    return run_command(job, Workspace(options.out, work_dir=options.work_dir), options, engine)
