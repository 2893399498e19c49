"""Encoded segments of a shard: each is made once, kept while the shard still needs it, in bounded memory."""

import os
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from prepcli.audio.convert import EncodedAudio, TargetFormat, convert, copy, read_file
from prepcli.audio.encode import encode, lossless_subtype
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe_bytes, probe_file
from prepcli.audio.read import read_segment, segment_samples, select_channel
from prepcli.errors import RecordRejected, RejectReason, naming
from prepcli.processes.in_hand import take_in_hand

CACHE_BYTES = 256 << 20
"""Maximum bytes of encoded audio in the memory of a worker; more of it goes to a temporary file."""
_LOSSLESS = ("flac", "wav")


class Segment(NamedTuple):
    """Samples of one channel of a file: the identity of stored audio. `channel` is None for a mono file."""

    path: str
    start: int
    num_samples: int
    channel: int | None


@dataclass(frozen=True, slots=True)
class Audio:
    """A stored segment: an encoded mono file and its properties."""

    data: bytes
    format: str
    sampling_rate: int
    num_samples: int


class _Spilled(NamedTuple):
    """Audio whose bytes are in the temporary file, starting at `position`."""

    position: int
    num_bytes: int
    audio: Audio


class SegmentStore:
    """Makes the encoded segments of one shard.

    First every use is announced with `expect`, then `take` gives the audio, as often as it was announced. What is
    used again is kept till its last use. `num_encoded` counts the segments that were not copied as they are.

    Example:
        with SegmentStore(TargetFormat("flac"), directory) as store:
            segment = store.locate("/data/a.wav", 1.5, 2.0, None)
            store.expect(segment)
            audio = store.take(segment)
    """

    def __init__(
        self, wanted: TargetFormat, directory: Path | None, cache_bytes: int = CACHE_BYTES, *, check_audio: bool = False
    ) -> None:
        """`directory` is where the temporary file goes, if one is needed (None: where the system keeps its own).

        `check_audio`: what is copied is decoded as well.
        """
        self._wanted = wanted
        self._check_audio = check_audio
        self._directory = directory or Path(tempfile.gettempdir())
        self._free_bytes = cache_bytes
        self._infos: dict[str, AudioInfo | RecordRejected] = {}
        self._uses: Counter[Segment] = Counter()
        self._kept: dict[Segment, Audio | _Spilled | RecordRejected] = {}
        self._file: IO[bytes] | None = None
        self.num_encoded = 0

    def locate(self, path: str, offset: float, duration: float, channel: Any) -> Segment:
        """The segment of `duration` seconds from `offset`; `channel` is used for multi-channel files (None: 0).

        Raises:
            RecordRejected: MISSING_AUDIO, UNREADABLE_AUDIO, BEYOND_AUDIO, ..., BAD_FIELD where there is no such
                channel.
        """
        info = self._info(path)
        start, num_samples = segment_samples(info, offset, duration)
        if info.num_channels == 1:
            return Segment(path, start, num_samples, None)
        chosen = 0 if channel is None else channel
        if type(chosen) is not int or not 0 <= chosen < info.num_channels:
            raise RecordRejected(
                RejectReason.BAD_FIELD,
                f"channel is {channel!r}; {path} has {info.num_channels} channels, counted from 0",
            )
        return Segment(path, start, num_samples, chosen)

    def expect(self, segment: Segment) -> None:
        """Register one use."""
        self._uses[segment] += 1

    def take(self, segment: Segment) -> Audio:
        """The encoded segment.

        Raises:
            RecordRejected: UNREADABLE_AUDIO or MISSING_AUDIO, the same for every use.
        """
        self._uses[segment] -= 1
        last = self._uses[segment] <= 0
        kept = self._kept.pop(segment, None) if last else self._kept.get(segment)
        if kept is None:
            kept = self._make(segment)
            if not last:
                self._keep(segment, kept)
        elif last and isinstance(kept, Audio):
            self._free_bytes += len(kept.data)
        if isinstance(kept, RecordRejected):
            raise RecordRejected(kept.reason, kept.detail)
        return self._unspilled(kept) if isinstance(kept, _Spilled) else kept

    def __enter__(self) -> "SegmentStore":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def _info(self, path: str) -> AudioInfo:
        info = self._infos.get(path)
        if info is None:
            try:
                take_in_hand(path)
                info = probe_file(path)
            except RecordRejected as rejected:
                info = rejected
            self._infos[path] = info
        if isinstance(info, RecordRejected):
            raise RecordRejected(info.reason, info.detail)
        return info

    def _make(self, segment: Segment) -> Audio | RecordRejected:
        try:
            info = self._info(segment.path)
            take_in_hand(*segment)
            return self._encoded(segment, info)
        except RecordRejected as rejected:
            return rejected

    def _encoded(self, segment: Segment, info: AudioInfo) -> Audio:
        path, start, num_samples, channel = segment
        whole = (start, num_samples) == (0, info.num_samples)
        if whole and channel is None and self._wanted.is_met_by(info):
            stored = copy(read_file(path), info, decode=self._check_audio, name=path)
            return Audio(stored.data, info.format, info.sampling_rate, num_samples)
        self.num_encoded += 1
        if channel is None:
            stored = convert(path, info, self._wanted, start, num_samples, name=path)
        else:
            stored = self._one_channel(segment, info)
        if stored.format in _LOSSLESS:
            # The number of samples that `resample` returns.
            length = -(-num_samples * stored.sampling_rate // info.sampling_rate)
        else:
            length = probe_bytes(stored.data, path).num_samples  # codecs of blocks may give more, or fewer
        return Audio(stored.data, stored.format, stored.sampling_rate, length)

    def _one_channel(self, segment: Segment, info: AudioInfo) -> EncodedAudio:
        path, start, num_samples, channel = segment
        samples = select_channel(read_segment(path, info, start, num_samples), channel)
        mono = encode(samples, info.sampling_rate, "wav", lossless_subtype(info, "wav"))
        wanted = replace(self._wanted, format=self._wanted.format or info.format)
        return convert(mono, probe_bytes(mono, path), wanted, name=path)

    def _keep(self, segment: Segment, made: Audio | RecordRejected) -> None:
        if isinstance(made, RecordRejected):
            self._kept[segment] = made
        elif len(made.data) <= self._free_bytes:
            self._free_bytes -= len(made.data)
            self._kept[segment] = made
        else:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - closed in __exit__
            with naming(self._directory):
                position = self._file.seek(0, os.SEEK_END)
                self._file.write(made.data)
            self._kept[segment] = _Spilled(position, len(made.data), replace(made, data=b""))

    def _unspilled(self, spilled: _Spilled) -> Audio:
        assert self._file is not None
        with naming(self._directory):
            self._file.seek(spilled.position)
            return replace(spilled.audio, data=self._file.read(spilled.num_bytes))
