"""Encoding of samples; the same input always gives the same bytes.

WAV is written here, because libsndfile writes the time of day into floating-point WAV. Ogg streams get a serial number
that is computed from the samples instead of libsndfile's random one. libsndfile writes FLAC and MP3 reproducibly.
"""

import struct
import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Any

from prepcli.audio import ogg
from prepcli.audio.info import AudioInfo
from prepcli.errors import RecordRejected, RejectReason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The rates of libopus and of MPEG-1, 2 and 2.5, in Hz.
_OPUS_RATES = (8000, 12000, 16000, 24000, 48000)
_MPEG_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_RATES = {"opus": _OPUS_RATES, "mp3": _MPEG_RATES}
# Above 65,535 Hz a FLAC frame can only name multiples of 10 (RFC 9639, section 9.1.2).
_MAX_ODD_FLAC_RATE, _MAX_FLAC_RATE = 65_535, 655_350
# libvorbis has no settings for higher rates, and libsndfile crashes then.
_MAX_VORBIS_RATE = 200_000
# Samples per channel in one call of libsndfile: libvorbis puts all samples of a call on the stack.
_BLOCK = 1 << 16

# For each format: libsndfile's container, its only encoding (None: the caller chooses), maximum number of channels.
_FORMATS: dict[str, tuple[str, str | None, int]] = {
    "flac": ("FLAC", None, 8),
    "wav": ("WAV", None, 65535),
    "opus": ("OGG", "OPUS", 255),
    "ogg": ("OGG", "VORBIS", 255),
    "mp3": ("MP3", "MPEG_LAYER_III", 2),
}
_DEFAULT_SUBTYPES = {
    "flac": {"int16": "PCM_16", "int32": "PCM_24", "float32": "PCM_16", "float64": "PCM_16"},
    "wav": {"int16": "PCM_16", "int32": "PCM_24", "float32": "FLOAT", "float64": "FLOAT"},
}
# Subtype -> format tag, bits: the encodings that this module writes; libsndfile writes the others.
_WAV_TAGS = {"PCM_16": (1, 16), "PCM_24": (1, 24), "PCM_32": (1, 32), "FLOAT": (3, 32)}
# Sources of more than 16 bits; all others fit 16 bits or are lossy.
_WIDE = {
    "flac": {"PCM_24": "PCM_24", "PCM_32": "PCM_24", "FLOAT": "PCM_24", "DOUBLE": "PCM_24"},
    "wav": {"PCM_24": "PCM_24", "PCM_32": "PCM_32", "FLOAT": "FLOAT", "DOUBLE": "FLOAT"},
}
_ALIASES = {"ALAC_20": "PCM_24", "ALAC_24": "PCM_24", "DWVW_24": "PCM_24", "ALAC_32": "PCM_32"}
_MAX_WAV_BYTES = 0xFFFFFFFF - 64


WRITABLE, LOSSLESS = tuple(_FORMATS), tuple(_WIDE)
"""The formats that `encode` writes, and the lossless ones among them."""


def encodable_rate(format: str, rate: int) -> int:
    """Return the rate in Hz to resample to before encoding: `rate` if the format allows it.

    Otherwise it is the next higher rate that the format allows, or its highest. WAV allows all rates; FLAC and Ogg
    Vorbis allow all usual rates.
    """
    if format == "flac" and rate > _MAX_ODD_FLAC_RATE:
        return min(-(-rate // 10) * 10, _MAX_FLAC_RATE)
    if format == "ogg":
        return min(rate, _MAX_VORBIS_RATE)
    rates = _RATES.get(format)
    if rates is None:
        return rate
    return next((possible for possible in rates if possible >= rate), rates[-1])


def lossless_subtype(info: AudioInfo, format: str) -> str | None:
    """Return the subtype for `encode` that keeps the source's samples if possible; None for lossy formats.

    Samples change in three cases only. FLAC has up to 24 bits: 32-bit and floating-point sources lose their lower bits.
    WAV gets FLOAT for DOUBLE. Sources in lossy codecs become PCM_16.
    """
    wide = _WIDE.get(format)
    if wide is None:
        return None
    return wide.get(_ALIASES.get(info.subtype, info.subtype), "PCM_16")


def encode(samples: "NDArray[Any]", sampling_rate: int, format: str, subtype: str | None = None) -> bytes:
    """Return samples as an encoded file; the same samples always give the same bytes.

    Args:
        samples: shape (n,) or (n, channels); int16, int32 (the value in the upper bits), or floating point in [-1, 1).
            Values outside are clipped, and NaN becomes 0.
        sampling_rate: in Hz; a rate that `encodable_rate` does not change.
        format: "flac", "wav", "opus", "ogg" (Vorbis) or "mp3".
        subtype: libsndfile's name of the encoding. By default PCM_16 for int16 and PCM_24 for int32; floating point
            becomes FLOAT in WAV and PCM_16 in FLAC. The lossy formats have one encoding each, at libsndfile's default
            quality.

    Raises:
        ValueError: an unknown format, no samples, or a rate that the format does not have.
        RecordRejected: UNREADABLE_AUDIO if the format cannot have that many channels or samples.
    """
    if format not in _FORMATS:
        raise ValueError(f"format {format!r} is not one of {', '.join(_FORMATS)}")
    container, only_subtype, max_channels = _FORMATS[format]
    if samples.ndim == 1:
        samples = samples.reshape(-1, 1)
    if not samples.size:
        raise ValueError("there are no samples to encode")
    if encodable_rate(format, sampling_rate) != sampling_rate:
        raise ValueError(f"{format} has no rate of {sampling_rate} Hz: resample first, see encodable_rate")
    if samples.shape[1] > max_channels:
        raise RecordRejected(
            RejectReason.UNREADABLE_AUDIO,
            f"{format} has a maximum of {max_channels} channels, the audio has {samples.shape[1]}",
        )
    if only_subtype is None:
        subtype = subtype or _DEFAULT_SUBTYPES[format][samples.dtype.name]
        samples = _convert(samples, subtype)
        if format == "wav" and subtype in _WAV_TAGS:
            return _wav(samples, sampling_rate, subtype)
    else:
        subtype = only_subtype
        # Not int16: with it, libsndfile 1.2.2 turns half of a stereo MP3 into noise (libsndfile pull request 1106).
        samples = _convert(samples, "FLOAT", clip=True)
    data = _with_libsndfile(samples, sampling_rate, container, subtype)
    if container == "OGG":
        return ogg.with_serial(data, zlib.crc32(samples.tobytes()))
    return data


def _convert(samples: "NDArray[Any]", subtype: str, clip: bool = False) -> "NDArray[Any]":
    """Return samples, rounded and clipped, in the type from which the subtype is encoded: int16, int32 or float32."""
    import numpy as np

    kind = samples.dtype.kind
    if subtype in ("FLOAT", "DOUBLE"):
        samples = to_float32(samples)
        if kind != "f":
            return samples
        return np.clip(np.nan_to_num(samples, posinf=1, neginf=-1), -1, 1) if clip else samples
    # libsndfile makes 8-bit and companded encodings from int16.
    bits = {"PCM_24": 24, "PCM_32": 32}.get(subtype, 16)
    target = np.int16 if bits == 16 else np.int32
    if kind == "f":
        full = 1 << (bits - 1)
        # float32 cannot represent 2^31 - 1.
        wide = samples.astype(np.float64 if bits > 16 else np.float32, copy=False)
        scaled = np.clip(np.rint(np.nan_to_num(wide * full, posinf=full, neginf=-full)), -full, full - 1)
        whole: NDArray[Any] = scaled.astype(target)
        return whole << 32 - bits if bits > 16 else whole
    if samples.dtype == target:
        return samples
    if bits > 16:
        wider: NDArray[Any] = samples.astype(np.int32) << 16
        return wider
    rounded = (samples.astype(np.int64) + 0x8000) >> 16
    narrow: NDArray[Any] = np.minimum(rounded, 0x7FFF).astype(np.int16)
    return narrow


def to_int16(samples: "NDArray[Any]") -> "NDArray[np.int16]":
    """Return samples of any type as int16, rounded and clipped."""
    return _convert(samples, "PCM_16")


def to_float32(samples: "NDArray[Any]") -> "NDArray[np.float32]":
    """Return samples of any type as float32, integers scaled to [-1, 1)."""
    import numpy as np

    if samples.dtype.kind == "f":
        return samples.astype(np.float32, copy=False)
    scale = 1.0 / -float(np.iinfo(samples.dtype).min)  # a power of two: exact
    return samples * np.float32(scale) if samples.dtype == np.int16 else (samples * scale).astype(np.float32)


def _wav(samples: "NDArray[Any]", rate: int, subtype: str) -> bytes:
    """Return a WAV file, with the `fact` chunk that encodings other than PCM must have."""
    import numpy as np

    tag, bits = _WAV_TAGS[subtype]
    frames, channels = samples.shape
    body: bytes | memoryview
    if bits == 24:
        # The upper three bytes of each int32.
        quads = np.ascontiguousarray(samples, "<i4").view(np.uint8).reshape(-1, 4)
        body = quads[:, 1:].tobytes()
    else:
        # A view: the bytes are copied once, when the parts are joined.
        body = np.ascontiguousarray(samples, samples.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data
    if len(body) > _MAX_WAV_BYTES:
        raise RecordRejected(
            RejectReason.UNREADABLE_AUDIO, f"WAV has a maximum of 4 GiB, the audio has {len(body)} bytes"
        )
    align = channels * bits // 8
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, tag, channels, rate, rate * align, align, bits)
    if tag != 1:
        fmt += struct.pack("<4sII", b"fact", 4, frames)
    padding = b"\0" * (len(body) & 1)
    size = 4 + len(fmt) + 8 + len(body) + len(padding)
    header = struct.pack("<4sI4s", b"RIFF", size, b"WAVE") + fmt + struct.pack("<4sI", b"data", len(body))
    return b"".join((header, body, padding))


def _with_libsndfile(samples: "NDArray[Any]", rate: int, container: str, subtype: str) -> bytes:
    import soundfile

    buffer = BytesIO()
    with soundfile.SoundFile(buffer, "w", rate, samples.shape[1], subtype, format=container) as sound:
        for start in range(0, len(samples), _BLOCK):
            sound.write(samples[start : start + _BLOCK])
    return buffer.getvalue()
