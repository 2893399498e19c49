"""Fingerprints of audio: 32 bits every 11.6 ms that survive lossy codecs and changes of sampling rate and loudness.

After Haitsma and Kalker, "A highly robust audio fingerprinting system", ISMIR 2002: frames of 0.41 s at 5 kHz, 33 bands
of equal ratio from 300 to 2,000 Hz. A bit is the sign of the change, from frame to frame, of the difference between the
energies of neighbouring bands.

SciPy's Fourier transform is 2.6 times as fast as NumPy's and rounds differently, as NumPy 1 and 2 do. So bits that
rounding could change are computed again in float64: a fingerprint does not depend on what is installed.
"""

import contextlib
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.resample import resample

Words = NDArray[np.uint32]

SAMPLING_RATE = 5000
FRAME = 2048
"""Number of samples in a frame."""
HOP = 58
"""Number of samples from the start of a frame to the start of the next one."""
WORDS_PER_SECOND = SAMPLING_RATE / HOP
_LOWEST, _HIGHEST, _NUM_BANDS = 300, 2000, 33
_BANDS = np.rint(np.geomspace(_LOWEST, _HIGHEST, _NUM_BANDS + 1) * (FRAME / SAMPLING_RATE)).astype(np.int64)
"""The first bin of the spectrum in each band; at the end, the first bin after the last band."""
_WINDOW = np.hanning(FRAME + 1)[:-1].astype(np.float32)
_SILENCE = 10**-7.5 * 0.1875 * FRAME**2
"""The energy of noise at -75 dB of full scale; a frame with less is silent. 0.1875 is half the energy of the window."""
PARAMETERS = {
    "sampling_rate": SAMPLING_RATE,
    "frame": FRAME,
    "hop": HOP,
    "bands": _NUM_BANDS,
    "lowest_hz": _LOWEST,
    "highest_hz": _HIGHEST,
    "silence_db": -75,
}
"""The parameters that must be equal for two fingerprints to be comparable."""
_FRAMES_AT_ONCE = 64
_ROUNDING = 4e-6
"""Changes smaller than this share of the geometric mean of the energies of a band and of its frame may be rounding."""


def fingerprint(samples: NDArray[np.int16], sampling_rate: int) -> Words:
    """Return the fingerprint of samples (n, channels) at `sampling_rate` Hz: a vector of 32-bit numbers.

    It is computed from the mean of all channels. There is one number for each frame but the first, so the vector is
    empty for audio shorter than 0.43 s. The number of a silent frame is 0.
    """
    mono = samples[:, 0].astype(np.float32) if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float32)
    mono *= np.float32(1 / 32768)
    mono = resample(mono, sampling_rate, SAMPLING_RATE)
    if len(mono) < FRAME + HOP:
        return np.empty(0, np.uint32)
    frames = np.lib.stride_tricks.sliding_window_view(mono, FRAME)[::HOP]
    energy, around = _energies(frames, _fast_transform())
    change = np.diff(energy[:, :-1] - energy[:, 1:], axis=0)
    bits, is_silent = change > 0, energy.sum(axis=1)[1:] < _SILENCE
    band = np.maximum(energy[1:], energy[:-1])
    around = np.maximum(around[1:], around[:-1])
    limit = _ROUNDING * np.sqrt(np.maximum(band[:, :-1], band[:, 1:]) * around[:, None])
    unsure = np.flatnonzero((np.abs(change) <= limit).any(axis=1) & ~is_silent)
    for start in range(0, len(unsure), _FRAMES_AT_ONCE):
        some = unsure[start : start + _FRAMES_AT_ONCE]
        before, after = (_energies(frames[some + step].astype(np.float64), np.fft.rfft)[0] for step in (0, 1))
        bits[some] = np.diff(after) < np.diff(before)
    words = np.packbits(bits, axis=1).view(">u4").ravel().astype(np.uint32)
    words[is_silent] = 0
    return words


def _energies(
    frames: NDArray[Any], transform: Callable[[NDArray[Any]], NDArray[Any]]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The energy of each frame in each band, and the energy of each frame in the whole spectrum."""
    energy = np.empty((len(frames), len(_BANDS) - 1), frames.dtype)
    whole = np.empty(len(frames), frames.dtype)
    for start in range(0, len(frames), _FRAMES_AT_ONCE):
        some = slice(start, start + _FRAMES_AT_ONCE)
        windowed = frames[some] * _WINDOW
        spectrum = transform(windowed)[:, : _BANDS[-1]]
        power = spectrum.real**2 + spectrum.imag**2
        energy[some] = np.add.reduceat(power, _BANDS[:-1], axis=1)
        whole[some] = np.einsum("ij,ij->i", windowed, windowed) * (FRAME / 2)
    return energy, whole


@cache
def _fast_transform() -> Callable[[NDArray[Any]], NDArray[Any]]:
    """SciPy's transform of real rows, or NumPy's if SciPy is not installed."""
    with contextlib.suppress(ImportError):
        import scipy.fft

        return partial(scipy.fft.rfft, overwrite_x=False)
    return np.fft.rfft
