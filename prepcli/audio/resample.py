"""Change of sampling rate with soxr.

soxr (HQ) is used, not torchaudio (sinc kernel, defaults). By `benchmarks/resample.py`, on one core, it is 1.7 to 2.0
times as fast from 44,100 to 22,050 Hz, 1.2 to 1.7 times from 48,000 to 16,000 Hz, and 1.05 to 1.1 times from 44,100 to
16,000 Hz. Up to 90 % of the lower Nyquist frequency its gain is wrong by 0.01 dB (torchaudio: 2.4 dB). It leaves tones
from 105 % of that frequency on at -131 dB (torchaudio: -10 dB).

soxr is imported in 10 ms, torch in two seconds. Codecs that were trained with torchaudio's kernel need that kernel
(with another one 5 to 7 % of the codes change): see `prepcli.models.sinc`.
"""

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

_PIECE = 1 << 22
"""Number of samples to resample at once, a minute or more: long audio then needs little memory besides its result."""


def resample(samples: "NDArray[Any]", from_rate: int, to_rate: int) -> "NDArray[Any]":
    """Return samples at another rate.

    Integers are rounded and clipped. int32 is computed in float64 at soxr's higher quality, because 24 bits need more
    than the 20 bits of the default. Samples outside the audio count as zero.

    Args:
        samples: shape (n,) or (n, channels); int16, int32 or float32.
        from_rate: rate of the samples, in Hz.
        to_rate: rate of the result, in Hz.

    Returns:
        Exactly ceil(n * to_rate / from_rate) samples of the same type.

    Raises:
        ValueError: another type, or a rate that is not above 0.
    """
    import numpy as np

    pieces = (samples[start : start + _PIECE] for start in range(0, len(samples) or 1, _PIECE))
    parts = resampled_blocks(pieces, from_rate, to_rate)
    out = np.empty((-(-len(samples) * to_rate // from_rate), *samples.shape[1:]), samples.dtype)
    done = 0
    for part in parts:
        out[done : done + len(part)] = part
        done += len(part)
    return out


def resampled_blocks(blocks: "Iterable[NDArray[Any]]", from_rate: int, to_rate: int) -> "Iterator[NDArray[Any]]":
    """Return the result of `resample` for audio that comes in blocks of any length, also in blocks; raises as it does.

    The division into blocks does not change the result. A block is resampled when the next one is there, because more
    samples follow from the last one.
    """
    if from_rate <= 0 or to_rate <= 0:
        raise ValueError(f"rates must be above 0, not {from_rate} and {to_rate}")
    return _resampled(iter(blocks), from_rate, to_rate)


def _resampled(blocks: "Iterator[NDArray[Any]]", from_rate: int, to_rate: int) -> "Iterator[NDArray[Any]]":
    import numpy as np
    import soxr

    stream = None
    given = done = 0
    block = next(blocks, None)
    while block is not None:
        following = next(blocks, None)
        dtype = block.dtype
        if dtype not in (np.int16, np.int32, np.float32):
            raise ValueError(f"samples of type {dtype} can't be resampled: int16, int32 and float32 can")
        if from_rate == to_rate:
            yield block
            block = following
            continue
        # int16 is not passed to soxr directly, because soxr would add noise (dither).
        work, quality = (np.float64, "VHQ") if dtype == np.int32 else (np.float32, "HQ")
        # soxr rounds the length down or to the nearest. Zeros at the end, which soxr assumes anyway, add a sample.
        padding = -(-2 * from_rate // to_rate) if following is None else 0
        piece = np.zeros((len(block) + padding, *block.shape[1:]), work)
        piece[: len(block)] = block
        given += len(block)
        if stream is None and following is None:  # for a few seconds, making a stream would take a third of the time
            part = soxr.resample(piece, from_rate, to_rate, quality)
        else:
            if stream is None:
                channels = math.prod(block.shape[1:])
                stream = soxr.ResampleStream(from_rate, to_rate, channels, np.dtype(work).name, quality)
            part = stream.resample_chunk(piece, last=following is None)
        if following is None:
            part = part[: -(-given * to_rate // from_rate) - done]
        if dtype != np.float32:
            limits = np.iinfo(dtype)
            part = np.clip(np.rint(part, out=part), limits.min, limits.max, out=part)
        done += len(part)
        yield part.astype(dtype, copy=False)
        block = following
