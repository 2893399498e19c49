"""The mel-spectrogram of Tacotron 2: log of the mel bands of the magnitudes of a short-time Fourier transform.

The original convolves with a Fourier basis. This module computes the same with a fast Fourier transform, and multiplies
each group of mel bands only with the frequencies in its range. Measured on one core for 6 s at 22050 Hz: 1.4 ms; the
original's formula takes 14 ms, `torch.stft` with one matrix product 3.4 ms (torch's magnitude of complex numbers alone
takes 1.5 ms, NumPy's 0.13 ms).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prepcli.models.nemo_codec import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

FLOOR = 1e-5
"""Smaller magnitudes are raised to this value before the logarithm."""
_BLOCK_FRAMES = 1024
_BANDS_TOGETHER = 16
# Slaney's scale (Auditory Toolbox, 1998): linear below 1000 Hz with 200/3 Hz per mel, then 27 mels per factor of 6.4.
_HERTZ_PER_MEL = 200.0 / 3
_KNEE_HERTZ = 1000.0
_KNEE_MEL = _KNEE_HERTZ / _HERTZ_PER_MEL
_LOG_STEP = np.log(6.4) / 27.0


@dataclass(frozen=True)
class MelForm:
    """The form of mels: rates and frequencies in Hz, lengths in samples; the defaults are those of Tacotron 2."""

    sampling_rate: int = 22050
    filter_length: int = 1024
    hop_length: int = 256
    win_length: int = 1024
    mel_fmin: float = 0.0
    mel_fmax: float = 8000.0
    n_mel_channels: int = 80

    @property
    def min_samples(self) -> int:
        """The minimum number of samples of a clip.

        Each end of a clip is extended by `filter_length // 2` mirrored samples. This needs a clip of at least one
        sample more, because the samples at the ends are not mirrored.
        """
        return self.filter_length // 2 + 1


def mel_filters(form: MelForm) -> "NDArray[np.float32]":
    """The weight of each frequency in each mel band: triangles of equal area on Slaney's scale.

    Returns:
        Weights of shape (bands, filter_length // 2 + 1).
    """
    bins = np.fft.rfftfreq(form.filter_length, 1 / form.sampling_rate)
    low, high = _mel(form.mel_fmin), _mel(form.mel_fmax)
    edges = _hertz(np.linspace(low, high, form.n_mel_channels + 2))
    widths = np.diff(edges)
    ramps = edges[:, None] - bins
    rising = -ramps[:-2] / widths[:-1, None]
    falling = ramps[2:] / widths[1:, None]
    triangles = np.maximum(0, np.minimum(rising, falling))
    weights: NDArray[np.float32] = (triangles * (2 / (edges[2:] - edges[:-2]))[:, None]).astype(np.float32)
    return weights


def _mel(hertz: float) -> float:
    if hertz < _KNEE_HERTZ:
        return hertz / _HERTZ_PER_MEL
    return float(_KNEE_MEL + np.log(hertz / _KNEE_HERTZ) / _LOG_STEP)


def _hertz(mels: "NDArray[np.float64]") -> "NDArray[np.float64]":
    above = _KNEE_HERTZ * np.exp(_LOG_STEP * (np.maximum(mels, _KNEE_MEL) - _KNEE_MEL))
    return np.where(mels < _KNEE_MEL, mels * _HERTZ_PER_MEL, above)


class MelSpectrogram:
    """Computes mel-spectrograms, on the CPU or on the device given to `to`."""

    rows_on_cpu: int | None = None

    def __init__(self, form: MelForm) -> None:
        import torch

        self._form = form
        window = torch.hann_window(form.win_length)
        before = (form.filter_length - form.win_length) // 2
        after = form.filter_length - form.win_length - before
        self._window = torch.nn.functional.pad(window, (before, after))
        filters = torch.from_numpy(mel_filters(form))
        self._bands: list[tuple[int, int, Tensor]] = []
        for band in range(0, form.n_mel_channels, _BANDS_TOGETHER):
            rows = filters[band : band + _BANDS_TOGETHER]
            used = torch.nonzero(rows.sum(0)).flatten().tolist() or [0]
            self._bands.append((used[0], used[-1] + 1, rows[:, used[0] : used[-1] + 1].contiguous()))
        self._num_bins = max(stop for _, stop, _ in self._bands)

    def to(self, device: str) -> None:
        """Compute on this device from now on."""
        self._window = self._window.to(device)
        self._bands = [(start, stop, weights.to(device)) for start, stop, weights in self._bands]

    def __call__(self, samples: "Tensor") -> "Tensor":
        """Return the mel-spectrogram of a clip.

        Args:
            samples: shape (n,), float32 in [-1, 1], on the device; n > filter_length / 2.

        Returns:
            Shape (bands, 1 + n // hop_length).
        """
        return self.of_batch(samples[None], None)[0]

    def of_batch(self, samples: "Tensor", lengths: "Tensor | None") -> "Tensor":
        """Return the mel-spectrograms of several clips at once; a single clip leaves most of a GPU idle.

        Args:
            samples: shape (B, T), as in `__call__`.
            lengths: shape (B,), the samples of each clip, on the device; None: all are as long as the batch.

        Returns:
            Shape (B, bands, 1 + T // hop_length); frames after the end of a clip are meaningless.
        """
        import torch

        length, hop = self._form.filter_length, self._form.hop_length
        padded = Rows(lengths).pad(samples[:, None], length // 2, length // 2, "reflect")[:, 0]
        frames = padded.unfold(1, length, hop)
        mel = torch.empty((len(frames), self._form.n_mel_channels, frames.shape[1]), device=samples.device)
        for first in range(0, frames.shape[1], _BLOCK_FRAMES):
            block = slice(first, first + _BLOCK_FRAMES)
            spectrum = torch.fft.rfft(frames[:, block] * self._window)[:, :, : self._num_bins]
            magnitudes = _magnitudes(spectrum).transpose(1, 2)
            row = 0
            for start, stop, weights in self._bands:
                mel[:, row : row + len(weights), block] = torch.bmm(
                    weights.expand(len(mel), -1, -1), magnitudes[:, start:stop]
                )
                row += len(weights)
        return mel.clamp_(min=FLOOR).log_()


def _magnitudes(spectrum: "Tensor") -> "Tensor":
    import torch

    if spectrum.device.type == "cpu":
        return torch.from_numpy(np.abs(spectrum.numpy()))  # faster here: NumPy uses the processor's vector instructions
    return spectrum.abs()
