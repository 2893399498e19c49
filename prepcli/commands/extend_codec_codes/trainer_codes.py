"""extend-codec-codes for trainers that read codes with their texts: tars for OmniVoice, JSON lines for Qwen3-TTS."""

import glob
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec

from prepcli.audio.probe import probe
from prepcli.commands.extend_codec_codes.content import record_audio
from prepcli.commands.extend_codec_codes.encoding import Codes, UnitEncoder
from prepcli.commands.extend_codec_codes.file_segments import UsedSegment
from prepcli.commands.extend_codec_codes.manifest_codes import NamedSegments
from prepcli.commands.extend_codec_codes.on_device import (
    TELEMETRY,
    CodecOnDevice,
    frame_shift_of_units,
    settings_of_records,
    statistics,
    unchanged_files,
)
from prepcli.commands.extend_codec_codes.settings import CodecSettings
from prepcli.commands.extend_codec_codes.shard_index import ShardIndex
from prepcli.commands.extend_codec_codes.uses import group_records
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.function import Output, Settings
from prepcli.engine.run.report import Report
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats import omnivoice, qwen3_tts
from prepcli.formats.names import absolute_folder
from prepcli.formats.npy import npy_bytes
from prepcli.formats.omnivoice import CODES_NAME, LABELS_NAME, LIST_NAME, check_folder, list_line
from prepcli.formats.plain_codes import FRAME_SHIFT
from prepcli.formats.shar import TARGET
from prepcli.formats.tar import TarWriter
from prepcli.jobs.ids import GIVEN_ID, ID_KEYS, RecordIds, given_id, plan_ids
from prepcli.jobs.line_job import LINES_NAME
from prepcli.jobs.model_job import Begin, run_with_model
from prepcli.jobs.prefetch import DecodingPool
from prepcli.jobs.record_job import RecordContents, RecordUnit, each_record
from prepcli.jobs.records import Records, extended_name
from prepcli.jobs.source import RecordSource
from prepcli.manifest.parts import FieldKey
from prepcli.manifest.record import Record, Value
from prepcli.models.codecs import notes_on_codec_model
from prepcli.models.protocols import Codec
from prepcli.planning.arrays import Scratch, Values, values_of
from prepcli.storage.paths import NUMBER


class EncodedRecord(NamedTuple):
    """The output of a record.

    Attributes:
        name: the name of the codes in the tar; empty if the codes are in the line.
        codes: the codes, of shape (codebooks, frames).
        line: the JSON line of the record, without line end.
    """

    name: str
    codes: Codes
    line: bytes


@dataclass(frozen=True, slots=True)
class TrainerContents(RecordContents):
    """The records and, if the trainer reads ids, their ids."""

    ids: RecordIds | None = None


TrainerPlan = Plan[RecordUnit, TrainerContents]


class Trainer(ABC):
    """A trainer other than NeMo, and the files that it reads.

    Attributes:
        title: its name.
        num_codebooks: number of codebooks that it reads.
    """

    title: ClassVar[str]
    num_codebooks: ClassVar[int]

    @abstractmethod
    def entry(self, contents: TrainerContents, number: int, record: Record, codes: Codes) -> EncodedRecord:
        """Return the output of a record; raises `RecordRejected` if the trainer could not read it."""

    @abstractmethod
    def write_entries(
        self, unit: RecordUnit, entries: Sequence[EncodedRecord], seconds: float, writer: UnitWriter
    ) -> None:
        """Write the entries of a unit; `seconds` is the total audio of the entries."""

    def check(self, codec: Codec, settings: CodecSettings) -> None:
        """If the codec has more residual codebooks than the trainer reads, use the first ones.

        Raises:
            UsageError: the codec has fewer codebooks than the trainer reads, or has more that are not residual.
        """
        if settings.num_codebooks is None and getattr(codec, "is_residual", False):
            codec.num_codebooks = min(codec.num_codebooks, self.num_codebooks)  # the further ones only refine the first
        if codec.num_codebooks != self.num_codebooks:
            raise UsageError(
                f"{self.title} reads codes of {self.num_codebooks} codebooks, and "
                f"{option('--codec-model', settings.codec_model)} gives {codec.num_codebooks}"
            )

    def fields_of(self, contents: TrainerContents, number: int, record: Record) -> tuple[dict[str, Value], list[str]]:
        """The changes to a record in the output.

        Returns:
            The new values of fields that change, and the names of the null fields, which are left out.

        Raises:
            RecordRejected: there is no text.
        """
        if record.text("text") is None:
            raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no text, which {self.title} reads")
        return contents.records.merged_changes(number, record), [
            name for name, value in record.fields.items() if bytes(value) == b"null"
        ]


def run_for_trainer(
    trainer: Trainer,
    source: RecordSource,
    output: Output,
    codec: CodecSettings,
    devices: str,
    plan: Callable[[Workspace], TrainerPlan],
    finish: Callable[[Sequence[Marker], UnitWriter], dict[str, Any]],
    settings: Settings[RecordUnit, TrainerContents],
) -> Report:
    """Write the codes of the targets of records for a trainer.

    `finish` joins what the units have made, and returns the path of the result; statistics are added here. The other
    arguments and the errors are those of `prepcli.jobs.model_job.run_with_model`.
    """

    def start(
        on_device: CodecOnDevice[RecordUnit, TrainerContents],
        contents: TrainerContents,
        unit: RecordUnit,
        workers: DecodingPool[UsedSegment],
    ) -> Begin:
        named = NamedSegments(contents.records, unit, workers, contexts=False)
        return lambda tick: TargetEncoder(trainer, on_device, contents, unit, named.index(tick))

    def join(_: TrainerPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        return finish(markers, writer) | frame_shift_of_units(markers) | statistics(markers)

    return run_with_model(
        output,
        devices,
        lambda device: CodecOnDevice(device, codec, start, lambda loaded: trainer.check(loaded, codec)),
        plan,
        join,
        settings=settings,
        input_files=[codec.codec_model],
        check_done=unchanged_files(output),
        telemetry=TELEMETRY,
    )


class TargetEncoder(UnitEncoder):
    """Encodes the targets of a unit of records, and writes them for a trainer."""

    def __init__(
        self,
        trainer: Trainer,
        on_device: CodecOnDevice[Any, Any],
        contents: TrainerContents,
        unit: RecordUnit,
        index: ShardIndex,
    ) -> None:
        self._trainer = trainer
        self._contents = contents
        self._unit = unit
        super().__init__((), [index], on_device, Path())

    def write(self, computed: "list[Codes | RecordRejected]", writer: UnitWriter) -> None:
        """Write the records with their codes; a record without codes is a reject."""
        records, (index,) = self._contents.records, self.indices
        entries: list[EncodedRecord] = []
        total = 0.0

        def write(number: int) -> float:
            nonlocal total
            position = number - self._unit.lo
            codes = self._codes_of(computed, index.fields[TARGET][position], TARGET)
            if codes is None or isinstance(codes, RecordRejected):
                raise codes or RecordRejected(RejectReason.MISSING_AUDIO, "it has no audio")
            entries.append(self._trainer.entry(self._contents, number, records.record(number), codes))
            total += index.seconds[position]
            return index.seconds[position]

        each_record(records, range(self._unit.lo, self._unit.hi), write, writer)
        self._trainer.write_entries(self._unit, entries, total, writer)
        states = {member.segment.name: member.state for member in self._members if member.state is not None}
        record_audio(writer, states)
        writer.extra.update(self.extra | {FRAME_SHIFT: self._codec.samples_per_frame / self._codec.sampling_rate})


def _dotless_id(text: str) -> str:
    return "" if "." in text else given_id(text)


DOTLESS_ID = FieldKey(GIVEN_ID.field, _dotless_id, is_optional=True)
"""The index key for ids without a dot; an id with a dot has an empty key. Readers of webdataset divide the names of
members at the first dot, and so would not keep such an id whole."""


class OmniVoice(Trainer):
    """Tars and labels for OmniVoice. A unit is a tar."""

    title = "OmniVoice"
    num_codebooks = omnivoice.NUM_CODEBOOKS

    def __init__(self, folder: str) -> None:
        """`folder`: the absolute path of the output folder; raises `UsageError` if the trainer cannot read it."""
        check_folder(folder)
        self._folder = folder

    def entry(self, contents: TrainerContents, number: int, record: Record, codes: Codes) -> EncodedRecord:
        """Return the codes of a record, their name in the tar, and the line for the file of labels."""
        assert contents.ids is not None
        id = contents.ids.id_of(contents.records, number, record)
        changes, left_out = self.fields_of(contents, number, record)
        language = record.get("lang")
        if record.get("language_id") is None and isinstance(language, str):
            changes["language_id"] = language
            left_out = [name for name in left_out if name != "language_id"]
        return EncodedRecord(
            f"{id}.npy", codes, record.to_json(changes | {"id": id, "num_tokens": codes.shape[1]}, left_out)
        )

    def write_entries(
        self, unit: RecordUnit, entries: Sequence[EncodedRecord], seconds: float, writer: UnitWriter
    ) -> None:
        """Write the tar of a unit, the file of its labels, and the unit's line for the list of tars.

        If all records are rejects, there are no tar and no labels, and the list gets no line.
        """
        line = writer.open_part(_LIST_PART.format(unit.id))
        if not entries:
            return
        writer.open(LABELS_NAME.format(unit.number)).write(b"".join(entry.line + b"\n" for entry in entries))
        tar = TarWriter(writer.open(CODES_NAME.format(unit.number)))
        for entry in entries:
            tar.add(entry.name, npy_bytes(entry.codes))
        tar.close()
        line.write(list_line(self._folder, unit.number, len(entries), seconds))


def codes_for_omnivoice(
    source: RecordSource, output: Output, codec: CodecSettings, shaping: Mapping[str, Any], devices: str
) -> Report:
    """Write tars and labels for OmniVoice.

    The arguments and the errors are those of `prepcli.commands.extend_codec_codes.shar_codes.add_to_shar`.
    """
    codec = replace(codec, peak=omnivoice.PEAK) if codec.peak is None else codec
    own = settings_of_records(codec, shaping, source, output.path)
    output.patterns = LIST_NAME, CODES_NAME.replace("{:06d}", NUMBER)

    def settings(made: TrainerPlan) -> dict[str, Any]:
        ids = made.contents.ids
        return own | ({"ids": "the records' own"} if ids is not None and ids.given else {})

    def plan(workspace: Workspace) -> TrainerPlan:
        records = source.read(workspace, ID_KEYS | {GIVEN_ID.field: DOTLESS_ID})

        def make(scratch: Scratch) -> Values:
            return values_of(plan_ids(records.index, source.audio_base_dir, scratch))

        size = codec.shard_size or max(1, min(omnivoice.SHARD_SIZE, len(records) // omnivoice.MIN_SHARDS))
        units, _, ids = source.shards(records, size, None, make)
        notes = notes_on_codec_model(codec.codec_model)
        return records.plan(units, TrainerContents(records, ids=RecordIds(**ids)), notes=notes)

    def finish(markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        writer.join(LIST_NAME, (_LIST_PART.format(marker.unit) for marker in markers))
        return {"data_list": writer.workspace.out / LIST_NAME}

    trainer = OmniVoice(absolute_folder(str(output.path)))
    return run_for_trainer(trainer, source, output, codec, devices, plan, finish, settings)


_LIST_PART = "parts/{}.list"


class QwenTts(Trainer):
    """JSON lines for the fine-tuning of Qwen3-TTS. A unit is some consecutive records."""

    title = "Qwen3-TTS"
    num_codebooks = qwen3_tts.NUM_CODEBOOKS

    def __init__(self, ref_audio: Path | None) -> None:
        """`ref_audio`: the audio of the voice of all records; None: each record names its own."""
        self._ref_audio = ref_audio

    def entry(self, contents: TrainerContents, number: int, record: Record, codes: Codes) -> EncodedRecord:
        """Return the line of a record, with its codes in it."""
        records = contents.records
        changes, left_out = self.fields_of(contents, number, record)
        reference = self._reference(records, number, record)
        changes |= {"audio": records.audio_path(number, record.audio_filepath), qwen3_tts.REFERENCE: reference}
        changes[qwen3_tts.CODES] = msgspec.json.encode(codes.T.tolist())
        left_out = [name for name in left_out if name not in changes]
        return EncodedRecord("", codes, record.to_json(changes, left_out))

    def _reference(self, records: Records, number: int, record: Record) -> str:
        if self._ref_audio is not None:
            return str(self._ref_audio.absolute())
        given = record.text(qwen3_tts.REFERENCE)
        if given is None:
            why = f"there is no {qwen3_tts.REFERENCE}; {option('--ref-audio')} names one for all records"
            raise RecordRejected(RejectReason.MISSING_FIELD, why)
        path = records.audio_path(number, given)
        _check_reference(path)
        return path

    def write_entries(
        self, unit: RecordUnit, entries: Sequence[EncodedRecord], seconds: float, writer: UnitWriter
    ) -> None:
        """Write the lines of a unit."""
        writer.open_part(LINES_NAME.format(unit.id)).write(b"".join(entry.line + b"\n" for entry in entries))


def codes_for_qwen3_tts(
    source: RecordSource, output: Output, codec: CodecSettings, shaping: Mapping[str, Any], devices: str
) -> Report:
    """Write JSON lines for the fine-tuning of Qwen3-TTS.

    The arguments and the errors are those of `prepcli.commands.extend_codec_codes.shar_codes.add_to_shar`; also
    `UsageError` if `--ref-audio` cannot be used, or is missing and no record has the field of the reference.
    """
    file_name = extended_name(source.manifests, qwen3_tts.LINES_NAME.format("", codec.codec_name))
    output.patterns = (glob.escape(file_name),)

    def plan(workspace: Workspace) -> TrainerPlan:
        if codec.ref_audio is not None:
            try:
                _check_reference(str(codec.ref_audio))
            except RecordRejected as rejected:
                raise UsageError(f"{option('--ref-audio', codec.ref_audio)}: {rejected.detail}") from None
        records = source.read(workspace, looks_for=_names_reference)
        if codec.ref_audio is None and not records.index.found:
            raise UsageError(
                f"no record has the field {qwen3_tts.REFERENCE}, the audio of the voice: give {option('--ref-audio')}"
            )
        units = group_records(records, None, codec.pool_duration)
        return records.plan(units, TrainerContents(records), notes=notes_on_codec_model(codec.codec_model))

    def finish(markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        writer.join(file_name, (LINES_NAME.format(marker.unit) for marker in markers))
        return {"manifest": writer.workspace.out / file_name}

    settings = settings_of_records(codec, shaping, source, output.path)
    trainer = QwenTts(codec.ref_audio)
    return run_for_trainer(trainer, source, output, codec, devices, plan, finish, settings)


def _names_reference(lines: bytes) -> bool:
    return f'"{qwen3_tts.REFERENCE}"'.encode() in lines


@lru_cache(4096)
def _check_reference(path: str) -> None:
    """Raise `RecordRejected` if Qwen3-TTS refuses a file as the audio of the voice."""
    rate = probe(path).sampling_rate
    if rate != qwen3_tts.REFERENCE_RATE:
        raise RecordRejected(
            RejectReason.BAD_FIELD,
            f"the reference {path} has {rate} Hz, and Qwen3-TTS takes {qwen3_tts.REFERENCE_RATE} Hz: convert it with "
            "prepcli convert-audio --target-sample-rate 24000",
        )
