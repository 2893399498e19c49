"""What is known of an audio file without decoding it, and how the rooms' functions say no to one."""

from dataclasses import dataclass
from typing import NoReturn

from prepcli.errors import RecordRejected, RejectReason

#: `AudioInfo.format` of files whose samples we can get at, but whose bytes a trainer could not read.
NOT_PASSABLE = "sox"


@dataclass(frozen=True, slots=True)
class AudioInfo:
    """What an audio file holds, by its content and never by its name.

    `format` is the lower-case name of the container and a file extension that NeMo's classic dataset accepts
    ("wav", "flac", "mp3", "ogg" for Vorbis in Ogg, "opus" for Opus in Ogg, "nist", "aiff", "au", ...). The one
    exception is "sox": the samples can be read here (through sox, ffmpeg or a mended header), but libsndfile
    alone, which trainers use, would fail on the bytes or see a wrong length. Such files must be encoded anew.
    """

    format: str
    #: libsndfile's name of the sample encoding: "PCM_16", "PCM_24", "FLOAT", "ULAW", "OPUS", "VORBIS", ...
    subtype: str
    #: Hz
    sampling_rate: int
    #: per channel
    num_samples: int
    num_channels: int
    #: byte offset of the first sample where the samples lie as little-endian int16 in the file (PCM_16 WAV)
    data_offset: int | None

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.num_samples / self.sampling_rate


def unreadable(name: str, what: str) -> NoReturn:
    """Raise `RecordRejected(UNREADABLE_AUDIO)` with "<name> <what>"; names with odd characters are quoted."""
    raise RecordRejected(RejectReason.UNREADABLE_AUDIO, f"{name if name.isprintable() else repr(name)} {what}")
