"""extend-codec-codes for trainers that read codes with their texts: tars for OmniVoice, JSON lines for Qwen3-TTS."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec

from prepcli.audio.probe import probe
from prepcli.commands.extend_codec_codes.codec_job import RecordCodesJob
from prepcli.commands.extend_codec_codes.content import record_audio
from prepcli.commands.extend_codec_codes.encoding import Codes, UnitEncoder
from prepcli.commands.extend_codec_codes.file_segments import UsedSegment
from prepcli.commands.extend_codec_codes.manifest_job import NamedSegments, frame_shift_of_units
from prepcli.commands.extend_codec_codes.settings import CodecSettings
from prepcli.commands.extend_codec_codes.shard_index import ShardIndex
from prepcli.commands.extend_codec_codes.uses import group_records
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats import omnivoice, qwen3_tts
from prepcli.formats.npy import npy_bytes
from prepcli.formats.omnivoice import CODES_NAME, LABELS_NAME, LIST_NAME, check_folder, list_line
from prepcli.formats.plain_codes import FRAME_SHIFT
from prepcli.formats.shar import TARGET
from prepcli.formats.tar import TarWriter
from prepcli.jobs.ids import GIVEN_ID, ID_KEYS, RecordIds, given_id, plan_ids
from prepcli.jobs.line_job import LINES_NAME
from prepcli.jobs.model_job import Begin, Tick
from prepcli.jobs.prefetch import DecodingPool
from prepcli.jobs.record_job import RecordContents, RecordUnit, each_record
from prepcli.jobs.records import Records, extended_name
from prepcli.manifest.parts import FieldKey
from prepcli.manifest.record import Record, Value
from prepcli.models.codecs import notes_on_codec_model
from prepcli.models.protocols import Codec
from prepcli.planning.arrays import Scratch, Values, values_of
from prepcli.storage.paths import NUMBER, AnyPath


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


class TrainerCodesJob(RecordCodesJob[TrainerContents]):
    """Writes the codes of targets for a trainer other than NeMo; each subclass writes the files of one trainer.

    Attributes:
        title: the name of the trainer.
        num_codebooks: number of codebooks that the trainer reads.
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

    def load_model(self) -> Codec:
        """Load the codec; if it has more residual codebooks than the trainer reads, the first ones are used.

        Raises:
            UsageError: the codec cannot be loaded, or has fewer codebooks than the trainer reads, or has more
                that are not residual.
        """
        codec = super().load_model()
        if self.codec.num_codebooks is None and getattr(codec, "is_residual", False):
            codec.num_codebooks = min(codec.num_codebooks, self.num_codebooks)  # the further ones only refine the first
        if codec.num_codebooks != self.num_codebooks:
            raise UsageError(
                f"{self.title} reads codes of {self.num_codebooks} codebooks, and "
                f"{option('--codec-model', self.codec.codec_model)} gives {codec.num_codebooks}"
            )
        return codec

    def read_ahead(self, contents: TrainerContents, unit: RecordUnit, workers: DecodingPool[UsedSegment]) -> Begin:
        """Let workers probe the unit's files; returns a function that waits for the workers and begins the unit."""
        named = NamedSegments(contents.records, unit, workers, contexts=False)

        def begin(tick: Tick) -> TargetEncoder:
            seconds = contents.records.index.duration[unit.lo : unit.hi].tolist()
            return TargetEncoder(self, contents, unit, named.index(seconds, tick))

        return begin

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


class TargetEncoder(UnitEncoder):
    """Encodes the targets of a unit of records, and writes them for the trainer of the job."""

    def __init__(self, job: TrainerCodesJob, contents: TrainerContents, unit: RecordUnit, index: ShardIndex) -> None:
        self._job = job
        self._contents = contents
        self._unit = unit
        super().__init__((), [index], job, Path())

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
            entries.append(self._job.entry(self._contents, number, records.record(number), codes))
            total += index.seconds[position]
            return index.seconds[position]

        each_record(records, range(self._unit.lo, self._unit.hi), write, writer)
        self._job.write_entries(self._unit, entries, total, writer)
        states = {one.segment.name: one.state for one in self._members if one.state is not None}
        record_audio(writer, states)
        writer.extra.update(self.extra | {FRAME_SHIFT: self._codec.samples_per_frame / self._codec.sampling_rate})


def _dotless_id(text: str) -> str:
    return "" if "." in text else given_id(text)


DOTLESS_ID = FieldKey(GIVEN_ID.field, _dotless_id, is_optional=True)
"""The index key for ids without a dot; an id with a dot has an empty key. Readers of webdataset divide the names of
members at the first dot, and so would not keep such an id whole."""


class OmnivoiceJob(TrainerCodesJob):
    """Writes tars and labels for OmniVoice. A unit is a tar."""

    title = "OmniVoice"
    num_codebooks = omnivoice.NUM_CODEBOOKS

    def __init__(
        self,
        manifests: Sequence[str],
        audio_base_dir: AnyPath | None,
        out: AnyPath,
        codec: CodecSettings,
        *,
        shaping: Mapping[str, Any],
        device: str = "cpu",
        num_workers: int = 1,
    ) -> None:
        """See `RecordCodesJob` for the arguments."""
        codec = replace(codec, peak=omnivoice.PEAK) if codec.peak is None else codec
        super().__init__(manifests, audio_base_dir, out, codec, shaping=shaping, device=device, num_workers=num_workers)
        check_folder(self.folder)

    def output_patterns(self, plan: TrainerPlan) -> Sequence[str]:
        """The name of the list of tars, and the pattern of the tars."""
        return LIST_NAME, CODES_NAME.replace("{:06d}", NUMBER)

    def settings(self, plan: TrainerPlan) -> dict[str, Any]:
        """The options, the folders and, if the ids are from the records, a remark on that."""
        ids = plan.contents.ids
        return self.own_settings() | ({"ids": "the records' own"} if ids is not None and ids.given else {})

    def plan(self, workspace: Workspace) -> TrainerPlan:
        """Index the manifests, and divide their records into tars of nearly the same number of records."""
        records = self.read(workspace, ID_KEYS | {GIVEN_ID.field: DOTLESS_ID})

        def make(scratch: Scratch) -> Values:
            return values_of(plan_ids(records.index, self.audio_base_dir, scratch))

        size = self.codec.shard_size or max(1, min(omnivoice.SHARD_SIZE, len(records) // omnivoice.MIN_SHARDS))
        units, _, ids = self.shards(records, size, None, make)
        notes = notes_on_codec_model(self.codec.codec_model)
        return records.plan(units, TrainerContents(records, ids=RecordIds(**ids)), notes=notes)

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
        line.write(list_line(self.folder, unit.number, len(entries), seconds))

    def finish(self, plan: TrainerPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Write the list of tars; returns its path, and statistics."""
        writer.join(LIST_NAME, (_LIST_PART.format(marker.unit) for marker in markers))
        details: dict[str, Any] = {"data_list": writer.workspace.out / LIST_NAME}
        return details | frame_shift_of_units(markers) | self.statistics(markers)


_LIST_PART = "parts/{}.list"


class QwenJob(TrainerCodesJob):
    """Writes JSON lines for the fine-tuning of Qwen3-TTS. A unit is some consecutive records."""

    title = "Qwen3-TTS"
    num_codebooks = qwen3_tts.NUM_CODEBOOKS

    @property
    def file_name(self) -> str:
        """The name of the JSON lines file in the output folder."""
        return extended_name(self.manifests, qwen3_tts.LINES_NAME.format("", self.name))

    def plan(self, workspace: Workspace) -> TrainerPlan:
        """Index the manifests, and group consecutive records into units.

        Raises:
            UsageError: `--ref-audio` cannot be used, or is missing and no record has the field of the reference.
        """
        if self.codec.ref_audio is not None:
            try:
                _check_reference(str(self.codec.ref_audio))
            except RecordRejected as rejected:
                raise UsageError(f"{option('--ref-audio', self.codec.ref_audio)}: {rejected.detail}") from None
        records = self.read(workspace, looks_for=_names_reference)
        if self.codec.ref_audio is None and not records.index.found:
            raise UsageError(
                f"no record has the field {qwen3_tts.REFERENCE}, the audio of the voice: give {option('--ref-audio')}"
            )
        units = group_records(records, None, self.codec.pool_duration)
        return records.plan(units, TrainerContents(records), notes=notes_on_codec_model(self.codec.codec_model))

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
        if self.codec.ref_audio is not None:
            return str(self.codec.ref_audio.absolute())
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

    def finish(self, plan: TrainerPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Join the lines of the units; returns the path of the file, and statistics."""
        writer.join(self.file_name, (LINES_NAME.format(marker.unit) for marker in markers))
        details: dict[str, Any] = {"manifest": writer.workspace.out / self.file_name}
        return details | frame_shift_of_units(markers) | self.statistics(markers)


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
