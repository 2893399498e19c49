"""Segments of audio files: found by their headers and decoded in worker processes."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from prepcli.audio.encode import to_float32
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe_file
from prepcli.audio.read import read_segment, segment_samples, select_channel
from prepcli.audio.source import refuse
from prepcli.commands.extend_codec_codes.resampling import SincResampler
from prepcli.commands.extend_codec_codes.uses import Use
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.audio_states import AudioState, file_digest
from prepcli.jobs.prefetch import Samples
from prepcli.processes.in_hand import take_in_hand
from prepcli.storage.addresses import is_address
from prepcli.storage.ahead import beginning_of, files_ahead
from prepcli.storage.input_files import state_of, state_of_info

_INFO_CACHE_SIZE = 1024


class FileSegment(NamedTuple):
    """A segment of a file: `start` and `num_samples` at its own `sampling_rate` (Hz), one of its channels.

    Segments with one `digest` are the same audio. `state` is that of the file when it was found.
    """

    path: str
    start: int
    num_samples: int
    channel: int
    sampling_rate: int
    digest: bytes
    state: AudioState

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.num_samples / self.sampling_rate

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"second {self.start / self.sampling_rate:g} of {self.path}"


def find_segments(uses: Sequence[Use]) -> list[FileSegment | RecordRejected]:
    """The segments that records use: by the headers of files, whose bytes are read for their digests alone."""
    files: dict[str, _File | RecordRejected] = {}
    return [_find(use, files) for use in files_ahead(uses, lambda use: use.path)]


_File = tuple[AudioInfo, AudioState]


def _find(use: Use, files: dict[str, _File | RecordRejected]) -> FileSegment | RecordRejected:
    try:
        if use.path not in files:
            take_in_hand(use.path, use.offset, use.duration)
            try:
                files[use.path] = _look_at(use.path)
            except RecordRejected as rejected:
                files[use.path] = rejected
        found = files[use.path]
        if isinstance(found, RecordRejected):
            return found
        info, state = found
        start, num_samples = segment_samples(info, use.offset, use.duration)
        channel = _channel(use, info)
    except RecordRejected as rejected:
        return rejected
    key = use.key.to_bytes(8, "little")
    return FileSegment(use.path, start, num_samples, channel, info.sampling_rate, key, state)


def _look_at(path: str) -> _File:
    """What an audio file is; raises `RecordRejected` if it cannot be used."""
    info = probe_file(path)  # which rejects pipes
    try:
        found = state_of_info(beginning_of(path)[1]) if is_address(path) else state_of(path)
        return info, AudioState.of(found, file_digest(path, found))
    except OSError as error:
        refuse(error, path)


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
