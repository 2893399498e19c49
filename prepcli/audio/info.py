"""The properties of an audio file, such as its sampling rate, and the reject for an unreadable file."""

from math import floor
from typing import NamedTuple, NoReturn

from prepcli.errors import RecordRejected, RejectReason

NOT_PASSABLE = "sox"
"""`AudioInfo.format` of files that trainers cannot read correctly.

sox, sph2pipe or ffmpeg decodes them, or libsndfile after a correction of the header.
"""
FFMPEG = "ffmpeg"
"""`AudioInfo.format` of files that only ffmpeg decodes."""


class AudioInfo(NamedTuple):
    """The properties of an audio file; they follow from its content, never from its name.

    Attributes:
        format: the lower-case name of the container, and a file extension that NeMo's classic dataset accepts: "wav",
            "flac", "mp3", "ogg" for Vorbis in Ogg, "opus" for Opus in Ogg, "nist", "aiff", "au", ... The exceptions are
            "sox" and "ffmpeg": the samples can be read here (through these programs or a corrected header), but
            libsndfile alone, which trainers use, would fail or would read other samples. See `is_passable`.
        subtype: libsndfile's name of the sample encoding: "PCM_16", "PCM_24", "FLOAT", "ULAW", "OPUS", "VORBIS", ...
            With "ffmpeg" the name of the format: "MP4", "AAC", "WMA", ...
        sampling_rate: in Hz.
        num_samples: per channel.
        num_channels: number of channels.
        data_offset: byte offset of the first sample of PCM_16 WAV, which has its samples as little-endian int16; None
            for other encodings.
    """

    format: str
    subtype: str
    sampling_rate: int
    num_samples: int
    num_channels: int
    data_offset: int | None

    @property
    def is_passable(self) -> bool:
        """Whether trainers can read an unchanged copy of the file; otherwise it must be encoded again."""
        return self.format not in (NOT_PASSABLE, FFMPEG)

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.num_samples / self.sampling_rate

    def samples_in(self, seconds: float) -> int:
        """Return the number of samples in `seconds`: rounded to the nearest whole number, half up.

        As in lhotse, `seconds` times the rate is first rounded to 8 decimals: errors of floating point do not matter.
        """
        position = min(seconds * self.sampling_rate, 2.0**62)
        whole = floor(position)
        above = position - whole  # exact: both have the same exponent or the result needs fewer bits
        if abs(above - 0.5) < 1e-6:
            position = round(position, 8)
            whole = floor(position)
            above = position - whole
        return whole + (above >= 0.5)


def unreadable(name: str, what: str) -> NoReturn:
    """Raise `RecordRejected(UNREADABLE_AUDIO)` with "<name> <what>"; names with odd characters are quoted."""
    raise RecordRejected(RejectReason.UNREADABLE_AUDIO, f"{name if name.isprintable() else repr(name)} {what}")
