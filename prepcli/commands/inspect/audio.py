"""Facts about a sample of audio files, from their headers; audio is decoded only if the header is not enough."""

from collections.abc import Sequence

import msgspec

from prepcli.audio.info import AudioInfo
from prepcli.audio.limits import SAME_SECONDS
from prepcli.audio.probe import probe
from prepcli.engine.run.crashes import map_refusing_crashes
from prepcli.errors import RecordRejected, RejectReason

NamedFile = tuple[str, float, float]
"""An audio file that a record names, and the offset and the duration of the record in it (seconds)."""


class AudioFacts(msgspec.Struct):
    """Facts about the opened audio: counts of files by their properties."""

    where: str = "files"
    looked_at: int = 0
    sampling_rates: dict[int, int] = {}
    formats: dict[str, int] = {}
    """Counts by container and sample encoding, with libsndfile's names: `flac PCM_16`."""
    channels: dict[int, int] = {}
    seconds: tuple[float, float] | None = None
    """The shortest and the longest duration in seconds."""
    missing: int = 0
    unreadable: int = 0
    beyond_audio: int = 0
    """Number of records that end after the end of their file."""
    examples: list[str] = []
    """At most three messages: for each of `missing`, `unreadable` and `beyond_audio`, on the first file with it."""

    def add(self, info: AudioInfo) -> None:
        """Count one readable file."""
        self.looked_at += 1
        shortest, longest = self.seconds or (info.duration, info.duration)
        self.seconds = (min(shortest, info.duration), max(longest, info.duration))
        codec = f"{info.format} {info.subtype}"
        self.sampling_rates[info.sampling_rate] = self.sampling_rates.get(info.sampling_rate, 0) + 1
        self.formats[codec] = self.formats.get(codec, 0) + 1
        self.channels[info.num_channels] = self.channels.get(info.num_channels, 0) + 1

    def add_fault(self, kind: str, detail: str) -> None:
        """Count a fault (`missing`, `unreadable`, `beyond_audio`), and keep the first of its kind as an example."""
        if not getattr(self, kind):
            self.examples.append(detail)
        setattr(self, kind, getattr(self, kind) + 1)

    def add_bytes(self, data: bytes, name: str) -> None:
        """Count an encoded file that is in memory; `name` stands for it in messages."""
        try:
            self.add(probe(data, name))
        except RecordRejected as rejected:
            self.looked_at += 1
            self.add_fault("unreadable", rejected.detail)


def look_at_files(sample: Sequence[NamedFile]) -> AudioFacts:
    """Open the files of a sample of records; a file that several records name is opened and counted once.

    A file that crashes the decoder counts as unreadable.
    """
    (facts,) = map_refusing_crashes(_look_at_files, [sample])
    return facts


def _look_at_files(sample: Sequence[NamedFile]) -> AudioFacts:
    facts = AudioFacts()
    infos: dict[str, AudioInfo | None] = {}
    for path, offset, duration in sample:
        if path not in infos:
            infos[path] = _look_at(path, facts)
        info = infos[path]
        if info is not None and offset + duration > info.duration + SAME_SECONDS:
            ends = f"{path} lasts {info.duration:.3f} s, but a record ends at {offset + duration:.3f} s"
            facts.add_fault("beyond_audio", ends)
    return facts


def _look_at(path: str, facts: AudioFacts) -> AudioInfo | None:
    try:
        info = probe(path)
    except RecordRejected as rejected:
        facts.looked_at += 1
        facts.add_fault("missing" if rejected.reason is RejectReason.MISSING_AUDIO else "unreadable", rejected.detail)
        return None
    facts.add(info)
    return info
