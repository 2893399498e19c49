"""Fingerprints of audio: 32 bits every 11.6 ms that survive lossy codecs and changes of sampling rate and loudness.

After Haitsma and Kalker, "A highly robust audio fingerprinting system", ISMIR 2002: frames of 0.41 s at 5 kHz, 33 bands
of equal ratio from 300 to 2,000 Hz. A bit is the sign of the change, from frame to frame, of the difference between the
energies of neighbouring bands.
"""

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
    energy = np.empty((len(frames), len(_BANDS) - 1), np.float32)
    for start in range(0, len(frames), _FRAMES_AT_ONCE):
        spectrum = np.fft.rfft(frames[start : start + _FRAMES_AT_ONCE] * _WINDOW)[:, : _BANDS[-1]]
        power = spectrum.real**2 + spectrum.imag**2
        energy[start : start + _FRAMES_AT_ONCE] = np.add.reduceat(power, _BANDS[:-1], axis=1)
    across = energy[:, :-1] - energy[:, 1:]
    words = np.packbits(across[1:] > across[:-1], axis=1).view(">u4").ravel().astype(np.uint32)
    words[energy.sum(axis=1)[1:] < _SILENCE] = 0
    return words
