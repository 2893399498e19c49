"""The bytes of a recording, or of a segment of it, in the format that is asked for; untouched where nothing changes."""

from dataclasses import dataclass

from prepcli.audio.check import check_copy, check_decoded
from prepcli.audio.encode import encodable_rate, encode, lossless_subtype
from prepcli.audio.info import NOT_PASSABLE, AudioInfo
from prepcli.audio.read import read_segment
from prepcli.audio.resample import resample
from prepcli.audio.source import open_source

FALLBACK_FORMAT = "flac"
"""What a recording becomes that must be encoded anew and whose own format cannot be written: lossless and small."""


@dataclass(frozen=True, slots=True)
class TargetFormat:
    """What stored audio should be; None leaves a property as the source has it. `sampling_rate` in Hz."""

    format: str | None = None
    sampling_rate: int | None = None

    def is_met_by(self, info: AudioInfo) -> bool:
        """Whether a whole file with these properties can be stored byte for byte."""
        return (
            info.format != NOT_PASSABLE
            and self.format in (None, info.format)
            and self.sampling_rate in (None, info.sampling_rate)
        )


@dataclass(frozen=True, slots=True)
class EncodedAudio:
    """Encoded audio: `format` is also the right extension; `sampling_rate` in Hz."""

    data: bytes
    format: str
    sampling_rate: int


def read_file(path: str) -> bytes:
    """The bytes of a regular file.

    Raises:
        RecordRejected: MISSING_AUDIO where there is none, UNREADABLE_AUDIO for folders, pipes, devices, read errors.
    """
    with open_source(path, path) as source:
        return source.read(0, source.size)


def copy(data: bytes, info: AudioInfo, *, decode: bool = False, name: str) -> EncodedAudio:
    """A file as it is, once it has been looked through; `decode`: to the last sample.

    Raises:
        RecordRejected: UNREADABLE_AUDIO where it is damaged, as far as `check_copy` or `check_decoded` see.
    """
    check = check_decoded if decode else check_copy
    check(data, info, name)
    return EncodedAudio(data, info.format, info.sampling_rate)


def convert(
    source: bytes | str,
    info: AudioInfo,
    wanted: TargetFormat,
    start: int = 0,
    num_samples: int | None = None,
    *,
    name: str = "",
) -> EncodedAudio:
    """Encode the segment of `num_samples` from sample `start` (at the source's rate; None = to the end).

    All channels are kept. Lossless sources keep their samples in a lossless format (24 bits at most in FLAC).

    Raises:
        RecordRejected: UNREADABLE_AUDIO if the source cannot be decoded, or the format holds no so many channels or
            samples; MISSING_AUDIO where the file is gone.
    """
    format_ = wanted.format or info.format
    if format_ not in ("wav", "flac", "mp3", "ogg", "opus"):
        format_ = FALLBACK_FORMAT
    rate = encodable_rate(format_, wanted.sampling_rate or info.sampling_rate)
    samples = read_segment(source, info, start, num_samples, name=name)
    if rate != info.sampling_rate:
        samples = resample(samples, info.sampling_rate, rate)
    return EncodedAudio(encode(samples, rate, format_, lossless_subtype(info, format_)), format_, rate)
