"""Audio for tests of damage and of false claims, made without any tool: samples, and bytes of our own."""

import io
import struct
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from prepcli.audio.ogg import page_crc

RATE = 16000


def tones(seconds: float, rate: int = RATE, seed: int = 0) -> NDArray[np.int16]:
    """Int16 samples (n,): a tone that swells and fades, with noise; FLAC halves it."""
    time = np.arange(round(seconds * rate)) / rate
    noise = np.random.default_rng(seed).normal(0, 60, len(time))
    return (5000 * np.sin(2 * np.pi * 210 * time) * np.sin(4 * time) + noise).astype(np.int16)


def written(samples: NDArray[Any], container: str, subtype: str | None = None, rate: int = RATE) -> bytes:
    """What libsndfile makes of samples."""
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate, format=container, subtype=subtype)
    return buffer.getvalue()


def wav(samples: NDArray[np.int16], rate: int = RATE, channels: int = 1) -> bytes:
    """A PCM_16 WAV file whose header says what it is told."""
    body = samples.tobytes()
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, channels, rate, 0, 2 * channels, 16)
    return b"RIFF" + struct.pack("<I", 36 + len(body)) + b"WAVE" + fmt + struct.pack("<4sI", b"data", len(body)) + body


def with_flac_rate(flac: bytes, rate: int) -> bytes:
    """A FLAC file whose STREAMINFO names another rate (Hz)."""
    packed = int.from_bytes(flac[18:26], "big") & (1 << 44) - 1 | rate << 44
    return flac[:18] + packed.to_bytes(8, "big") + flac[26:]


def with_granule(ogg: bytes, granule: int) -> bytes:
    """An Ogg file whose last page claims to end at `granule`; its checksum fits."""
    at = ogg.rindex(b"OggS")
    page = ogg[at : at + 6] + struct.pack("<q", granule) + ogg[at + 14 : at + 22] + bytes(4) + ogg[at + 26 :]
    return ogg[:at] + page[:22] + page_crc(page).to_bytes(4, "little") + page[26:]


def id3v2(size: int = 300) -> bytes:
    """An ID3v2.4 tag of `size` bytes, and ten more for its header."""
    digits = bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0))
    return b"ID3\x04\x00\x00" + digits + bytes(size)


def flipped(data: bytes, at: int, bit: int = 2) -> bytes:
    """A copy with one bit the other way."""
    damaged = bytearray(data)
    damaged[at] ^= 1 << bit
    return bytes(damaged)
