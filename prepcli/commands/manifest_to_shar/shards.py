"""The shards of `manifest-to-shar`: their plan, their files, and the notes on them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from prepcli.audio.opening import in_store
from prepcli.audio.segments import EncodedAudio, Segment
from prepcli.commands.exports.records import Conversion
from prepcli.commands.manifest_to_shar.entries import Entry, names_context, occurrences_of_ids, read_entry
from prepcli.commands.manifest_to_shar.segments import SegmentStore
from prepcli.engine.commits import files_of, read_ledger
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError, option, same_command
from prepcli.formats.indexes import MIRROR, mirrored
from prepcli.formats.names import brace_text
from prepcli.formats.shar import (
    AUDIO_NAME,
    CONTEXT,
    CUTS_FILE,
    PLAIN_CUTS_NAME,
    RECORDING,
    TARGET,
    CutWriter,
    FieldWriter,
    PlainCutWriter,
    Recording,
    encode_json,
    recording_id,
    shard_text,
)
from prepcli.formats.tar import MAX_PLAIN_NAME
from prepcli.formats.train_ds import write_shar_train_ds
from prepcli.formats.training_config import INDEXED_CONFIG, indexed_shar_config
from prepcli.interface.printing import number_of
from prepcli.jobs.record_job import RecordContents, RecordUnit, each_record
from prepcli.jobs.records import Records
from prepcli.jobs.source import RecordSource
from prepcli.manifest.context import in_context
from prepcli.manifest.parts import Ints
from prepcli.manifest.speakers import language_of, notes_on_speakers
from prepcli.planning.arrays import Scratch, Values
from prepcli.storage.addresses import ByteRange
from prepcli.storage.ahead import reading_ahead
from prepcli.storage.paths import real_path

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
        field: the field of the audio of the cuts.
    """

    occurrences: Ints
    has_context: bool
    field: str

    @property
    def fields(self) -> list[str]:
        """The fields with audio."""
        return [self.field, CONTEXT] if self.has_context else [self.field]


SharPlan = Plan[RecordUnit, SharContents]


def plan_shards(
    source: RecordSource,
    workspace: Workspace,
    size: int,
    seed: int | None,
    audio_field: str | None = None,
    *,
    replaces: bool = False,
) -> SharPlan:
    """Index the manifests and divide their records into shards; `audio_field` as in the command.

    By default, a set that is there already keeps its field, because version 0.3 wrote `TARGET` only; unless this run
    `replaces` the set.
    """
    records = source.read(workspace, {"recording": recording_id}, names_context)

    def make(scratch: Scratch) -> Values:
        return {"occurrences": occurrences_of_ids(records.index, scratch), "has_context": records.index.found}

    units, order, values = source.shards(records, size, seed, make)
    is_of_target = values["has_context"] or (not replaces and any(workspace.found.in_folder(TARGET)))
    field = audio_field or (TARGET if is_of_target else RECORDING)
    notes = notes_on_speakers(record for _, record in records.sample()) if field == TARGET else []
    return records.plan(units, SharContents(records, **values, field=field, order=order), notes=notes)


def check_cuts(workspace: Workspace, cuts_name: str) -> None:
    """Raise `UsageError` if cuts are there in the form that this set does not have: readers refuse both together.

    This is so after `gunzip` of the cuts, which removes what it unpacks. Cuts of a run that this one replaces go.
    """
    folder, _, own = cuts_name.partition("/")
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


def write_shard(
    contents: SharContents, unit: RecordUnit, writer: UnitWriter, cuts_name: str, conversion: Conversion
) -> None:
    """Write one shard in two passes: first find all audio, so that repeated segments are known, then encode it."""
    records = contents.records
    with SegmentStore(conversion, writer.workspace.tmp) as store:
        shard = _Shard(contents, unit, writer, store, cuts_name)
        each_record(records, records.reading_ahead(contents.numbers(unit)), shard.find, writer, writer.advance)
        each_record(records, shard.located(), shard.add, writer, writer.advance)
    shard.close()


def lines_for_training(plan: SharPlan, markers: Sequence[Marker], writer: UnitWriter, cuts_name: str) -> dict[str, Any]:
    """The lines to paste into a training config; empty if there are no shards."""
    out = writer.workspace.out
    details: dict[str, Any] = {}
    if markers:
        shards = brace_text(shard_text(0), shard_text(len(markers) - 1))
        audio = {name: AUDIO_NAME.format(name, shards) for name in plan.contents.fields}
        fields = {"cuts": cuts_name.format(shards)} | audio
        details = {name: out / pattern for name, pattern in fields.items()}
        details["train_ds"] = write_shar_train_ds(writer, "manifest-to-shar", dict(details), shards)
        if cuts_name == PLAIN_CUTS_NAME:
            details[INDEXED_CONFIG] = indexed_shar_config(fields, out)
    return details


def notes(plan: SharPlan, markers: Sequence[Marker], *, names_channel: bool) -> dict[str, Any]:
    """Notes on the records, by name; `names_channel`: whether `--channel` is given."""
    details: dict[str, Any] = {}
    counts = totals(markers)
    if counts[MULTI_CHANNEL] and not names_channel:
        details["channels"] = (
            f"{number_of(counts[MULTI_CHANNEL], 'record', 'name')} audio of several channels: the manifest's channel "
            f"was taken, or the first; {option('--channel')} chooses another"
        )
    if counts[OTHER_SPEAKER] and plan.contents.field == TARGET:
        others = number_of(counts[OTHER_SPEAKER], "record", "have")
        details["speakers"] = f"{others} a speaker that MagpieTTSLhotseDataset refuses"
        if not plan.notes:  # a note of the plan (`notes_on_speakers`) has these words already
            details["speakers"] += "; it requires | Language:xx Dataset:yy Speaker:zz |"
    if counts[LONG_NAMES]:
        details["long_names"] = (
            f"{number_of(counts[LONG_NAMES] / 2, 'cut', 'have')} ids of more than {MAX_PLAIN_NAME} bytes with the "
            "extension; lhotse 2 misreads their audio by index (it stops or gives other data), so shorten the paths "
            "of their audio, or train without indexes"
        )
    return details


class _Shard:
    """Writes a shard: tars first and cuts last, because readers list shards by their cuts."""

    def __init__(
        self, contents: SharContents, unit: RecordUnit, writer: UnitWriter, store: SegmentStore, cuts_name: str
    ) -> None:
        self._contents = contents
        self._writer = writer
        self._store = store
        self._located: dict[int, _Located] = {}
        name = shard_text(unit.number)
        names = [AUDIO_NAME.format(field, name) for field in contents.fields]
        self._fields = {field: FieldWriter(writer.open(field)) for field in names}
        self._target, *self._context = self._fields.values()
        self._cuts_name = cuts_name.format(name)
        cuts = writer.open(self._cuts_name)
        self._cuts = PlainCutWriter(cuts) if cuts_name == PLAIN_CUTS_NAME else CutWriter(cuts)

    def find(self, number: int) -> None:
        """Find the audio of a record, and register its use in the segment store."""
        contents = self._contents
        entry = read_entry(contents.records.record(number), int(contents.occurrences[number]), contents.has_context)
        located = self._located[number] = _find_audio(contents.records, number, entry, self._store)
        self._store.expect(located.target)
        if located.context is not None:
            self._store.expect(located.context)

    def located(self) -> Iterator[int]:
        """The numbers of the records whose audio was located.

        Audio in an object store is requested ahead, for several records at the same time.
        """
        if not self._contents.records.in_store:
            return iter(self._located)
        return reading_ahead(self._located, lambda number: _addresses(self._located[number]))

    def add(self, number: int) -> float:
        """Write a record whose audio was found; returns its seconds of audio."""
        located, store = self._located[number], self._store
        # Encode all audio of a record before writing any, so that the fields stay aligned.
        audio = store.take(located.target)
        context_audio = None if located.context is None else _of_context(store.take, located.context)
        entry = located.entry
        _add(self._target, entry.id, entry.id, audio)
        if context_audio is not None:
            _add(self._context[0], entry.id, entry.context_id, context_audio)
        cut = entry.cut(audio.sampling_rate, audio.num_samples)
        self._cuts.add_cut(encode_json(cut))
        self._writer.extra[MULTI_CHANNEL] += located.has_several_channels
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


def _addresses(located: _Located) -> list[str | ByteRange]:
    """The addresses of the record's audio in an object store, or their ranges in containers there."""
    return [
        address for part in (located.target, located.context) if part is not None for address in in_store(part.name)
    ]


def _find_audio(records: Records, number: int, entry: Entry, store: SegmentStore) -> _Located:
    part = entry.target
    path = own = records.audio_path(number, part.audio_filepath)
    is_same_channel = entry.context_channel in (None, entry.channel) or entry.channel is None
    if entry.context is not None and is_same_channel and entry.context.is_near(part):
        other = records.audio_path(number, entry.context.audio_filepath)
        if own == other or real_path(own) == real_path(other):
            raise RecordRejected(RejectReason.CONTEXT_IS_TARGET, "the context is the same segment as the target")
    target = store.locate(path, part.offset, part.duration, entry.channel)
    context = None
    if entry.context is not None:
        part = entry.context
        path = records.audio_path(number, part.audio_filepath)
        context = _of_context(store.locate, path, part.offset, part.duration, entry.context_channel)
    return _Located(entry, target, context)


def _add(field: FieldWriter, cut_id: str, id: str, audio: EncodedAudio) -> None:
    field.add_recording(cut_id, audio.format, audio.data, Recording.of(id, audio.sampling_rate, audio.num_samples))


def _of_context(function: Callable[..., _T], *arguments: Any) -> _T:
    """Call `function`; the message of a reject says that it concerns the context."""
    try:
        return function(*arguments)
    except RecordRejected as rejected:
        raise in_context(rejected) from None
