"""Encodes the segments of a shard: each is made once, and kept in bounded memory while the shard still needs it."""

import os
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from prepcli.audio.encode import LOSSLESS
from prepcli.audio.probe import Probes, probe_bytes
from prepcli.audio.segments import EncodedAudio, Segment, encoded, locate
from prepcli.commands.exports.records import Conversion
from prepcli.errors import RecordRejected, naming

CACHE_BYTES = 256 << 20
"""Maximum bytes of encoded audio in the memory of a worker; audio beyond it goes to a temporary file."""


class _Spilled(NamedTuple):
    """Audio whose bytes are in the temporary file, starting at `position`."""

    position: int
    num_bytes: int
    audio: EncodedAudio


class SegmentStore:
    """Makes the encoded segments of one shard.

    Announce every use with `expect`; then `take` returns the audio once per announced use. Audio is kept until its last
    use.

    Examples:
        with SegmentStore(Conversion(TargetFormat("flac"), SHAR), directory) as store:
            segment = store.locate("/data/a.wav", 1.5, 2.0, None)
            store.expect(segment)
            audio = store.take(segment)
    """

    def __init__(
        self,
        conversion: Conversion,
        directory: Path | None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """`directory`: the folder of the temporary file, if one is needed (None: the system's folder)."""
        self._conversion = conversion
        self._directory = directory or Path(tempfile.gettempdir())
        self._free_bytes = cache_bytes
        self._probe = Probes()
        self._uses: Counter[Segment] = Counter()
        self._kept: dict[Segment, EncodedAudio | _Spilled | RecordRejected] = {}
        self._file: IO[bytes] | None = None

    def locate(self, path: str, offset: float, duration: float, channel: Any) -> Segment:
        """Return the segment of the file `path` that begins at `offset` and lasts `duration`, both in seconds.

        `channel`: the value of the record's field `channel`, unchecked.

        Raises:
            RecordRejected: MISSING_AUDIO, UNREADABLE_AUDIO, BEYOND_AUDIO, ..., BAD_FIELD if the channel does not exist.
        """
        return locate(path, self._probe(path), offset, duration, channel, self._conversion.policy)

    def expect(self, segment: Segment) -> None:
        """Announce one use of a segment."""
        self._uses[segment] += 1

    def take(self, segment: Segment) -> EncodedAudio:
        """Return an encoded segment; this is one of the uses that `expect` has announced.

        The segment is encoded at its first use.

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
        elif last and isinstance(kept, EncodedAudio):
            self._free_bytes += len(kept.data)
        if isinstance(kept, RecordRejected):
            raise RecordRejected(kept.reason, kept.detail)
        return self._unspilled(kept) if isinstance(kept, _Spilled) else kept

    def __enter__(self) -> "SegmentStore":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def _make(self, segment: Segment) -> EncodedAudio | RecordRejected:
        try:
            made = encoded(segment, *self._conversion[:2], check=self._conversion.check)
            if not made.is_copy and made.format not in LOSSLESS:  # lossy codecs may add or drop samples
                made = replace(made, num_samples=probe_bytes(made.data, segment.name).num_samples)
        except RecordRejected as rejected:
            return rejected
        return made

    def _keep(self, segment: Segment, made: EncodedAudio | RecordRejected) -> None:
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

    def _unspilled(self, spilled: _Spilled) -> EncodedAudio:
        assert self._file is not None
        with naming(self._directory):
            self._file.seek(spilled.position)
            return replace(spilled.audio, data=self._file.read(spilled.num_bytes))
