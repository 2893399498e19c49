"""Measures of recorded audio: bandwidth, loudness, levels, noise and silence.

A measure depends on its samples alone. Long audio is converted and measured piece by piece, so that memory is hardly
more than the decoded samples. Nothing here uses BLAS, whose sums depend on the number of threads.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from prepcli.audio.channels import mean_of_channels
from prepcli.audio.encode import to_float32


class Mean:
    """The mean of all channels as float32, of shape (n,); full scale is 1. Only slices are computed, on access."""

    dtype = np.dtype(np.float32)

    def __init__(self, samples: NDArray[Any]) -> None:
        """`samples`: int16, int32 or float32, of shape (n, channels)."""
        self._samples = samples
        self.shape = samples.shape[:1]

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, part: slice) -> NDArray[np.float32]:
        piece = self._samples[part]
        return to_float32(piece if piece.shape[1] == 1 else mean_of_channels(piece))[:, 0]


Mono = NDArray[np.float32] | Mean
"""Samples of one channel, of shape (n,), or the mean of all channels; full scale is 1."""

NUM_FFT = 512
SDP_RATE, SDP_SECONDS = 44100, 30
_BANDWIDTH_DB = -50.0
_MIN_POWER = 1e-10
_FRAMES_AT_ONCE = 256
_SAMPLES_AT_ONCE = 1 << 18
_EDGES_AT_ONCE = 16
_MAX_LOUDNESS_CHANNELS = 5
_CLIP_SHARE, _CLIP_RUN = 0.999, 3
_LARGEST = {"PCM_U8": 0x7F00, "PCM_S8": 0x7F00, "ULAW": 32124, "ALAW": 32256}
"""The largest int16 value that samples of an encoding can have, for encodings in which it is not 32767."""
_SILENCE = 1e-5
"""Maximum power of a silent frame, as a share of the power of loud frames: -50 dB."""
_SNR_MIN_SECONDS, _SNR_MIN_FRAMES = 0.5, 5
_OFFSET_SHARE, _ROUNDING = 0.1, 1e-10


class Levels(NamedTuple):
    """The peak (dB of full scale; None: all samples are 0), the mean sample, and the share of clipped samples."""

    peak_db: float | None
    dc: float
    clipped: float


class Silence(NamedTuple):
    """The share of silent frames, and the seconds of silence at the start and the end (None if all is silent)."""

    share: float
    start: float | None
    end: float | None


class Frames(NamedTuple):
    """The mean power of each frame of 25 ms, one every 10 ms; `size` of a frame and `hop` are in samples.

    The power is without that of a constant offset, if this is more than a tenth of the power of the quietest frames.
    """

    power: NDArray[np.float64]
    size: int
    hop: int


def levels(samples: NDArray[Any], subtype: str) -> Levels:
    """Return the levels over all channels of samples (n, channels), n > 0; int16, int32 or float32.

    A sample is clipped if it is one of at least three successive samples of its channel that reach 99.9 % of the
    largest value of the encoding. `subtype` names the encoding, as in `AudioInfo`.
    """
    is_float = samples.dtype.kind == "f"
    scale = 1.0 if is_float else -float(np.iinfo(samples.dtype).min)
    largest = 1.0 if is_float else _LARGEST.get(subtype, np.iinfo(samples.dtype).max)
    peak = max(-float(samples.min()), float(samples.max()), 0.0)
    limit = _CLIP_SHARE * largest
    clipped = 0.0 if peak < limit else _num_clipped(samples, limit) / samples.size
    dc = float(samples.mean(dtype=np.float64)) / scale
    return Levels(20 * math.log10(peak / scale) if peak else None, dc, clipped)


def _num_clipped(samples: NDArray[Any], limit: float) -> int:
    count = 0
    for channel in range(samples.shape[1]):
        is_high = (samples[:, channel] >= limit) | (samples[:, channel] <= -limit)
        edges = np.flatnonzero(np.diff(is_high, prepend=False, append=False)).reshape(-1, 2)
        runs = edges[:, 1] - edges[:, 0]
        count += int(runs[runs >= _CLIP_RUN].sum())
    return count


def has_equal_channels(samples: NDArray[Any]) -> bool | None:
    """Return whether all channels have the same samples; None for one channel."""
    if samples.shape[1] == 1:
        return None
    return all(np.array_equal(samples[:, 0], samples[:, number]) for number in range(1, samples.shape[1]))


def bandwidth(mono: Mono, rate: int) -> int | None:
    """Return the bandwidth in Hz as NeMo Curator defines it; None if all samples are zero.

    It is the highest frequency whose mean power is less than 50 dB below the power of the strongest frequency. The mean
    is over frames of 512 samples every 10 ms, centred and padded with zeros, with a Blackman-Harris window.
    """
    hop = int(rate * 0.01)
    pieces = (mono[start : start + _SAMPLES_AT_ONCE] for start in range(0, len(mono), _SAMPLES_AT_ONCE))
    if not hop or not any(piece.any() for piece in pieces):
        return None
    power = np.maximum(_mean_spectrum(mono, hop), _MIN_POWER)
    is_within = 10 * np.log10(power / power.max()) > _BANDWIDTH_DB
    return int(float(np.flatnonzero(is_within)[-1]) * (rate / NUM_FFT))


def bandwidth_sdp(mono: Mono, rate: int) -> int | None:
    """Return the bandwidth in Hz as NeMo SDP defines it: the `bandwidth` of the first 30 s, resampled to 44.1 kHz.

    SDP resamples with librosa, which cuts off the end of the audio more abruptly than `prepcli.audio.resample`. An
    abrupt end adds high frequencies, so this function resamples as librosa does.
    """
    first = mono[: SDP_SECONDS * rate]
    if rate != SDP_RATE:
        import soxr

        length = math.ceil(len(first) * SDP_RATE / rate)
        resampled: NDArray[np.float32] = soxr.resample(first, rate, SDP_RATE, quality="HQ")[:length]
        first = np.pad(resampled, (0, length - len(resampled)))
    return bandwidth(first, SDP_RATE)


def _mean_spectrum(mono: Mono, hop: int) -> NDArray[np.float64]:
    from scipy.fft import rfft

    count = 1 + len(mono) // hop
    total = np.zeros(NUM_FFT // 2 + 1)
    for first in range(0, count, _FRAMES_AT_ONCE):
        number = min(_FRAMES_AT_ONCE, count - first)
        begin = first * hop - NUM_FFT // 2
        end = begin + (number - 1) * hop + NUM_FFT
        inside = mono[max(begin, 0) : end]
        piece = np.zeros(end - begin, np.float32)
        piece[max(-begin, 0) : max(-begin, 0) + len(inside)] = inside
        spectrum = rfft(sliding_window_view(piece, NUM_FFT)[::hop] * _window(), axis=1)
        total += (spectrum.real**2 + spectrum.imag**2).sum(axis=0, dtype=np.float64)
    return total / count


@lru_cache(maxsize=1)
def _window() -> NDArray[np.float32]:
    from scipy.signal import get_window

    window: NDArray[np.float32] = get_window("blackmanharris", NUM_FFT).astype(np.float32)
    return window


def loudness(samples: NDArray[Any], rate: int) -> float | None:
    """Return the integrated loudness (LUFS) of samples (n, channels) at `rate` Hz, as pyloudnorm 0.2 computes it.

    The standard is ITU-R BS.1770-4, and the filters are pyloudnorm's. For long audio, pyloudnorm's `Meter` would take
    twice the time and eight times the memory.

    Returns:
        None for less than 0.4 s, for audio below -70 LUFS such as silence, and for more than five channels.
    """
    if len(samples) < 0.4 * rate or samples.shape[1] > _MAX_LOUDNESS_CHANNELS:
        return None
    gains = (1.0, 1.0, 1.0, 1.41, 1.41)
    power = sum(
        gain * _block_powers(samples[:, channel], rate)
        for channel, gain in zip(range(samples.shape[1]), gains, strict=False)
    )
    assert isinstance(power, np.ndarray)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_blocks = -0.691 + 10 * np.log10(power)
    loud = of_blocks >= -70
    if not loud.any():
        return None
    relative = -0.691 + 10 * math.log10(power[loud].mean()) - 10
    gated = power[(of_blocks > relative) & (of_blocks > -70)]
    level = -0.691 + 10 * math.log10(gated.mean()) if len(gated) else -math.inf
    return level if math.isfinite(level) else None


def _block_powers(channel: NDArray[Any], rate: int) -> NDArray[np.float64]:
    """The power of a K-weighted channel in blocks of 0.4 s every 0.1 s; the last block may end after the channel."""
    from scipy.signal import sosfilt

    count = int(np.round((len(channel) / rate - 0.4) / (0.4 * 0.25)) + 1)
    starts = [int(0.4 * (number * 0.25) * rate) for number in range(count)]
    ends = [min(int(0.4 * (number * 0.25 + 1) * rate), len(channel)) for number in range(count)]
    edges = np.unique(starts + ends)  # the samples between two edges are added once, for all blocks that contain them
    sums = np.zeros(len(edges))
    sections = _k_weighting(rate)
    state = np.zeros((len(sections), 2))
    scale = 1.0 if channel.dtype.kind == "f" else -1.0 / np.iinfo(channel.dtype).min
    for first in range(0, len(edges) - 1, _EDGES_AT_ONCE):
        last = min(first + _EDGES_AT_ONCE, len(edges) - 1)
        filtered, state = sosfilt(sections, channel[edges[first] : edges[last]] * scale, zi=state)
        sums[first:last] = np.add.reduceat(np.square(filtered, out=filtered), edges[first:last] - edges[first])
    blocks = np.stack([np.searchsorted(edges, starts), np.searchsorted(edges, ends)], axis=1)
    of_blocks: NDArray[np.float64] = np.add.reduceat(sums, blocks.reshape(-1))[::2] / (0.4 * rate)
    return of_blocks


@lru_cache(maxsize=16)
def _k_weighting(rate: int) -> NDArray[np.float64]:
    """The two filters of K-weighting as second-order sections."""
    from pyloudnorm.iirfilter import IIRfilter

    filters = (
        IIRfilter(4.0, 1 / np.sqrt(2), 1500.0, rate, "high_shelf"),
        IIRfilter(0.0, 0.5, 38.0, rate, "high_pass"),
    )
    return np.array([[*stage.b, *stage.a] for stage in filters])


def frames_of(mono: Mono, rate: int) -> Frames:
    """Return the power of all complete frames of samples at `rate` Hz."""
    size, hop = round(0.025 * rate), max(1, round(0.01 * rate))
    count = (len(mono) - size) // hop + 1 if size and len(mono) >= size else 0
    power, mean = np.empty(count), np.empty(count)
    for first in range(0, count, _FRAMES_AT_ONCE):
        last = min(first + _FRAMES_AT_ONCE, count)
        piece = mono[first * hop : (last - 1) * hop + size].astype(np.float64)
        frames = sliding_window_view(piece, size)[::hop]
        power[first:last] = np.einsum("ij,ij->i", frames, frames) / size
        mean[first:last] = frames.mean(axis=1)
    return Frames(_without_offset(power, mean), size, hop)


def _without_offset(power: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """The power of frames, less the square of their mean samples if the quietest ones share an offset.

    Each frame has its own mean removed, because parts of a recording may be cut from others, or be set to zero.
    """
    quiet = _quietest(power)
    if not len(quiet):
        return power
    offset, spread = float(mean[quiet].mean()) ** 2, float(mean[quiet].var())  # deep tones give means that differ
    if offset <= max(_OFFSET_SHARE * float(power[quiet].mean()), spread / _OFFSET_SHARE):
        return power
    varying = power - mean**2
    return np.where(varying > _ROUNDING * power, varying, 0.0)


def _quietest(power: NDArray[np.float64]) -> NDArray[np.intp]:
    """The numbers of the quietest tenth of the frames, at least five, among those that are not exactly zero."""
    order = np.argsort(power, kind="stable")[np.count_nonzero(power == 0) :]
    return order[: max(_SNR_MIN_FRAMES, len(order) // 10)]


def snr(frames: Frames, seconds: float) -> float | None:
    """Return the ratio of speech to noise in dB, from -20 to 100.

    Noise N is the mean power of the quietest tenth of the frames, at least five, without those that are exactly zero;
    S is the mean power of the frames above 4 N; the ratio is (S - N) / N. The scale is prepcli's own.

    Returns:
        None for less than 0.5 s, for fewer than five frames that are not zero, and if no frame is above 4 N.
    """
    quiet = _quietest(frames.power)
    if seconds < _SNR_MIN_SECONDS or len(quiet) < _SNR_MIN_FRAMES:
        return None
    noise = float(frames.power[quiet].mean())
    loud = frames.power[frames.power > 4 * noise]
    if not len(loud) or not noise:
        return None
    ratio = max(float(loud.mean()) - noise, 1e-12) / noise
    return min(max(10 * math.log10(ratio), -20.0), 100.0)


def silence(frames: Frames, num_samples: int, rate: int) -> Silence | None:
    """Return the silence in audio of `num_samples` samples at `rate` Hz; None if there is no complete frame.

    A frame is silent if its power is zero, or at least 50 dB below the 95th percentile of the power of all frames.
    """
    if not len(frames.power):
        return None
    loud = np.flatnonzero(frames.power > _SILENCE * float(np.percentile(frames.power, 95)))
    share = 1 - len(loud) / len(frames.power)
    if not len(loud):
        return Silence(share, None, None)
    end = num_samples - (int(loud[-1]) * frames.hop + frames.size)
    return Silence(share, int(loud[0]) * frames.hop / rate, end / rate)
