"""manifest-to-mels: makes mel-spectrograms from the audio of manifests.

On the CPU, worker processes compute the mels. On a GPU, the main process of each rank does, and its workers decode.
"""

import glob
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.encode import to_float32
from prepcli.audio.rates import rate_counts, rates_note
from prepcli.audio.resample import resample
from prepcli.audio.segments import MELS, Segment, decode, with_channel
from prepcli.commands.exports.job import ExportContents, ExportJob, ExportPlan
from prepcli.commands.exports.mels.options import ManifestToMels, MelsOptions
from prepcli.commands.exports.mels.spectrogram import MelSpectrogram
from prepcli.engine.publishing.output_files import OutputFile
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.run.unit import Advance
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.mels import AUDIO, LIST_NAME, MEL, MEL_NAME, list_line
from prepcli.formats.npy import tensor_bytes
from prepcli.jobs.inputs.named import refuse_containers
from prepcli.jobs.model_job import Begin, ModelJob, Take, UnitWork
from prepcli.jobs.prefetch import Batch, Decoded, DecodingPool
from prepcli.jobs.record_job import RecordUnit, RecordWriter, each_record, open_run
from prepcli.jobs.records import stem_of
from prepcli.manifest.record import Record
from prepcli.models.devices import to_device
from prepcli.models.ranks import run_on_devices
from prepcli.models.running import ModelRunner, Result

if TYPE_CHECKING:
    from torch import Tensor


Samples = NDArray[np.float32]
TEXT, NORMALIZED_TEXT = "text", "normalized_text"


@dataclass(frozen=True, slots=True)
class Clip:
    """A usable record.

    Attributes:
        id: unique over all manifests.
        segment: its audio.
        mel_line: its line in the list of mels.
        audio_line: its line in the list of audio; None for a segment, because lists name whole files.
        text_field: the field with its text.
    """

    id: str
    segment: Segment
    mel_line: bytes
    audio_line: bytes | None
    text_field: str


def find_clip(contents: ExportContents, number: int, record: Record, options: MelsOptions) -> Clip:
    """Return the clip of a record. Checks its text and the header of its audio, but does not decode the audio.

    Raises:
        RecordRejected: the record cannot be used.
    """
    field = options.text_field or (TEXT if record.get(NORMALIZED_TEXT) is None else NORMALIZED_TEXT)
    text = record.text(field)
    if not (text and text.strip()):
        raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no {field}")
    id = contents.id_of(number, record)
    mel_line = list_line(MEL_NAME.format(id), text, field)
    segment = contents.segment(number, record, with_channel(MELS, options.channel))
    length = resampled_length(segment, options)
    if length < options.min_samples:
        raise RecordRejected(
            RejectReason.BAD_DURATION,
            f"{length} samples at {options.sampling_rate} Hz are too short for a mel; {options.min_samples} are needed",
        )
    audio_line = list_line(segment.name, text, field) if segment.has_all_samples else None
    return Clip(id, segment, mel_line, audio_line, field)


def resampled_length(segment: Segment, options: MelsOptions) -> int:
    """The number of samples of a segment after it is resampled."""
    return -(-segment.num_samples * options.sampling_rate // segment.info.sampling_rate)


def read_clip(clip: Clip, options: MelsOptions) -> Samples:
    """Decode one channel of a clip, and resample it: float32 of shape (n,), in [-1, 1].

    Raises:
        RecordRejected: the audio cannot be decoded.
    """
    samples = decode(clip.segment)[:, 0]
    mono, rate = to_float32(samples), clip.segment.info.sampling_rate
    if rate != options.sampling_rate:
        mono = resample(mono, rate, options.sampling_rate)
    elif samples.dtype.kind != "f":
        return mono
    return np.clip(mono, -1, 1)


SEGMENTS, OTHER_AUDIO = "segments", "other_audio"
"""Keys of counts in the markers of units: clips that are segments, which are not in the list of audio; and files in
this list that WaveGlow cannot read.

Without `--text-field`, the markers also count the clips by the name of the field that has their text.
"""
_PART_NAME = "parts/{}.{}.{}"
_MANY_FILES = 1_000_000


class MelsJob(ExportJob[MelsOptions]):
    """Turns manifests into mels on the CPU, or into file lists alone. A unit is a group of clips."""

    command: ClassVar[str] = "manifest-to-mels"

    def __init__(self, manifests: Sequence[str], options: MelsOptions, num_workers: int = 1) -> None:
        super().__init__(manifests, options, num_workers)
        self.stems = [stem_of(path) for path in manifests]
        repeated = [stem for stem, count in Counter(self.stems).items() if count > 1]
        if repeated:
            raise UsageError(
                f"two manifests have the name {repeated[0]}, and so would their file lists; rename one of them, or "
                "link to it by another name"
            )

    @cached_property
    def spectrogram(self) -> MelSpectrogram:
        """The object that computes mels."""
        return MelSpectrogram(self.options)

    def plan(self, workspace: Workspace) -> ExportPlan:
        """Index the manifests, and divide their records into units."""
        plan = super().plan(workspace)
        if len(plan.contents.records) > _MANY_FILES and not self.options.lists_only:
            plan.notes.append(
                f"{len(plan.contents.records):,} files in one folder: make sure that the file system has room for them"
            )
        return plan

    def output_patterns(self, plan: ExportPlan) -> Sequence[str]:
        """The names of the file lists; readers find the mels through them."""
        return [LIST_NAME.format(glob.escape(stem), kind) for stem in self.stems for kind in (AUDIO, MEL)]

    def prepare(self) -> None:
        """Import PyTorch and make the filters once, before worker processes are forked."""
        if not self.options.lists_only:
            _ = self.spectrogram

    def open_unit(self, contents: ExportContents, unit: RecordUnit, writer: UnitWriter) -> RecordWriter:
        """Return the writer of a group of clips."""
        spectrogram = None
        if not self.options.lists_only:
            import torch

            torch.set_num_threads(1)  # each processor has one worker
            spectrogram = self.spectrogram
        return ClipWriter(contents, unit, writer, self.options, spectrogram)

    def finish(self, plan: ExportPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Join the parts of the file lists of each manifest; returns their paths, and notes on the clips in them."""
        out = writer.workspace.out
        details: dict[str, Any] = {}
        for source, stem in enumerate(self.stems):
            for kind in (MEL, AUDIO):
                name = LIST_NAME.format(stem, kind)
                parts = ((marker, _PART_NAME.format(marker.unit, source, kind)) for marker in markers)
                writer.join(name, (part for marker, part in parts if part in marker.work_files))
                details[f"{stem}_{kind}_text_filelist"] = out / name
        details |= rates_note(
            (marker.extra for marker in markers), "mels", f"the {{}} Hz that {option('--mel-fmax')} needs"
        )
        counts = totals(markers)
        if counts[NORMALIZED_TEXT]:
            details["text_field"] = NORMALIZED_TEXT
            if counts[TEXT]:
                details["text_field"] += f"; {counts[TEXT]:,.0f} records do not have it, and their {TEXT} is listed"
        if counts[SEGMENTS]:
            details["segments"] = f"{counts[SEGMENTS]:,.0f} records are parts of files and are not in the list of audio"
        if counts[OTHER_AUDIO]:
            details["audio_list"] = (
                f"{counts[OTHER_AUDIO]:,.0f} files of the list of audio are not 16-bit mono WAV at "
                f"{self.options.sampling_rate} Hz, which is all that WaveGlow reads"
            )
        return details


class ClipWriter(RecordWriter):
    """Writes the mels of a unit and its parts of the file lists."""

    def __init__(
        self,
        contents: ExportContents,
        unit: RecordUnit,
        writer: UnitWriter,
        options: MelsOptions,
        spectrogram: MelSpectrogram | None = None,
    ) -> None:
        self._contents = contents
        self._unit = unit
        self._writer = writer
        self._options = options
        self._spectrogram = spectrogram
        self._parts: dict[tuple[int, str], OutputFile] = {}

    def add(self, number: int, record: Record) -> float:
        """Add a record to the file lists, and write its mel unless the job makes lists alone; returns its seconds."""
        clip = find_clip(self._contents, number, record, self._options)
        mel = None
        if self._spectrogram is not None:
            import torch

            mel = self._spectrogram(torch.from_numpy(read_clip(clip, self._options)))
        return self.write(number, clip, mel)

    def write(self, number: int, clip: Clip, mel: "Tensor | None") -> float:
        """Add a clip to the file lists, and write its mel if there is one; returns the duration of the clip (s)."""
        if mel is not None:
            self._writer.add(MEL_NAME.format(clip.id), tensor_bytes(mel))
            self._writer.extra.update(rate_counts(clip.segment.info.sampling_rate, 2 * self._options.mel_fmax))
        if self._options.text_field is None:
            self._writer.extra[clip.text_field] += 1
        self._list(number, MEL, clip.mel_line)
        if clip.audio_line is not None:
            self._list(number, AUDIO, clip.audio_line)
            info = clip.segment.info
            found = info.format, info.subtype, info.num_channels, info.sampling_rate
            self._writer.extra[OTHER_AUDIO] += found != ("wav", "PCM_16", 1, self._options.sampling_rate)
        else:
            self._writer.extra[SEGMENTS] += 1
        return clip.segment.duration

    def _list(self, number: int, kind: str, line: bytes) -> None:
        key = (self._contents.records.index.source_of(number), kind)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = self._writer.open_part(_PART_NAME.format(self._unit.id, *key))
        part.write(line)


_BATCH_SECONDS = 240.0
_BATCH_CLIPS = 32
_SLACK_SECONDS = 0.05
"""Seconds added to a record's duration when batches are planned: clips may be up to 20 ms longer, plus rounding."""


@dataclass(frozen=True)
class ClipDecoder:
    """Decodes the clips of records: their audio as the mels need it. Worker processes call its methods."""

    contents: ExportContents
    options: MelsOptions

    def ahead(self, numbers: Sequence[int]) -> Iterator[int]:
        """Yield `numbers` in order; audio in an object store is requested for several records at once."""
        return self.contents.records.reading_ahead(numbers)

    def decode(self, number: int) -> Samples:
        """The samples of record `number`; raises `RecordRejected` if it cannot be used."""
        record = self.contents.records.record(number)
        return read_clip(find_clip(self.contents, number, record, self.options), self.options)


class _Clips(UnitWork[int, "dict[int, Tensor | RecordRejected]"]):
    """The clips of a unit, in batches."""

    def __init__(self, job: "MelsOnDevice", contents: ExportContents, unit: RecordUnit) -> None:
        self._contents, self._unit, self._options = contents, unit, job.options
        self._spectrogram, self._max_samples = job.model, job.max_batch_samples
        self._durations = contents.records.index.duration
        self._batches = list(self._plan_batches())
        self._found: dict[int, Tensor | RecordRejected] = {}

    def _plan_batches(self) -> Iterator[Batch[int]]:
        rate = self._options.sampling_rate
        items: list[int] = []
        longest = 0
        for number in self._contents.numbers(self._unit):
            length = int((float(self._durations[number]) + _SLACK_SECONDS) * rate) + 1
            if items and (len(items) == _BATCH_CLIPS or max(longest, length) * (len(items) + 1) > self._max_samples):
                yield Batch(tuple(items), longest)
                items, longest = [], 0
            items.append(number)
            longest = max(longest, length)
        if items:
            yield Batch(tuple(items), longest)

    def batches(self) -> Iterator[Batch[int]]:
        """The batches to decode."""
        yield from self._batches

    def start(self, number: int, decoded: Decoded, runner: ModelRunner, advance: Advance) -> Take:
        """Start to compute the mels of batch `number` on the device; returns the function that waits for them."""
        import torch

        items = self._batches[number].items
        self._found |= {items[row]: rejected for row, rejected in decoded.rejects.items()}
        rows = [row for row in range(len(items)) if row not in decoded.rejects]
        lengths = torch.from_numpy(decoded.lengths)[rows]
        running = None
        if rows:
            move = partial(_to_device, runner.device)
            audio = torch.from_numpy(decoded.audio)[rows]
            running = runner.run(self._spectrogram.of_batch, audio, lengths, prepare=move)

        def take() -> None:
            if running is not None:
                self._take([items[row] for row in rows], lengths, running.result())
            advance(len(items), float(self._durations[list(items)].sum()))

        return take

    def _take(self, numbers: Sequence[int], lengths: "Tensor", found: Result) -> None:
        for row in found.too_large:
            self._found[numbers[row]] = RecordRejected(
                RejectReason.OUT_OF_MEMORY, "the device has not enough memory for its mel: give --devices cpu"
            )
        if found.tensors:
            for mel, row in zip(found.tensors[0], found.fitting(len(numbers)), strict=True):
                frames = 1 + int(lengths[row]) // self._options.hop_length
                self._found[numbers[row]] = mel[:, :frames].clone()

    def finish(self, advance: Advance) -> "dict[int, Tensor | RecordRejected]":
        """Return the mel of each clip by the number of its record; a rejected record has its error instead."""
        return self._found

    def write(self, computed: "dict[int, Tensor | RecordRejected]", writer: UnitWriter) -> None:
        """Write the mels, in the order of the records."""
        contents, options = self._contents, self._options
        clips = ClipWriter(contents, self._unit, writer, options)

        def write(number: int) -> float:
            mel = computed[number]
            if isinstance(mel, RecordRejected):
                raise mel
            return clips.write(number, find_clip(contents, number, contents.records.record(number), options), mel)

        each_record(contents.records, contents.numbers(self._unit), write, writer)


def _to_device(device: str, *tensors: "Tensor") -> "tuple[Tensor, ...]":
    return tuple(to_device(one, device) for one in tensors)


class MelsOnDevice(ModelJob[RecordUnit, ExportContents, MelSpectrogram], MelsJob):
    """Turns manifests into mels as `MelsJob` does, but on the device of this rank."""

    def __init__(self, manifests: Sequence[str], options: MelsOptions, device: str, num_workers: int = 1) -> None:
        MelsJob.__init__(self, manifests, options)
        ModelJob.__init__(self, device, num_workers)

    def load_model(self) -> MelSpectrogram:
        """The object that computes mels."""
        return self.spectrogram

    @property
    def max_batch_samples(self) -> int:
        """Maximum number of samples of a batch of several clips, padding included: four minutes of audio."""
        return int(_BATCH_SECONDS * self.options.sampling_rate)

    def decoder(self, contents: ExportContents) -> ClipDecoder:
        """Return the decoder of the clips."""
        return ClipDecoder(contents, self.options)

    def read_ahead(self, contents: ExportContents, unit: RecordUnit, workers: DecodingPool[int]) -> Begin:
        """Return the function that begins the unit. No audio is read before that function is called."""
        return lambda tick: _Clips(self, contents, unit)


def manifest_to_mels(options: ManifestToMels) -> Report:
    """Turn manifests into mel-spectrograms and file lists.

    Returns:
        The report of the run; `outputs` has the file lists of each manifest.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or PyTorch is not installed.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_mels("manifest.json", "mels", devices="cpu")
        >>> report.records_out
        48
        >>> report.outputs["manifest_mel_text_filelist"]
        '/.../mels/filelists/manifest_mel_text_filelist.txt'
    """
    manifests, workspace, engine = open_run(options)
    job = MelsJob(manifests, options, engine.num_workers)
    if options.lists_only:
        refuse_containers(manifests, "--lists-only")
        return run_job(job, workspace, engine)
    return run_on_devices(
        lambda device: job if device == "cpu" else MelsOnDevice(manifests, options, device, engine.num_workers),
        options.devices,
        workspace,
        engine,
    )
