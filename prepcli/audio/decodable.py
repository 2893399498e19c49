"""The samples that libsndfile, with which trainers read audio, decodes of a file."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING

from prepcli.audio import mpeg
from prepcli.audio.info import NOT_PASSABLE, AudioInfo
from prepcli.audio.quiet import no_notes
from prepcli.audio.source import ByteSource, Source

if TYPE_CHECKING:
    import soundfile

_BLOCK = 4096
MPEG_EDGES = 2 * 1152
"""Samples that an MPEG decoder may drop: part of a frame at either end."""


@contextmanager
def opened(source: Source, *, quiet: bool = False) -> "Iterator[soundfile.SoundFile]":
    """Open a source with libsndfile for a `with` block; `quiet` discards the messages of its MPEG decoder."""
    import soundfile

    with no_notes() if quiet else nullcontext(), soundfile.SoundFile(source.for_libsndfile(), closefd=False) as sound:
        yield sound


def count_decodable(source: Source) -> int:
    """Return how many samples per channel libsndfile decodes, from the start, before it stops or fails."""
    import soundfile

    count = 0
    try:
        with no_notes(), sequential()(source.for_libsndfile(), closefd=False) as sound:
            while got := len(sound.read(min(_BLOCK, sound.frames - count), dtype="int16")):
                count += got
    except soundfile.SoundFileError:
        pass
    return count


@cache
def sequential() -> "type[soundfile.SoundFile]":
    """Return the class of files that are read in order.

    soundfile seeks after each read, which moves back or fails in odd files, and makes lossy decoders lose their state.
    """
    import soundfile

    class Sequential(soundfile.SoundFile):  # type: ignore[misc]
        """A file that is read in order."""

        def seekable(self) -> bool:
            """Return False."""
            return False

    return Sequential


def stated_mpeg(source: Source) -> AudioInfo | None:
    """Return what libsndfile states about MPEG audio, without decoding it; None if it cannot open it as such."""
    import soundfile

    try:
        with opened(source, quiet=True) as sound:
            if sound.format != "MP3":
                return None
            return AudioInfo("mp3", sound.subtype, sound.samplerate, sound.frames, sound.channels, None)
    except soundfile.SoundFileError:
        return None


def readable_mpeg(source: Source, scan: mpeg.Scan) -> tuple[Source, AudioInfo | None]:
    """Return MPEG audio as libsndfile reads all of it, the source itself or a copy, and the properties of that.

    libsndfile takes the length from the header or estimates it, and does not read further. So a copy with a right
    header is needed if the length is too short. The properties are None if not all frames can be decoded.
    """
    samples = scan.frames * scan.samples_per_frame
    if scan.promised in (None, scan.frames) and (stated := stated_mpeg(source)) is not None:
        if scan.promised is not None:
            samples = stated.num_samples  # less than in the frames: the encoder states its delay
        if scan.irregular:
            decoded = count_decodable(source)
            if decoded >= samples - MPEG_EDGES:
                return source, stated._replace(num_samples=decoded)
        elif 0 < samples <= stated.num_samples and (stated.num_samples <= 2 * samples or not scan.has_header):
            return source, stated._replace(num_samples=samples)
    copy = ByteSource(mpeg.plain_copy(source.everything(), scan))
    stated = stated_mpeg(copy)
    decoded = 0 if stated is None else count_decodable(copy)
    if stated is None or decoded < samples - MPEG_EDGES:
        return copy, None
    return copy, stated._replace(format=NOT_PASSABLE, num_samples=decoded)
