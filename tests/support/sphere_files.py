"""NIST SPHERE files as the LDC ships them: plain, mu-law, and compressed with shorten."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]


def ulaw_values() -> Samples:
    """What each of the 256 codes of mu-law stands for (ITU-T G.711), as int16."""
    code = ~np.arange(256) & 0xFF
    magnitude = (((code & 15) << 3) + 132 << (code >> 4 & 7)) - 132
    return np.where(code & 128, -magnitude, magnitude).astype(np.int16)


@cache
def _nearest_codes() -> NDArray[np.uint8]:
    """The code that is nearest to each sample, from -32768 on."""
    values = ulaw_values().astype(np.int32)
    order = np.argsort(values, kind="stable")
    middles = (values[order][1:] + values[order][:-1] + 1) // 2
    return order[np.searchsorted(middles, np.arange(-(1 << 15), 1 << 15), side="right")].astype(np.uint8)


def ulaw(samples: Samples) -> NDArray[np.uint8]:
    """The code that is nearest to each sample."""
    return _nearest_codes()[samples.astype(np.int32) + (1 << 15)]


def ulaw_sphere(samples: Samples) -> bytes:
    """A SPHERE file in mu-law; `samples` of shape (num_samples, num_channels)."""
    return sphere(ulaw(samples).tobytes(), "ulaw", len(samples), samples.shape[1], width=1)


def shorten(channels: list[list[int]], block: int = 256, kind: int = 5) -> bytes:
    """Compress with shorten 2, in its simplest form: no prediction, blocks of DIFF0 with Rice codes.

    `kind` is shorten's number for the samples: 5 for int16, little-endian; 8 for mu-law (see `shorten_ulaw`).
    Numbers are written as in Tony Robinson's technical report CUED/F-INFENG/TR.156.
    """
    bits: list[str] = []

    def rice(value: int, width: int) -> None:
        low = f"{value & (1 << width) - 1:0{width}b}" if width else ""
        bits.append("0" * (value >> width) + "1" + low)

    def number(value: int) -> None:
        rice(value.bit_length(), 2)
        rice(value, value.bit_length())

    for field in (kind, len(channels), block, 0, 0, 0):  # no predictor, no mean, no skip
        number(field)
    total = len(channels[0])
    for start in range(0, total, block):
        if total - start < block:
            rice(5, 2)  # BLOCKSIZE
            number(total - start)
        for channel in channels:
            values = channel[start : start + block]
            width = max(1, max(abs(value) for value in values).bit_length() - 1)
            rice(0, 2)  # DIFF0
            rice(width, 3)
            for value in values:
                rice(value << 1 if value >= 0 else ~value << 1 | 1, width + 1)
    rice(4, 2)  # QUIT
    stream = "".join(bits)
    stream += "0" * (-len(stream) % 32)
    return b"ajkg\x02" + int(stream, 2).to_bytes(len(stream) // 8, "big")


def shorten_ulaw(samples: Samples) -> bytes:
    """Compress samples of shape (num_samples, num_channels) as mu-law: shorten takes the codes in the order of size."""
    codes = ulaw(samples).astype(np.int64)
    values = np.where(codes >= 128, 255 - codes, codes - 128)
    return shorten([values[:, channel].tolist() for channel in range(values.shape[1])], kind=8)


def sphere(body: bytes, coding: str, samples: int, channels: int, width: int = 2, rate: int = 8000) -> bytes:
    """A header as the LDC writes it, and what follows it; `width` in bytes."""
    fields = (
        f"NIST_1A\n   1024\nchannel_count -i {channels}\nsample_count -i {samples}\nsample_rate -i {rate}\n"
        f"sample_n_bytes -i {width}\nsample_byte_format -s{width} {'01'[-width:]}\nsample_sig_bits -i {8 * width}\n"
        f"sample_coding -s{len(coding)} {coding}\nend_head\n"
    )
    return fields.encode().ljust(1024) + body


def with_real_rate(data: bytes) -> bytes:
    """The same file with its rate of 8000 Hz as a real number, as SPHERE allows: sox reads it, libsndfile does not."""
    head = data[:1024].rstrip(b" ").replace(b"sample_rate -i 8000\n", b"sample_rate -r 8000.0\n")
    return head.ljust(1024) + data[1024:]
