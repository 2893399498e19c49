"""Reads exactly the samples of a segment of an audio source.

dr_flac is faster for FLAC, because libsndfile converts each sample to 32 bits and back. dr_flac has no wheel for some
machines. If it is missing, or does not decode all samples, libsndfile decodes the file or reports the error.
"""

import os
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from prepcli.audio import ffmpeg, ogg, sox
from prepcli.audio.corrected import corrected_copy
from prepcli.audio.decodable import opened
from prepcli.audio.info import FFMPEG, NOT_PASSABLE, AudioInfo, unreadable
from prepcli.audio.limits import MAX_FLOAT
from prepcli.audio.opening import AudioSource, name_of, open_source, used
from prepcli.audio.quiet import no_notes
from prepcli.audio.source import ByteSource, FileSource, Source, open_file
from prepcli.storage.addresses import ByteRange, is_address
from prepcli.storage.containers import SEPARATOR
from prepcli.storage.paths import AnyPath

if TYPE_CHECKING:
    from collections.abc import Callable

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
    if start < 0 or length < 0:
        raise ValueError(f"start {start} and num_samples {length} must not be negative")
    name = name or name_of(source)
    if info.data_offset is not None:
        return _read_pcm(source, info, start, length, name)
    with open_source(source, name) as opened:
        samples = used(opened, lambda source: _decode_all(source, info, start, length, name))
    if samples.dtype.kind == "f" and length:
        _check_numbers(samples, start, name)
    return samples


def are_in_range(samples: "NDArray[Any]") -> bool:
    """Return whether floating-point samples, at least one, are finite and not far out of range."""
    # Minimum and maximum are NaN if a sample is. These two passes are four times as fast as `isfinite` and `abs`.
    return bool(samples.min() >= -MAX_FLOAT and samples.max() <= MAX_FLOAT)


def _check_numbers(samples: "NDArray[Any]", start: int, name: str) -> None:
    """Reject floating-point samples that are NaN, infinite or far out of range: models and encoders accept them."""
    if are_in_range(samples):
        return
    import numpy as np

    bad = ~(np.abs(samples) <= MAX_FLOAT).all(axis=1)
    first = int(bad.argmax())
    value = next(value for value in samples[first].tolist() if not abs(value) <= MAX_FLOAT)
    unreadable(
        name,
        f"is damaged: {int(bad.sum())} of {len(samples)} samples are not finite or far out of range, "
        f"the first is sample {start + first} ({value:g})",
    )


def _read_pcm(source: AudioSource, info: AudioInfo, start: int, length: int, name: str) -> "NDArray[Any]":
    """Return int16 samples without decoding; for a file on disk, only their bytes are read."""
    import numpy as np

    assert info.data_offset is not None
    width = 2 * info.num_channels
    offset = info.data_offset + start * width
    if isinstance(source, bytes):
        raw = memoryview(source)[offset : offset + length * width]
    else:
        raw = memoryview(_read_range(source, offset, length * width, name))
    if len(raw) != length * width:
        unreadable(name, f"ends early: {length} samples wanted from {start} on, {len(raw) // width} are there")
    return np.frombuffer(raw, "<i2").reshape(length, info.num_channels)


def _read_range(source: str | AnyPath | ByteRange, offset: int, length: int, name: str) -> bytes:
    """Read a range of bytes, without the fstat of `open_source`, which would take 2 us more."""
    if isinstance(source, ByteRange) or is_address(source) or SEPARATOR in str(source):
        with open_source(source, name) as opened:
            return opened.read(offset, length)
    fd = open_file(source, name)
    try:
        return FileSource(fd, offset + length, name).read(offset, length)
    finally:
        os.close(fd)


def _decode_all(source: Source, info: AudioInfo, start: int, length: int, name: str) -> "NDArray[Any]":
    samples = _decode(source, info, start, length, name)
    if len(samples) != length:
        unreadable(name, f"ends early: {length} samples wanted from {start} on, {len(samples)} could be decoded")
    return samples


def _decode(source: Source, info: AudioInfo, start: int, length: int, name: str) -> "NDArray[Any]":
    samples = decode_flac(source, info, start, length)
    if samples is not None:
        return samples
    if info.format == FFMPEG:
        return ffmpeg.read(source, info, start, length, name)
    import numpy as np
    import soundfile

    dtype = _dtype(info)
    if info.format == NOT_PASSABLE:
        corrected = corrected_copy(source, info)
        if corrected is None:
            raw = np.frombuffer(sox.decode(source, info, name), "<i2" if dtype == "int16" else "<i4")
            return raw.reshape(-1, info.num_channels)[start : start + length]
        source = corrected
    first = _decode_from(source, info, start)
    quiet = no_notes() if info.subtype.startswith("MPEG") else nullcontext()
    try:
        with quiet, soundfile.SoundFile(source.for_libsndfile(), closefd=False) as sound:
            if (sound.channels, sound.samplerate) != (info.num_channels, info.sampling_rate):
                unreadable(name, "is damaged: its parts disagree on channels or sampling rate")
            if first:
                sound.seek(first)
            return _read(sound, start - first + length, dtype)[start - first :]
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
    if samples.dtype.kind == "f" and len(samples):
        _check_numbers(samples, 0, name)
    return samples


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
