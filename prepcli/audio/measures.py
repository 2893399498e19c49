"""Measures of recorded audio: bandwidth, loudness, levels, noise and silence.

A meter gets audio in blocks of any length by `add`, and has the result at the end; memory hardly grows with the audio.
A measure depends on its samples alone: the blocks may only change what is far behind the written digits. Nothing here
uses BLAS, whose sums depend on the number of threads.
"""

import math
from array import array
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.framing import Framing

NUM_FFT = 512
SDP_RATE, SDP_SECONDS = 44100, 30
_BANDWIDTH_DB = -50.0
_MIN_POWER = 1e-10
_FRAMES_AT_ONCE = 256
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


class Meter(Protocol):
    """Measures audio that comes in blocks."""

    def add(self, samples: NDArray[Any], /) -> None:
        """Take the next samples."""


class LevelMeter:
    """The levels over all channels of samples (n, channels), n > 0; int16, int32 or float32.

    A sample is clipped if it is one of at least three successive samples of its channel that reach 99.9 % of the
    largest value of the encoding.
    """

    def __init__(self, subtype: str) -> None:
        """`subtype` names the encoding, as in `AudioInfo`."""
        self._subtype = subtype
        self._scale, self._peak, self._total = 1.0, 0.0, 0.0
        self._size = self._num_clipped = 0
        self._open: NDArray[np.intp] = np.zeros(0, np.intp)  # loud samples at the end of each channel

    def add(self, samples: NDArray[Any]) -> None:
        """Take the next samples, of shape (n, channels)."""
        is_float = samples.dtype.kind == "f"
        self._scale = 1.0 if is_float else -float(np.iinfo(samples.dtype).min)
        limit = _CLIP_SHARE * (1.0 if is_float else _LARGEST.get(self._subtype, np.iinfo(samples.dtype).max))
        peak = max(-float(samples.min()), float(samples.max()), 0.0)
        self._peak = max(self._peak, peak)
        self._total += float(samples.sum(dtype=np.float64))
        self._size += samples.size
        if peak >= limit or self._open.any():
            self._add_loud((samples >= limit) | (samples <= -limit))

    def _add_loud(self, is_loud: NDArray[np.bool_]) -> None:
        if not len(self._open):
            self._open = np.zeros(is_loud.shape[1], np.intp)
        for channel, before in enumerate(self._open.tolist()):
            edges = np.flatnonzero(np.diff(is_loud[:, channel], prepend=False, append=False)).reshape(-1, 2)
            runs = np.append(edges[:, 1] - edges[:, 0], 0)  # the last is the one that may go on in the next block
            if is_loud[0, channel]:
                runs[0] += before
            else:
                runs = np.append(before, runs)
            if is_loud[-1, channel]:
                runs = runs[:-1]
            self._open[channel] = runs[-1]
            self._num_clipped += int(runs[:-1][runs[:-1] >= _CLIP_RUN].sum())

    def levels(self) -> Levels:
        """Return the levels of all samples."""
        clipped = self._num_clipped + int(self._open[self._open >= _CLIP_RUN].sum())
        peak = 20 * math.log10(self._peak / self._scale) if self._peak else None
        return Levels(peak, self._total / self._size / self._scale, clipped / self._size)


class ChannelMeter:
    """Compares the channels of samples (n, channels); `equal` is None for one channel."""

    equal: bool | None = None

    def add(self, samples: NDArray[Any]) -> None:
        """Take the next samples."""
        others = range(1, samples.shape[1])
        if others and self.equal is not False:
            self.equal = all(np.array_equal(samples[:, 0], samples[:, number]) for number in others)


class BandwidthMeter:
    """The bandwidth of mono samples (n,), with full scale 1, as NeMo Curator defines it.

    It is the highest frequency whose mean power is less than 50 dB below the power of the strongest frequency. The mean
    is over frames of 512 samples every 10 ms, centred and padded with zeros, with a Blackman-Harris window.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._framing = Framing(NUM_FFT, max(int(rate * 0.01), 1), _FRAMES_AT_ONCE, NUM_FFT // 2)
        self._total = np.zeros(NUM_FFT // 2 + 1)
        self._count = 0
        self._has_sound = False

    def add(self, mono: NDArray[np.float32]) -> None:
        """Take the next samples."""
        self._has_sound = self._has_sound or bool(mono.any())
        self._add_groups(self._framing.add(mono))

    def _add_groups(self, groups: Iterable[NDArray[np.float32]]) -> None:
        from scipy.fft import rfft

        for group in groups:
            frames = self._framing.frames(group)
            spectrum = rfft(frames * _window(), axis=1)
            self._total += (spectrum.real**2 + spectrum.imag**2).sum(axis=0, dtype=np.float64)
            self._count += len(frames)

    def bandwidth(self) -> int | None:
        """Return the bandwidth in Hz; None if all samples are zero."""
        self._add_groups(self._framing.end(NUM_FFT // 2))
        if not self._has_sound or self._rate < 100:
            return None
        power = np.maximum(self._total / self._count, _MIN_POWER)
        is_within = 10 * np.log10(power / power.max()) > _BANDWIDTH_DB
        return int(float(np.flatnonzero(is_within)[-1]) * (self._rate / NUM_FFT))


class SdpBandwidthMeter:
    """The bandwidth of mono samples as NeMo SDP defines it: that of the first 30 s, resampled to 44.1 kHz.

    SDP resamples with librosa, which cuts off the end of the audio more abruptly than `prepcli.audio.resample`. An
    abrupt end adds high frequencies, so this class resamples as librosa does.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._missing = SDP_SECONDS * rate
        self._parts: list[NDArray[np.float32]] = []

    def add(self, mono: NDArray[np.float32]) -> None:
        """Take the next samples."""
        if self._missing:
            self._parts.append(mono[: self._missing])
            self._missing -= len(self._parts[-1])

    def bandwidth(self) -> int | None:
        """Return the bandwidth in Hz; None if all samples are zero."""
        first = np.concatenate(self._parts)
        if self._rate != SDP_RATE:
            import soxr

            length = math.ceil(len(first) * SDP_RATE / self._rate)
            resampled: NDArray[np.float32] = soxr.resample(first, self._rate, SDP_RATE, quality="HQ")[:length]
            first = np.pad(resampled, (0, length - len(resampled)))
        meter = BandwidthMeter(SDP_RATE)
        meter.add(first)
        return meter.bandwidth()


@lru_cache(maxsize=1)
def _window() -> NDArray[np.float32]:
    from scipy.signal import get_window

    window: NDArray[np.float32] = get_window("blackmanharris", NUM_FFT).astype(np.float32)
    return window


class LoudnessMeter:
    """The integrated loudness (LUFS) of samples (n, channels) at `rate` Hz, as pyloudnorm 0.2 computes it.

    The standard is ITU-R BS.1770-4, and the filters are pyloudnorm's. For long audio, pyloudnorm's `Meter` would take
    twice the time and eight times the memory. Power is added up between edges, one every 0.1 s.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._num_samples = 0
        self._rest: NDArray[Any] | None = None  # the samples after the last edge
        self._edges = [0]
        self._sums: list[list[NDArray[np.float64]]] = []  # of each channel
        self._states: list[NDArray[np.float64]] = []

    def add(self, samples: NDArray[Any]) -> None:
        """Take the next samples."""
        if self._rest is None:
            channels = samples.shape[1]
            self._sums, self._rest = [[] for _ in range(channels)], samples[:0]
            self._states = [np.zeros((len(_k_weighting(self._rate)), 2)) for _ in range(channels)]
        self._num_samples += len(samples)
        if len(self._sums) > _MAX_LOUDNESS_CHANNELS:
            return
        self._rest = np.concatenate((self._rest, samples)) if len(self._rest) else samples
        edges = self._edges[-1:]
        while (edge := self._edge(len(self._edges) - 1 + len(edges))) <= self._num_samples:
            edges.append(edge)
        for first in range(0, len(edges) - 1, _EDGES_AT_ONCE):
            self._add_power(edges[first : first + _EDGES_AT_ONCE + 1])

    def _edge(self, number: int) -> int:
        return int(0.4 * (number * 0.25) * self._rate)

    def _add_power(self, edges: list[int]) -> None:
        """Add up the power of the K-weighted channels between edges, the first of which is the last one so far."""
        from scipy.signal import sosfilt

        assert self._rest is not None
        here, self._rest = np.split(self._rest, [edges[-1] - edges[0]])
        scale = 1.0 if here.dtype.kind == "f" else -1.0 / np.iinfo(here.dtype).min
        starts = np.subtract(edges[:-1], edges[0])
        for channel, sums in enumerate(self._sums):
            filtered, self._states[channel] = sosfilt(
                _k_weighting(self._rate), here[:, channel] * scale, zi=self._states[channel]
            )
            sums.append(np.add.reduceat(np.square(filtered, out=filtered), starts))
        self._edges += edges[1:]

    def loudness(self) -> float | None:
        """Return the loudness.

        Returns:
            None for less than 0.4 s, for audio below -70 LUFS such as silence, and for more than five channels.
        """
        if self._num_samples < 0.4 * self._rate or len(self._sums) > _MAX_LOUDNESS_CHANNELS:
            return None
        if self._edges[-1] < self._num_samples:
            self._add_power([self._edges[-1], self._num_samples])
        gains = (1.0, 1.0, 1.0, 1.41, 1.41)
        power = sum(gain * self._block_powers(sums) for gain, sums in zip(gains, self._sums, strict=False))
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

    def _block_powers(self, sums: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the power of a channel in blocks of 0.4 s every 0.1 s; the last block may end after the channel."""
        count = int(np.round((self._num_samples / self._rate - 0.4) / (0.4 * 0.25)) + 1)
        starts = np.arange(count)
        ends = np.minimum(starts + 4, len(self._edges) - 1)
        indices = np.stack((starts, ends), axis=1).reshape(-1)
        of_blocks: NDArray[np.float64] = np.add.reduceat(np.append(np.concatenate(sums), 0.0), indices)[::2]
        return of_blocks / (0.4 * self._rate)


@lru_cache(maxsize=16)
def _k_weighting(rate: int) -> NDArray[np.float64]:
    """The two filters of K-weighting as second-order sections."""
    from pyloudnorm.iirfilter import IIRfilter

    filters = (
        IIRfilter(4.0, 1 / np.sqrt(2), 1500.0, rate, "high_shelf"),
        IIRfilter(0.0, 0.5, 38.0, rate, "high_pass"),
    )
    return np.array([[*stage.b, *stage.a] for stage in filters])


class FrameMeter:
    """The power of all complete frames of mono samples (n,) at `rate` Hz; it keeps 16 bytes of a frame."""

    def __init__(self, rate: int) -> None:
        self._framing = Framing(round(0.025 * rate), max(1, round(0.01 * rate)), _FRAMES_AT_ONCE)
        self._power, self._mean = array("d"), array("d")

    def add(self, mono: NDArray[np.float32]) -> None:
        """Take the next samples."""
        self._add_groups(self._framing.add(mono))

    def _add_groups(self, groups: Iterable[NDArray[np.float32]]) -> None:
        for group in groups:
            frames = self._framing.frames(group.astype(np.float64))
            self._power.frombytes((np.einsum("ij,ij->i", frames, frames) / self._framing.size).tobytes())
            self._mean.frombytes(frames.mean(axis=1).tobytes())

    def frames(self) -> Frames:
        """Return the power of the frames."""
        self._add_groups(self._framing.end())
        power = _without_offset(np.frombuffer(self._power), np.frombuffer(self._mean))
        return Frames(power, self._framing.size, self._framing.hop)


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
