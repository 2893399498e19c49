"""manifest-to-mels on GPUs: worker processes decode, the main process of each rank computes."""

import glob
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.encode import to_float32
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe_file
from prepcli.audio.rates import rate_counts, rates_note
from prepcli.audio.read import read_segment, select_channel
from prepcli.audio.resample import resample
from prepcli.commands.exports.audio import FilePart, piece_of
from prepcli.commands.exports.job import ExportContents, ExportJob, ExportPlan
from prepcli.commands.exports.mels.options import ManifestToMels, MelsOptions
from prepcli.commands.exports.mels.spectrogram import MelSpectrogram
from prepcli.engine.publishing.output_files import OutputFile
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.job import Advance
from prepcli.engine.run.report import Report
from prepcli.engine.run.run_command import run_command
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.formats.mels import AUDIO, LIST_NAME, MEL, MEL_NAME, list_line
from prepcli.formats.tensors import tensor_bytes
from prepcli.jobs.model_job import Begin, ModelJob, UnitWork
from prepcli.jobs.prefetch import Batch, Decoded, DecodingPool
from prepcli.jobs.record_job import OverRecords, RecordUnit, RecordWriter, each_record
from prepcli.manifest.record import Record
from prepcli.manifest.sources import expand_paths
from prepcli.models.devices import to_device, use_full_float32
from prepcli.models.ranks import run_on_devices
from prepcli.processes.in_hand import take_in_hand
from prepcli.storage.input_files import refuse_swapped

if TYPE_CHECKING:
    from torch import Tensor


Samples = NDArray[np.float32]
TEXT, NORMALIZED_TEXT = "text", "normalized_text"


@dataclass(frozen=True, slots=True)
class Clip:
    """A usable record.

    Attributes:
        id: unique over all manifests.
        path: its audio file.
        piece: the part of it.
        mel_line: its line in the list of mels.
        audio_line: its line in the list of audio; None for a segment, which a list cannot name.
        text_field: the field with its text.
    """

    id: str
    path: str
    piece: FilePart
    mel_line: bytes
    audio_line: bytes | None
    text_field: str

    def is_readable_as_audio(self, options: MelsOptions) -> bool:
        """Whether the trainers can read the file itself: they take 16-bit mono WAV at the rate of the mels."""
        info = self.piece.info
        return (info.format, info.subtype, info.num_channels) == ("wav", "PCM_16", 1) and (
            info.sampling_rate == options.sampling_rate
        )


def find_clip(contents: ExportContents, number: int, record: Record, options: MelsOptions) -> Clip:
    """Look at the text and at the header of the audio of a record.

    Raises:
        RecordRejected: the record cannot be used, as far as can be told without decoding.
    """
    field = options.text_field or (TEXT if record.get(NORMALIZED_TEXT) is None else NORMALIZED_TEXT)
    text = record.text(field)
    if not (text and text.strip()):
        raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no {field}")
    id = contents.id_of(number, record)
    mel_line = list_line(MEL_NAME.format(id), text, field)
    path = contents.audio_path(number, record)
    take_in_hand(path, record.offset, record.duration)
    piece = piece_of(record, probe_file(path))
    length = resampled_length(piece, options)
    if length < options.min_samples:
        raise RecordRejected(
            RejectReason.BAD_DURATION,
            f"{length} samples at {options.sampling_rate} Hz are too short for a mel; {options.min_samples} are needed",
        )
    is_file = (piece.start, piece.num_samples) == (0, piece.info.num_samples)
    return Clip(id, path, piece, mel_line, list_line(path, text, field) if is_file else None, field)


def resampled_length(piece: FilePart, options: MelsOptions) -> int:
    """How many samples `resample` gives."""
    return -(-piece.num_samples * options.sampling_rate // piece.info.sampling_rate)


def read_clip(clip: Clip, options: MelsOptions) -> Samples:
    """The samples (n,) of a clip, in [-1, 1], of the record's channel or else the first.

    Raises:
        RecordRejected: the audio cannot be decoded.
    """
    piece, info = clip.piece, clip.piece.info
    samples: NDArray[Any] = read_segment(clip.path, info, piece.start, piece.num_samples)
    samples = select_channel(samples, piece.channel)[:, 0]
    return _at_rate(samples, info, options)


def _at_rate(samples: "NDArray[Any]", info: AudioInfo, options: MelsOptions) -> Samples:
    mono = to_float32(samples)
    if info.sampling_rate != options.sampling_rate:
        mono = resample(mono, info.sampling_rate, options.sampling_rate)
    elif samples.dtype.kind != "f":
        return mono
    return np.clip(mono, -1, 1)


SEGMENTS, OTHER_AUDIO = "segments", "other_audio"
"""What the units count for the summary: clips that the list of audio cannot name, and files trainers cannot read.

Without `--text-field` they also count the clips by the field of their text.
"""
_CLIPS_PER_UNIT = 256
_PART_NAME = "parts/{}.{}.{}"
_MANY_FILES = 1_000_000


class MelsJob(ExportJob):
    """Turns manifests into mels on the CPU, or into file lists alone. A unit is a group of clips."""

    command: ClassVar[str] = "manifest-to-mels"

    def __init__(self, manifests: Sequence[str], options: MelsOptions, num_workers: int = 1) -> None:
        options.check()
        super().__init__(manifests, options, num_workers)
        self.mels = options
        self.stems = [_stem(path) for path in manifests]
        repeated = [stem for stem, count in Counter(self.stems).items() if count > 1]
        if repeated:
            raise UsageError(
                f"two manifests have the name {repeated[0]}, and so would their file lists; rename one of them, or "
                "link to it by another name"
            )

    @property
    def shard_size(self) -> int:
        """Clips per unit."""
        return _CLIPS_PER_UNIT

    @cached_property
    def spectrogram(self) -> MelSpectrogram:
        """What computes mels."""
        return MelSpectrogram(self.mels)

    def plan(self, workspace: Workspace) -> ExportPlan:
        """Index the manifests and divide their records into groups."""
        plan = super().plan(workspace)
        if len(plan.contents.records) > _MANY_FILES and not self.mels.lists_only:
            plan.notes.append(
                f"{len(plan.contents.records):,} files in one folder: make sure that the file system has room for them"
            )
        return plan

    def output_patterns(self, plan: ExportPlan) -> Sequence[str]:
        """The file lists, which name the mels."""
        return [LIST_NAME.format(glob.escape(stem), kind) for stem in self.stems for kind in (AUDIO, MEL)]

    def prepare(self) -> None:
        """Import PyTorch and make the filters once, before the worker processes are forked."""
        if not self.mels.lists_only:
            _ = self.spectrogram

    def open_unit(self, contents: ExportContents, unit: RecordUnit, writer: UnitWriter) -> RecordWriter:
        """A group of clips."""
        spectrogram = None
        if not self.mels.lists_only:
            import torch

            torch.set_num_threads(1)  # as many workers as processors compute at the same time
            spectrogram = self.spectrogram
        return _Group(contents, unit, writer, self.mels, spectrogram)

    def finish(self, plan: ExportPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Join the lists of each manifest; returns their paths, and what trainers cannot read."""
        out = writer.workspace.out
        details: dict[str, Any] = {}
        for source, stem in enumerate(self.stems):
            for kind in (MEL, AUDIO):
                name = LIST_NAME.format(stem, kind)
                parts = ((marker, _PART_NAME.format(marker.unit, source, kind)) for marker in markers)
                writer.join(name, (part for marker, part in parts if part in marker.work_files))
                details[f"{stem}_{kind}_text_filelist"] = out / name
        details |= rates_note((marker.extra for marker in markers), "mels", "the {} Hz that --mel-fmax needs")
        counts: Counter[str] = Counter()
        for marker in markers:
            counts.update(marker.extra)
        if counts[NORMALIZED_TEXT]:
            details["text_field"] = NORMALIZED_TEXT
            if counts[TEXT]:
                details["text_field"] += f"; {counts[TEXT]:,.0f} records do not have it, and their {TEXT} is listed"
        if counts[SEGMENTS]:
            details["segments"] = f"{counts[SEGMENTS]:,.0f} records are parts of files and are not in the list of audio"
        if counts[OTHER_AUDIO]:
            details["audio_list"] = (
                f"{counts[OTHER_AUDIO]:,.0f} files of the list of audio are not 16-bit mono WAV at "
                f"{self.mels.sampling_rate} Hz, which is all that WaveGlow reads"
            )
        return details


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path).removesuffix(".gz"))[0]


class ClipWriter:
    """Writes the mels of a unit and its parts of the file lists."""

    def __init__(self, contents: ExportContents, unit: RecordUnit, writer: UnitWriter, options: MelsOptions) -> None:
        self._records = contents.records
        self._unit = unit
        self._writer = writer
        self._options = options
        self._parts: dict[tuple[int, str], OutputFile] = {}

    def write(self, number: int, clip: Clip, mel: "Tensor | None") -> float:
        """Write a clip; returns its seconds."""
        if mel is not None:
            self._writer.add(MEL_NAME.format(clip.id), tensor_bytes(mel))
            self._writer.extra.update(rate_counts(clip.piece.info.sampling_rate, 2 * self._options.mel_fmax))
        if self._options.text_field is None:
            self._writer.extra[clip.text_field] += 1
        self._list(number, MEL, clip.mel_line)
        if clip.audio_line is not None:
            self._list(number, AUDIO, clip.audio_line)
            self._writer.extra[OTHER_AUDIO] += not clip.is_readable_as_audio(self._options)
        else:
            self._writer.extra[SEGMENTS] += 1
        return clip.piece.duration

    def _list(self, number: int, kind: str, line: bytes) -> None:
        key = (self._records.index.source_of(number), kind)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = self._writer.open_part(_PART_NAME.format(self._unit.id, *key))
        part.write(line)


class _Group:
    """A unit that is computed record by record, in a worker process."""

    def __init__(
        self,
        contents: ExportContents,
        unit: RecordUnit,
        writer: UnitWriter,
        options: MelsOptions,
        spectrogram: MelSpectrogram | None,
    ) -> None:
        self._contents = contents
        self._options = options
        self._spectrogram = spectrogram
        self._clips = ClipWriter(contents, unit, writer, options)

    def add(self, number: int, record: Record) -> float:
        clip = find_clip(self._contents, number, record, self._options)
        mel = None
        if self._spectrogram is not None:
            import torch

            mel = self._spectrogram(torch.from_numpy(read_clip(clip, self._options)))
        return self._clips.write(number, clip, mel)

    def close(self) -> None:
        pass


_BATCH_SECONDS = 240.0
_BATCH_CLIPS = 32
_SLACK_SECONDS = 0.05
"""A clip may be so much longer than its record says (20 ms, and rounding)."""


@dataclass(frozen=True)
class ClipDecoder:
    """Decodes the clips of records in worker processes."""

    contents: ExportContents
    options: MelsOptions

    def ahead(self, numbers: Sequence[int]) -> Iterator[int]:
        """The records in order; of audio in an object store, several files are requested at once."""
        return self.contents.records.reading_ahead(numbers)

    def decode(self, number: int) -> Samples:
        """The samples of record `number`; raises `RecordRejected` where it cannot be used."""
        record = self.contents.records.record(number)
        return read_clip(find_clip(self.contents, number, record, self.options), self.options)


@dataclass(frozen=True)
class _Clips(UnitWork[int, "list[Tensor | RecordRejected]"]):
    """The clips of a unit: decoded in batches, computed one by one, so that no mel depends on its batch."""

    contents: ExportContents
    unit: RecordUnit
    job: MelsJob
    spectrogram: MelSpectrogram
    max_samples: int

    @property
    def _numbers(self) -> list[int]:
        return self.contents.numbers(self.unit)

    def batches(self) -> Iterator[Batch[int]]:
        durations = self.contents.records.index.duration
        rate = self.job.mels.sampling_rate
        items: list[int] = []
        longest = 0
        for number in self._numbers:
            length = int((float(durations[number]) + _SLACK_SECONDS) * rate) + 1
            if items and (len(items) == _BATCH_CLIPS or max(longest, length) * (len(items) + 1) > self.max_samples):
                yield Batch(tuple(items), longest)
                items, longest = [], 0
            items.append(number)
            longest = max(longest, length)
        if items:
            yield Batch(tuple(items), longest)

    def compute(self, decoded: Iterator[Decoded], device: str, advance: Advance) -> "list[Tensor | RecordRejected]":
        import torch

        durations = self.contents.records.index.duration
        found: list[Tensor | RecordRejected] = []
        for batch in self.batches():
            rows = next(decoded)
            if not rows.audio.size:
                found += [rows.rejects[row] for row in range(len(batch.items))]
            else:
                audio = to_device(torch.from_numpy(rows.audio), device)
                for row in range(len(batch.items)):
                    if row in rows.rejects:
                        found.append(rows.rejects[row])
                    else:
                        found.append(self.spectrogram(audio[row, : int(rows.lengths[row])]).cpu())
            advance(len(batch.items), float(durations[list(batch.items)].sum()))
        return found

    def write(self, computed: "list[Tensor | RecordRejected]", writer: UnitWriter) -> None:
        contents, options = self.contents, self.job.mels
        clips = ClipWriter(contents, self.unit, writer, options)
        mels = dict(zip(self._numbers, computed, strict=True))

        def write(number: int) -> float:
            mel = mels[number]
            if isinstance(mel, RecordRejected):
                raise mel
            return clips.write(number, find_clip(contents, number, contents.records.record(number), options), mel)

        each_record(contents.records, mels, write, writer)


class MelsOnDevice(ModelJob[RecordUnit, ExportContents, MelSpectrogram], OverRecords[RecordUnit, ExportContents]):
    """The same as `MelsJob`, on the device of this rank."""

    command: ClassVar[str] = MelsJob.command

    def __init__(self, job: MelsJob, device: str) -> None:
        super().__init__(device, job.num_workers)
        self.job, self.manifests, self.options = job, job.manifests, job.options

    def plan(self, workspace: Workspace) -> ExportPlan:
        """As `MelsJob`."""
        return self.job.plan(workspace)

    def settings(self, plan: ExportPlan) -> dict[str, Any]:
        """As `MelsJob`."""
        return self.job.settings(plan)

    def output_patterns(self, plan: ExportPlan) -> Sequence[str]:
        """As `MelsJob`."""
        return self.job.output_patterns(plan)

    def finish(self, plan: ExportPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """As `MelsJob`."""
        return self.job.finish(plan, markers, writer)

    def load_model(self) -> MelSpectrogram:
        """What computes mels."""
        return self.job.spectrogram

    def set_up_device(self) -> None:
        """Have PyTorch compute in full float32."""
        use_full_float32()

    @property
    def max_batch_samples(self) -> int:
        """Those of four minutes."""
        return int(_BATCH_SECONDS * self.job.mels.sampling_rate)

    def decoder(self, contents: ExportContents) -> ClipDecoder:
        """Reads the clips."""
        return ClipDecoder(contents, self.job.mels)

    def read_ahead(self, contents: ExportContents, unit: RecordUnit, workers: DecodingPool[int]) -> Begin:
        """Nothing is read ahead."""
        return lambda tick: _Clips(contents, unit, self.job, self.model, self.max_batch_samples)


def manifest_to_mels(options: ManifestToMels) -> Report:
    """Turn manifests into mel-spectrograms and file lists.

    Returns:
        The report of the run; `outputs` has the file lists of each manifest.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or PyTorch is not installed.

    Example:
        >>> import prepcli
        >>> report = prepcli.manifest_to_mels("manifest.json", "mels", devices="cpu")
        >>> report.records_out
        48
        >>> report.outputs["manifest_mel_text_filelist"]
        '/.../mels/filelists/manifest_mel_text_filelist.txt'
    """
    refuse_swapped(options.manifest, options.out)
    engine = options.engine()
    workspace = Workspace(options.out)
    job = MelsJob(expand_paths(options.manifest), options, num_workers=engine.num_workers)
    if options.lists_only:
        return run_command(job, workspace, options, engine)
    return run_on_devices(
        lambda device: job if device == "cpu" else MelsOnDevice(job, device),
        options.devices,
        workspace,
        options,
        engine,
    )
