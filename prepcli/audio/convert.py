"""A recording or a segment of it, encoded in the target format; copied without decoding where nothing changes."""

from dataclasses import dataclass

from prepcli.audio.check import check_copy, check_decoded
from prepcli.audio.encode import encodable_rate, encode, lossless_subtype
from prepcli.audio.info import AudioInfo
from prepcli.audio.opening import read_whole
from prepcli.audio.read import read_segment, select_channel
from prepcli.audio.resample import resample

FALLBACK_FORMAT = "flac"
"""The format of recordings that must be encoded again and whose own format cannot be written: lossless and small."""


@dataclass(frozen=True, slots=True)
class TargetFormat:
    """The properties that encoded audio should have.

    Attributes:
        format: "wav", "flac", "mp3", "ogg" or "opus"; None keeps the format of the source.
        sampling_rate: in Hz; None keeps the rate of the source.
    """

    format: str | None = None
    sampling_rate: int | None = None

    def is_met_by(self, info: AudioInfo) -> bool:
        """Return whether a whole file with these properties can be copied byte for byte."""
        return (
            info.is_passable and self.format in (None, info.format) and self.sampling_rate in (None, info.sampling_rate)
        )


@dataclass(frozen=True, slots=True)
class EncodedAudio:
    """An encoded file in memory.

    Attributes:
        data: the bytes of the file.
        format: the format, which is also the file extension.
        sampling_rate: in Hz.
    """

    data: bytes
    format: str
    sampling_rate: int


def read_file(path: str) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        RecordRejected: MISSING_AUDIO where the file does not exist, UNREADABLE_AUDIO for folders, pipes, devices and
            read errors.
    """
    return read_whole(path, path)


def copy(data: bytes, info: AudioInfo, *, decode: bool = False, name: str) -> EncodedAudio:
    """Check a file and return it unchanged.

    Args:
        data: the encoded file.
        info: the result of `probe_bytes` for it.
        decode: check with `check_decoded` instead of `check_copy`.
        name: for messages.

    Raises:
        RecordRejected: UNREADABLE_AUDIO where the check finds damage.
    """
    check = check_decoded if decode else check_copy
    check(data, info, name)
    return EncodedAudio(data, info.format, info.sampling_rate)


def convert(
    source: bytes | str,
    info: AudioInfo,
    target: TargetFormat,
    start: int = 0,
    num_samples: int | None = None,
    *,
    channel: int | None = None,
    name: str = "",
) -> EncodedAudio:
    """Encode a segment of a file.

    Lossless sources keep their samples in a lossless format (FLAC: up to 24 bits).

    Args:
        source: the encoded file or its path.
        info: the result of `probe_*` for it.
        target: format and sampling rate of the result.
        start: first sample of the segment, at the rate of the source.
        num_samples: length of the segment, at the rate of the source; None: to the end.
        channel: from 0; None: all channels.
        name: for messages.

    Raises:
        RecordRejected: UNREADABLE_AUDIO if the source cannot be decoded, or has more channels or samples than the
            format allows; MISSING_AUDIO where the file does not exist any more.
    """
    format_ = target.format or info.format
    if format_ not in ("wav", "flac", "mp3", "ogg", "opus"):
        format_ = FALLBACK_FORMAT
    rate = encodable_rate(format_, target.sampling_rate or info.sampling_rate)
    samples = select_channel(read_segment(source, info, start, num_samples, name=name), channel)
    if rate != info.sampling_rate:
        samples = resample(samples, info.sampling_rate, rate)
    return EncodedAudio(encode(samples, rate, format_, lossless_subtype(info, format_)), format_, rate)
