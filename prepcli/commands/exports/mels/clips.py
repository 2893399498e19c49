"""The clips of `manifest-to-mels`: records of which mels are made, or which are only listed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.encode import to_float32
from prepcli.audio.rates import rate_counts
from prepcli.audio.resample import resample
from prepcli.audio.segments import Policy, Segment, decode
from prepcli.commands.exports.mels.file_lists import MEMBERS, NORMALIZED_TEXT, OTHER_AUDIO, PART_NAME, SEGMENTS, TEXT
from prepcli.commands.exports.mels.spectrogram import MelForm, MelSpectrogram
from prepcli.commands.exports.records import ExportContents
from prepcli.engine.publishing.output_files import OutputFile
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.mels import AUDIO, MEL, MEL_NAME, list_line
from prepcli.formats.npy import tensor_bytes
from prepcli.jobs.record_job import RecordUnit
from prepcli.jobs.source import items
from prepcli.manifest.record import Record
from prepcli.storage.containers import place_of

if TYPE_CHECKING:
    from torch import Tensor


RECORDS_PER_UNIT = 256
MANY_FILES = 1_000_000
Samples = NDArray[np.float32]


class ClipRules(NamedTuple):
    """How clips are made of records: the mels, the channel, and the field with the text, if it is given."""

    form: MelForm
    policy: Policy
    text_field: str | None = None


@dataclass(frozen=True, slots=True)
class Clip:
    """A usable record.

    Attributes:
        id: unique over all manifests.
        segment: its audio.
        mel_line: its line in the list of mels.
        audio_line: its line in the list of audio; None for a segment and a member of a container, because lists name
            whole files.
        text_field: the field with its text.
    """

    id: str
    segment: Segment
    mel_line: bytes
    audio_line: bytes | None
    text_field: str


def find_clip(contents: ExportContents, number: int, record: Record, rules: ClipRules) -> Clip:
    """Return the clip of a record. Checks its text and the header of its audio, but does not decode the audio.

    Raises:
        RecordRejected: the record cannot be used.
    """
    form = rules.form
    field = rules.text_field or (TEXT if record.get(NORMALIZED_TEXT) is None else NORMALIZED_TEXT)
    text = record.text(field)
    if not (text and text.strip()):
        raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no {field}")
    id = contents.id_of(number, record)
    mel_line = list_line(MEL_NAME.format(id), text, field)
    segment = contents.segment(number, record, rules.policy)
    length = resampled_length(segment, form.sampling_rate)
    if length < form.min_samples:
        raise RecordRejected(
            RejectReason.BAD_DURATION,
            f"{length} samples at {form.sampling_rate} Hz are too short for a mel; {form.min_samples} are needed",
        )
    is_file = segment.has_all_samples and place_of(segment.name) is None
    audio_line = list_line(segment.name, text, field) if is_file else None
    return Clip(id, segment, mel_line, audio_line, field)


def resampled_length(segment: Segment, sampling_rate: int) -> int:
    """The number of samples of a segment after it is resampled to `sampling_rate` (Hz)."""
    return -(-segment.num_samples * sampling_rate // segment.info.sampling_rate)


def read_clip(clip: Clip, sampling_rate: int) -> Samples:
    """Decode one channel of a clip, and resample it to `sampling_rate` (Hz): float32 of shape (n,), in [-1, 1].

    Raises:
        RecordRejected: the audio cannot be decoded.
    """
    samples = decode(clip.segment)[:, 0]
    mono, rate = to_float32(samples), clip.segment.info.sampling_rate
    if rate != sampling_rate:
        mono = resample(mono, rate, sampling_rate)
    elif samples.dtype.kind != "f":
        return mono
    return np.clip(mono, -1, 1)


class ClipWriter:
    """Writes the mels of a unit and its parts of the file lists."""

    def __init__(self, contents: ExportContents, writer: UnitWriter, rules: ClipRules) -> None:
        self._contents, self._writer, self._rules = contents, writer, rules
        self._parts: dict[tuple[int, str], OutputFile] = {}

    def write(self, number: int, clip: Clip, mel: "Tensor | None") -> float:
        """Add a clip to the file lists, and write its mel if there is one; returns the duration of the clip (s)."""
        if mel is not None:
            self._writer.add(MEL_NAME.format(clip.id), tensor_bytes(mel))
            self._writer.extra.update(rate_counts(clip.segment.info.sampling_rate, 2 * self._rules.form.mel_fmax))
        if self._rules.text_field is None:
            self._writer.extra[clip.text_field] += 1
        self._list(number, MEL, clip.mel_line)
        if clip.audio_line is not None:
            self._list(number, AUDIO, clip.audio_line)
            info = clip.segment.info
            audio = info.format, info.subtype, info.num_channels, info.sampling_rate
            self._writer.extra[OTHER_AUDIO] += audio != ("wav", "PCM_16", 1, self._rules.form.sampling_rate)
        else:
            self._writer.extra[SEGMENTS if place_of(clip.segment.name) is None else MEMBERS] += 1
        return clip.segment.duration

    def _list(self, number: int, kind: str, line: bytes) -> None:
        key = (self._contents.records.index.source_of(number), kind)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = self._writer.open_part(PART_NAME.format(self._writer.unit.id, *key))
        part.write(line)


def write_clips(
    contents: ExportContents,
    unit: RecordUnit,
    writer: UnitWriter,
    rules: ClipRules,
    spectrogram: MelSpectrogram | None,
) -> None:
    """Write the parts of the file lists, and with a `spectrogram` also the mels."""
    if spectrogram is not None:
        import torch

        torch.set_num_threads(1)  # each processor has one worker
    clips = ClipWriter(contents, writer, rules)
    for item in items(contents, unit, writer):
        with item:
            clip = find_clip(contents, item.number, item.record, rules)
            mel = None
            if spectrogram is not None:
                mel = spectrogram(torch.from_numpy(read_clip(clip, rules.form.sampling_rate)))
            item.seconds = clips.write(item.number, clip, mel)
