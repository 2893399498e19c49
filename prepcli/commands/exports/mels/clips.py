"""One record as a clip: its id, its text, its samples, and what makes it unusable."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.encode import to_float32
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe_file
from prepcli.audio.read import read_segment, select_channel
from prepcli.audio.resample import resample
from prepcli.commands.exports.audio import FilePart, piece_of
from prepcli.commands.exports.job import ExportContents
from prepcli.commands.exports.mels.options import MelsOptions
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.mels import MEL_NAME, list_line
from prepcli.manifest.record import Record
from prepcli.processes.in_hand import take_in_hand

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
