"""Segments of audio files and of tars. Worker processes find them, without decoding, and later decode them."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from prepcli.audio.info import AudioInfo
from prepcli.audio.opening import read_whole
from prepcli.audio.probe import probe
from prepcli.audio.segments import CODES, Segment, decode_mono, locate
from prepcli.audio.source import refuse
from prepcli.commands.extend_codec_codes.uses import Use
from prepcli.errors import InputChangedError, RecordRejected, same_command
from prepcli.formats.audio_states import AudioState, audio_state, file_digest
from prepcli.jobs.prefetch import Samples
from prepcli.processes.in_hand import take_in_hand
from prepcli.storage.addresses import ByteRange, is_address
from prepcli.storage.ahead import beginning_of, files_ahead
from prepcli.storage.containers import place_of
from prepcli.storage.input_files import state_of_info


class UsedSegment(NamedTuple):
    """A segment that cuts or records use. Segments with the same `digest` and length are the same audio.

    Attributes:
        segment: a segment of a file, or a member of a tar.
        digest: for a member of a tar, the digest of its bytes; for a segment that a record names, `Use.key`.
        state: state of the file when it was found; None for a member, because the index has the state of its tar.
    """

    segment: Segment
    digest: bytes
    state: AudioState | None = None

    @property
    def num_samples(self) -> int:
        """The number of samples of the segment, at its own `sampling_rate`."""
        return self.segment.num_samples

    @property
    def sampling_rate(self) -> int:
        """The sampling rate of the segment's source, in Hz."""
        return self.segment.info.sampling_rate


def find_segments(uses: Sequence[Use]) -> list[UsedSegment | RecordRejected]:
    """The segments that records use, in the order of `uses`; instead of an unusable segment, the reason.

    No audio is decoded. The header of each file is read and, unless it is in an object store, its content for a digest.
    """
    files: dict[str, _File | RecordRejected] = {}
    return [_find(use, files) for use in files_ahead(uses, lambda use: _address_of(use.path))]


_File = tuple[AudioInfo, AudioState]


def _find(use: Use, files: dict[str, _File | RecordRejected]) -> UsedSegment | RecordRejected:
    try:
        if use.path not in files:
            try:
                files[use.path] = _look_at(use.path)
            except RecordRejected as rejected:
                files[use.path] = rejected
        file = files[use.path]
        if isinstance(file, RecordRejected):
            return file
        info, state = file
        segment = locate(use.path, info, use.offset, use.duration, use.channel, CODES)
    except RecordRejected as rejected:
        return rejected
    return UsedSegment(segment, use.key.to_bytes(8, "little"), state)


def _address_of(path: str) -> str:
    """`path` if it is the address of a file in an object store; empty for local files and members of containers."""
    return path if is_address(path) and place_of(path) is None else ""


def _look_at(path: str) -> _File:
    """The properties and the state of an audio file; raises `RecordRejected` if it cannot be used."""
    info = probe(path)  # rejects pipes
    try:
        state = state_of_info(beginning_of(path)[1]) if _address_of(path) else audio_state(path)
        return info, AudioState.of(state, file_digest(path, state))
    except OSError as error:
        refuse(error, path)


class UsedSegmentDecoder:
    """Decodes segments to mono float32 samples for a codec, in a worker process."""

    def __init__(self, sampling_rate: int | None) -> None:
        """`sampling_rate`: the rate (Hz) to resample to; None keeps the rate of each source."""
        self._rate = sampling_rate

    def ahead(self, items: Sequence[UsedSegment]) -> Iterator[UsedSegment]:
        """Yield the segments in order; audio in an object store is requested ahead, several sources at once."""
        return files_ahead(items, lambda use: _place(use.segment))

    def decode(self, item: UsedSegment) -> Samples:
        """The mono samples of a segment, of shape (num_samples,).

        Raises:
            RecordRejected: UNREADABLE_AUDIO or MISSING_AUDIO.
            InputChangedError: a tar in an object store was replaced since it was indexed.
        """
        segment, source = item.segment, item.segment.source
        if isinstance(source, ByteRange) and is_address(source.path):
            take_in_hand(segment.name)
            data = read_whole(source, segment.name)
            if hashlib.blake2b(data, digest_size=16).digest() != item.digest:
                raise InputChangedError(
                    f"{source.path} was changed during the run, which has stopped; let nothing write to it and run "
                    f"{same_command()} again"
                )
            segment = segment._replace(source=data)
        mono, rate = decode_mono(segment), segment.info.sampling_rate
        return mono if self._rate is None or self._rate == rate else _resampled(mono, rate, self._rate)


def _resampled(mono: Samples, rate: int, new_rate: int) -> Samples:
    """Resample in a worker process, with torchaudio's sinc kernel."""
    import torch

    from prepcli.models.sinc import resample_sinc

    torch.set_num_threads(1)  # there is already a worker per CPU, and threads do not survive the fork
    with torch.inference_mode():
        out: Samples = resample_sinc(torch.from_numpy(np.ascontiguousarray(mono)), rate, new_rate).numpy()
    return out


def _place(segment: Segment) -> str | ByteRange:
    assert isinstance(segment.source, (str, ByteRange))
    return segment.source
