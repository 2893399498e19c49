"""Reads exactly the samples of a segment of an audio source, as a whole or in blocks.

dr_flac is faster for FLAC, because libsndfile converts each sample to 32 bits and back. dr_flac has no wheel for some
machines. If it is missing, or does not decode all samples, libsndfile decodes the file or reports the error.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from prepcli.audio import ffmpeg, ogg, sox
from prepcli.audio.corrected import corrected_copy
from prepcli.audio.decodable import opened, sequential
from prepcli.audio.info import FFMPEG, NOT_PASSABLE, AudioInfo, unreadable
from prepcli.audio.limits import MAX_FLOAT
from prepcli.audio.opening import AudioSource, name_of, open_source, used_in_turn
from prepcli.audio.quiet import no_notes
from prepcli.audio.source import ByteSource, FileSource, Source, open_file
from prepcli.storage.addresses import ByteRange, is_address
from prepcli.storage.containers import SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import soundfile
    from numpy.typing import NDArray


# dr_flac needs memory for the samples twice (2 x 32 MB, 17 minutes at 16 kHz), libsndfile once.
_MAX_SAMPLES = 1 << 24


def decode_flac(source: Source, info: AudioInfo, start: int, num_samples: int) -> "NDArray[Any] | None":
    """Decode a whole FLAC file of 16 bits with dr_flac.

    Returns:
        int16 of shape (num_samples, num_channels); None if libsndfile must decode: for another format, a part of a
        file, a long or damaged file, and on a machine without dr_flac.
    """
    whole = not start and num_samples == info.num_samples
    if not whole or (info.format, info.subtype) != ("flac", "PCM_16") or num_samples * info.num_channels > _MAX_SAMPLES:
        return None
    dr_flac = _dr_flac()
    if dr_flac is None:
        return None
    import numpy as np

    data = source.everything()
    try:
        decoded = dr_flac(data)
    except Exception:  # errors of dr_flac, and arithmetic errors on damaged headers
        return None
    # dr_flac drops frames with a wrong checksum, so damage shows in the number of samples.
    samples = np.frombuffer(decoded.samples, np.int16)
    layout = (decoded.nchannels, decoded.sample_rate, len(samples))
    if layout != (info.num_channels, info.sampling_rate, num_samples * info.num_channels):
        return None
    return samples.reshape(num_samples, info.num_channels)


@cache
def _dr_flac() -> "Callable[[bytes], Any] | None":
    try:
        from miniaudio import flac_read_s16
    except (ImportError, OSError):
        return None
    decode: Callable[[bytes], Any] = flac_read_s16
    return decode


# Encodings that fit int16 without loss: eight bits, companded samples, and codecs that libsndfile decodes to 16 bits.
_INT16 = frozenset(
    {"PCM_16", "PCM_S8", "PCM_U8", "ULAW", "ALAW", "IMA_ADPCM", "MS_ADPCM", "GSM610", "ALAC_16", "VOX_ADPCM"}
    | {"G721_32", "G723_24", "G723_40", "DPCM_8", "DPCM_16", "DWVW_12", "DWVW_16", "NMS_ADPCM_16"}
    | {"NMS_ADPCM_24", "NMS_ADPCM_32"}
)
_INT32 = frozenset({"PCM_24", "PCM_32", "ALAC_20", "ALAC_24", "ALAC_32", "DWVW_24"})

# Number of values that are decoded first, 64 MB of float32; most files are shorter.
_BLOCK_VALUES = 1 << 24

# In seconds. libsndfile's seek in Opus starts the decoder only 80 ms early, and the decoder's state then still differs:
# of 280 random segments of speech at 8 to 96 kbit/s, 78 differed from a full decode (by up to -50 dB); with a lead-in
# of 1 s four differed, with 2 s none.
_OPUS_LEAD_IN = 3.0
# libsndfile 1.2.2 seeks 64 samples off within the last page of Ogg Vorbis (and nowhere else in 2,000 random seeks). So
# a seek goes to a place before that page, this number of samples earlier, because two of Vorbis' longest blocks
# overlap.
_VORBIS_LEAD_IN = 2 * 8192
# A frame of MP3 may use up to 255 bytes (511 in MPEG-1, from 32 kHz on) of earlier frames, and libsndfile begins only a
# few frames early: of random segments at low or variable bit rates, up to nine in ten began with wrong samples, some of
# them loud. A frame adds at least 60 bytes to this reservoir in MPEG-1, and 3 bytes below 32 kHz (stereo, 8 kbit/s, 24
# kHz).
_MPEG1_RATE = 32000
_MPEG1_LEAD_IN = 16 * 1152
_MPEG2_LEAD_IN = 96 * 576


def read_segment(
    source: AudioSource,
    info: AudioInfo,
    start: int = 0,
    num_samples: int | None = None,
    *,
    name: str = "",
) -> "NDArray[Any]":
    """Return a segment of a file.

    Args:
        source: the audio.
        info: the properties of the audio, from `probe` or `probe_bytes`.
        start: first sample of the segment.
        num_samples: length of the segment; None: to the end.
        name: for messages; by default `name_of(source)`.

    Returns:
        Samples of shape (num_samples, num_channels): int16 for PCM_16 and less, int32 (the value in the upper bits) for
        24 and 32 bits, float32 (full scale is 1) for floating point and lossy codecs.

    Raises:
        RecordRejected: UNREADABLE_AUDIO if decoding fails or ends too early, or samples are not finite;
            MISSING_AUDIO if the file does not exist any more.
    """
    length = info.num_samples - start if num_samples is None else num_samples
    [samples] = read_blocks(source, info, start, length, max(length, 1), name=name)
    return samples


def read_blocks(
    source: AudioSource, info: AudioInfo, start: int, length: int, size: int, *, name: str = ""
) -> "Iterator[NDArray[Any]]":
    """Return the `length` samples of `read_segment` in blocks of `size` samples per channel; the last may be shorter.

    A file is opened once, and decoded as its blocks are asked for: memory does not grow with its length. Only short
    FLAC and audio that sox reads are decoded as a whole, the corrected copy of an odd file is in memory, and audio that
    ffmpeg reads is in a temporary file. There is at least one block, which is empty if `length` is 0. Raises as
    `read_segment`, after the blocks before the fault.
    """
    if start < 0 or length < 0:
        raise ValueError(f"start {start} and num_samples {length} must not be negative")
    read = _decoded_blocks if info.data_offset is None else _pcm_blocks
    return read(source, info, start, length, size, name or name_of(source))


def _decoded_blocks(
    source: AudioSource, info: AudioInfo, start: int, length: int, size: int, name: str
) -> "Iterator[NDArray[Any]]":
    with open_source(source, name) as opened:
        yield from used_in_turn(
            opened, lambda source: _checked(_blocks(source, info, start, length, size, name), start, length, name)
        )


def _checked(blocks: "Iterable[NDArray[Any]]", start: int, length: int, name: str) -> "Iterator[NDArray[Any]]":
    """Yield the blocks of a segment, and reject it if it ends early, or has samples that are not numbers.

    Models and encoders accept samples that are NaN, infinite or far out of range. No block follows one that has them.
    """
    done = num_bad = 0
    first = ""
    for block in blocks:
        if block.dtype.kind == "f" and len(block) and not are_in_range(block):
            import numpy as np

            bad = ~(np.abs(block) <= MAX_FLOAT).all(axis=1)
            if not num_bad:
                at = int(bad.argmax())
                value = next(value for value in block[at].tolist() if not abs(value) <= MAX_FLOAT)
                first = f"the first is sample {start + done + at} ({value:g})"
            num_bad += int(bad.sum())
        done += len(block)
        if not num_bad:
            yield block
    if done != length:
        unreadable(name, f"ends early: {length} samples wanted from {start} on, {done} could be decoded")
    if num_bad:
        unreadable(name, f"is damaged: {num_bad} of {done} samples are not finite or far out of range, {first}")


def are_in_range(samples: "NDArray[Any]") -> bool:
    """Return whether floating-point samples, at least one, are finite and not far out of range."""
    # Minimum and maximum are NaN if a sample is. These two passes are four times as fast as `isfinite` and `abs`.
    return bool(samples.min() >= -MAX_FLOAT and samples.max() <= MAX_FLOAT)


def _pcm_blocks(
    source: AudioSource, info: AudioInfo, start: int, length: int, size: int, name: str
) -> "Iterator[NDArray[Any]]":
    """Yield int16 samples without decoding; for a file on disk, only their bytes are read."""
    import numpy as np

    assert info.data_offset is not None
    width = 2 * info.num_channels
    offset = info.data_offset + start * width
    with _open_to(source, offset + length * width, name) as opened:
        for done in range(0, length or 1, size):
            wanted = min(size, length - done)
            at = offset + done * width
            if isinstance(source, bytes):
                raw: bytes | memoryview = memoryview(source)[at : at + wanted * width]
            else:
                raw = opened.read(at, wanted * width)
            if len(raw) != wanted * width:
                there = done + len(raw) // width
                unreadable(name, f"ends early: {length} samples wanted from {start} on, {there} are there")
            yield np.frombuffer(raw, "<i2").reshape(wanted, info.num_channels)


def _open_to(source: AudioSource, end: int, name: str) -> AbstractContextManager[Source]:
    """Open audio up to byte `end`, a file without the fstat of `open_source`, which would take 2 us more."""
    if isinstance(source, (bytes, ByteRange)) or is_address(source) or SEPARATOR in str(source):
        return open_source(source, name)
    return FileSource(open_file(source, name), end, name)


def _blocks(source: Source, info: AudioInfo, start: int, length: int, size: int, name: str) -> "Iterator[NDArray[Any]]":
    samples = decode_flac(source, info, start, length)
    if samples is None and info.format == FFMPEG:
        return ffmpeg.blocks(source, info, start, length, size, name)
    if samples is None and info.format == NOT_PASSABLE:
        corrected = corrected_copy(source, info)
        if corrected is None:
            import numpy as np

            raw = np.frombuffer(sox.decode(source, info, name), "<i2" if _dtype(info) == "int16" else "<i4")
            samples = raw.reshape(-1, info.num_channels)[start : start + length]
        else:
            source = corrected
    if samples is None:
        return _libsndfile_blocks(source, info, start, length, size, name)
    return (samples[done : done + size] for done in range(0, len(samples) or 1, size))


def _libsndfile_blocks(
    source: Source, info: AudioInfo, start: int, length: int, size: int, name: str
) -> "Iterator[NDArray[Any]]":
    import soundfile

    first = _decode_from(source, info, start)
    dropped = start - first
    quiet = no_notes if info.subtype.startswith("MPEG") else nullcontext
    try:
        with quiet():
            sound = sequential()(source.for_libsndfile(), closefd=False)
        with sound:
            if (sound.channels, sound.samplerate) != (info.num_channels, info.sampling_rate):
                unreadable(name, "is damaged: its parts disagree on channels or sampling rate")
            for done in range(0, length or 1, size):
                wanted = dropped + min(size, length - done)
                with quiet():
                    if first and not done:
                        sound.seek(first)
                    samples = _read(sound, wanted, _dtype(info))
                yield samples[dropped:]
                if len(samples) < wanted:
                    break
                dropped = 0
    except soundfile.SoundFileError as error:
        what = str(getattr(error, "error_string", error)).strip().rstrip(".") or "the stream is damaged"
        unreadable(name, f"can't be decoded from sample {start} on ({what})")


def _dtype(info: AudioInfo) -> str:
    return "int16" if info.subtype in _INT16 else "int32" if info.subtype in _INT32 else "float32"


def read_as_trainers(data: bytes, info: AudioInfo, name: str) -> "NDArray[Any]":
    """Return all samples of a file as soundfile gives them to trainers, in the type of `read_segment`.

    Raises:
        RecordRejected: UNREADABLE_AUDIO if soundfile cannot read the file, gives another number of samples than
            `info`, or gives samples that are not finite.
    """
    import soundfile

    try:
        with opened(ByteSource(data), quiet=info.subtype.startswith("MPEG")) as sound:
            samples = _read(sound, sound.frames, _dtype(info))
    except soundfile.SoundFileError as error:
        unreadable(name, f"cannot be read by soundfile, as trainers do ({str(error).strip().rstrip('.')})")
    if len(samples) != info.num_samples:
        unreadable(name, f"has {info.num_samples} samples, of which soundfile, as in trainers, reads {len(samples)}")
    [checked] = _checked((samples,), 0, len(samples), name)
    return checked


def _read(sound: "soundfile.SoundFile", count: int, dtype: str) -> "NDArray[Any]":
    """Return up to `count` samples. Memory grows with the decoded samples: a bad header can make `count` too large."""
    import numpy as np

    samples = np.empty((min(count, _BLOCK_VALUES // sound.channels), sound.channels), dtype)
    got = 0
    while True:
        read = len(sound.read(dtype=dtype, always_2d=True, out=samples[got:]))
        got += read
        if got < len(samples) or got == count:
            return samples[:got]
        # The kernel moves large arrays without copying them.
        samples.resize((min(count, 2 * got), sound.channels), refcheck=False)


def _decode_from(source: Source, info: AudioInfo, start: int) -> int:
    """Return the sample at which decoding must begin, so that the samples from `start` on are correct.

    The caller drops the samples before `start`.
    """
    if info.subtype == "OPUS":
        return max(start - int(_OPUS_LEAD_IN * info.sampling_rate), 0)
    if info.subtype.startswith("MPEG"):
        return max(start - (_MPEG1_LEAD_IN if info.sampling_rate >= _MPEG1_RATE else _MPEG2_LEAD_IN), 0)
    if info.subtype == "VORBIS" and start:
        tail = source.read(max(source.size - 2 * ogg.TAIL_BYTES, 0), 2 * ogg.TAIL_BYTES)
        return max(min(start, ogg.last_page_start(tail) - _VORBIS_LEAD_IN), 0)
    return start
