"""The audio of a record as it is exported: the file as it is where that will do, otherwise encoded again."""

from dataclasses import dataclass, replace

from prepcli.audio.convert import FALLBACK_FORMAT, EncodedAudio, TargetFormat, convert, copy, read_file
from prepcli.audio.info import AudioInfo
from prepcli.audio.limits import SAME_SECONDS
from prepcli.audio.probe import probe_bytes, probe_file
from prepcli.audio.read import segment_samples
from prepcli.errors import RecordRejected, RejectReason
from prepcli.manifest.record import Record
from prepcli.processes.in_hand import take_in_hand


@dataclass(frozen=True, slots=True)
class FilePart:
    """The part of a file that a record stands for.

    Attributes:
        info: the file.
        start: first sample.
        num_samples: number of samples.
        channel: the channel, where the file has several and the record names one; otherwise None.
    """

    info: AudioInfo
    start: int
    num_samples: int
    channel: int | None

    @property
    def has_several_channels(self) -> bool:
        """Whether several channels are exported."""
        return self.channel is None and self.info.num_channels > 1

    @property
    def is_whole(self) -> bool:
        """Whether the record stands for the whole file."""
        return self.channel is None and (self.start, self.num_samples) == (0, self.info.num_samples)

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.num_samples / self.info.sampling_rate


def piece_of(record: Record, info: AudioInfo) -> FilePart:
    """The part of the file that the record stands for.

    A record that begins with its file and ends within 20 ms of its end stands for all of it: its duration is rounded.

    Raises:
        RecordRejected: BEYOND_AUDIO for a segment that ends after the file, BAD_FIELD for a channel that is not there.
    """
    start, num_samples = segment_samples(info, record.offset, record.duration)
    if not start and record.duration > info.duration - SAME_SECONDS:
        num_samples = info.num_samples
    return FilePart(info, start, num_samples, _channel(record, info))


def _channel(record: Record, info: AudioInfo) -> int | None:
    channel = record.get("channel") if info.num_channels > 1 else None
    if channel is not None and (type(channel) is not int or not 0 <= channel < info.num_channels):
        raise RecordRejected(
            RejectReason.BAD_FIELD,
            f"channel is {channel!r}; {record.audio_filepath} has {info.num_channels} channels, counted from 0",
        )
    return channel


def load_audio(
    path: str, record: Record, target: TargetFormat, *, check: bool = False
) -> tuple[FilePart, EncodedAudio]:
    """Read, check and, where that is needed, cut and encode the audio of a record.

    Args:
        path: the audio file of the record.
        record: the record.
        target: format and sampling rate; the file is copied where it is whole and has them. Without a format, what must
            be encoded again becomes WAV if it was, otherwise FLAC: nothing goes through a lossy codec twice.
        check: decode what is copied as well.

    Raises:
        RecordRejected: the audio is missing, damaged, or shorter than the record says.
    """
    take_in_hand(path, record.offset, record.duration)
    if record.offset:
        source: bytes | str = path  # only the bytes of the segment are read, where the format allows it
        piece = piece_of(record, probe_file(path))
    else:
        source = read_file(path)
        piece = piece_of(record, probe_bytes(source, path))
    if piece.is_whole and target.is_met_by(piece.info):
        data = source if isinstance(source, bytes) else read_file(path)
        return piece, copy(data, piece.info, decode=check, name=path)
    if target.format is None:
        target = replace(target, format="wav" if piece.info.format == "wav" else FALLBACK_FORMAT)
    span = (piece.start, piece.num_samples)
    return piece, convert(source, piece.info, target, *span, channel=piece.channel, name=path)
