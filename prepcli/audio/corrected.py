"""Copies of odd files that libsndfile reads whole: with the right length in the header, and without other data."""

import io

from prepcli.audio import containers, flac, flac_frames, mpeg, ogg_pages, riff
from prepcli.audio.decodable import opened, readable_mpeg
from prepcli.audio.info import AudioInfo
from prepcli.audio.source import ByteSource, FileSource, Source, identity

_MAX_KEPT = 1 << 28


class _Last:
    """The last copy, which is kept because many segments of a file may follow one another."""

    copy: tuple[object, ByteSource] | None = None


def corrected_copy(source: Source, info: AudioInfo) -> ByteSource | None:
    """Return a copy of a file whose properties `info` are not passable.

    Returns:
        None if sox must read the file.
    """
    key = (identity(source), info) if isinstance(source, FileSource) and source.size <= _MAX_KEPT else None
    if key is not None and _Last.copy is not None and _Last.copy[0] == key:
        return _Last.copy[1]
    copy = _corrected(source, info)
    _Last.copy = (key, copy) if key is not None and copy is not None else None
    return copy


def _corrected(source: Source, info: AudioInfo) -> ByteSource | None:
    head = source.read(0, 16)
    is_tagged = head[:3] == b"ID3"
    if is_tagged and not info.subtype.startswith("MPEG"):
        data = source.everything()
        source = ByteSource(data[mpeg.skip_id3v2(data) :])
        head = source.read(0, 16)
    if head[:4] == b"fLaC":
        return flac_copy(source.everything(), info.num_samples)
    if head[:4] in riff.MAGICS:
        if not info.subtype.startswith("MPEG"):
            return ByteSource(riff.plain_copy(source))
        source = mpeg_in_wav(source)
    if info.subtype.startswith("MPEG"):
        scan = mpeg.scan(source.everything())
        return None if scan is None else ByteSource(readable_mpeg(source, scan)[0].everything())
    if head[:4] == b"OggS":
        pages = ogg_pages.scan(source)
        return None if pages is None else joined_ogg(source, pages.streams)
    if head[:4] == b".snd":
        return ByteSource(containers.with_open_end(source.everything()))
    return source if is_tagged and isinstance(source, ByteSource) else None


def flac_copy(data: bytes, num_samples: int) -> ByteSource:
    """Return a copy of a FLAC file with a number of samples that the encoder could not write, or that is wrong."""
    info = flac.stream_info(data)
    if info is not None and flac.is_one_stream(ByteSource(data), data, info, num_samples) and not info.num_samples:
        return ByteSource(flac.with_length(data, num_samples))
    frames = flac_frames.scan(data)
    return ByteSource(flac.with_length(data, num_samples) if not frames else flac_frames.plain_copy(data, frames))


def joined_ogg(source: Source, starts: list[int]) -> ByteSource | None:
    """Return a WAV file of all samples of several Ogg streams, which begin at these bytes.

    Returns:
        None if the streams differ in sampling rate or channels, or one of them cannot be read as a whole.
    """
    import numpy as np
    import soundfile

    parts, layouts = [], set()
    for start, end in zip(starts, [*starts[1:], source.size], strict=True):
        try:
            with opened(ByteSource(source.read(start, end - start))) as sound:
                parts.append(sound.read(dtype="float32", always_2d=True))
                layouts.add((sound.samplerate, sound.channels))
                if len(parts[-1]) != sound.frames:
                    return None
        except soundfile.SoundFileError:
            return None
    if len(layouts) != 1:
        return None
    wav = io.BytesIO()
    soundfile.write(wav, np.concatenate(parts), layouts.pop()[0], "FLOAT", format="WAV")
    return ByteSource(wav.getvalue())


def mpeg_in_wav(source: Source) -> ByteSource:
    """Return the MPEG audio in a WAV file."""
    return ByteSource(riff.coded_stream(source))
