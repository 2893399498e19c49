"""Segments of audio files: found by their headers and decoded in worker processes."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from prepcli.audio.encode import to_float32
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe_file
from prepcli.audio.read import read_segment, segment_samples, select_channel
from prepcli.codes.resampling import SincResampler
from prepcli.codes.uses import Use
from prepcli.errors import RecordRejected, RejectReason
from prepcli.models.prefetch import Samples
from prepcli.processes.in_hand import take_in_hand
from prepcli.storage.ahead import files_ahead

_INFO_CACHE_SIZE = 1024


class FileSegment(NamedTuple):
    """A segment of a file: `start` and `num_samples` at its own `sampling_rate` (Hz), one of its channels.

    Segments with one `digest` are the same audio.
    """

    path: str
    start: int
    num_samples: int
    channel: int
    sampling_rate: int
    digest: bytes

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.num_samples / self.sampling_rate

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"second {self.start / self.sampling_rate:g} of {self.path}"


def find_segments(uses: Sequence[Use]) -> list[FileSegment | RecordRejected]:
    """The segments that records use; only headers of files are read."""
    infos: dict[str, AudioInfo | RecordRejected] = {}
    return [_find(use, infos) for use in files_ahead(uses, lambda use: use.path)]


def _find(use: Use, infos: dict[str, AudioInfo | RecordRejected]) -> FileSegment | RecordRejected:
    try:
        if use.path not in infos:
            take_in_hand(use.path, use.offset, use.duration)
            try:
                infos[use.path] = probe_file(use.path)
            except RecordRejected as rejected:
                infos[use.path] = rejected
        info = infos[use.path]
        if isinstance(info, RecordRejected):
            return info
        start, num_samples = segment_samples(info, use.offset, use.duration)
        channel = _channel(use, info)
    except RecordRejected as rejected:
        return rejected
    return FileSegment(use.path, start, num_samples, channel, info.sampling_rate, use.key.to_bytes(8, "little"))


def _channel(use: Use, info: AudioInfo) -> int:
    if info.num_channels == 1 or use.channel is None:
        return 0
    if type(use.channel) is not int or not 0 <= use.channel < info.num_channels:
        raise RecordRejected(
            RejectReason.BAD_FIELD,
            f"channel is {use.channel!r}; {use.path} has {info.num_channels} channels, counted from 0",
        )
    return use.channel


class FileDecoder:
    """Decodes segments to mono float32 samples for a codec, in a worker process."""

    def __init__(self, sampling_rate: int | None) -> None:
        """`sampling_rate` in Hz to resample to, or None for each file's own."""
        self._resample = SincResampler(sampling_rate)
        self._infos: dict[str, AudioInfo] = {}

    def ahead(self, segments: Sequence[FileSegment]) -> Iterator[FileSegment]:
        """The segments in order; of files in an object store, several are requested at once."""
        return files_ahead(segments, lambda segment: segment.path)

    def decode(self, segment: FileSegment) -> Samples:
        """The samples (n,) of a segment.

        Raises:
            RecordRejected: UNREADABLE_AUDIO or MISSING_AUDIO.
        """
        take_in_hand(segment.path, segment.start, segment.num_samples)
        info = self._info(segment.path)
        samples = read_segment(segment.path, info, segment.start, segment.num_samples)
        mono = to_float32(select_channel(samples, segment.channel)[:, 0])
        return self._resample(mono, segment.sampling_rate)

    def _info(self, path: str) -> AudioInfo:
        info = self._infos.get(path)
        if info is None:
            if len(self._infos) >= _INFO_CACHE_SIZE:
                self._infos.clear()
            info = self._infos[path] = probe_file(path)
        return info
