"""The mel-spectrogram against the original's formula, computed here from its definition.

That is: a discrete Fourier transform as a convolution with its basis, Hann's window, reflected ends, librosa's mel
filters, and the natural logarithm above a floor. In double precision, so that only our own rounding is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from prepcli.commands.exports.mels.spectrogram import FLOOR, MelForm, MelSpectrogram, mel_filters
from tests.support.lazy import lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

pytestmark = pytest.mark.usefixtures("one_thread")
NEAR_FLOOR = 6.0
"""Above the floor by this (a factor of 400), rounding in float32 is below 1e-4; nearer to it below 1e-2."""


def original(samples: NDArray[np.float32], form: MelForm) -> NDArray[np.float64]:
    librosa = pytest.importorskip("librosa")
    length, hop, half = form.filter_length, form.hop_length, form.filter_length // 2
    basis = np.fft.fft(np.eye(length))[: half + 1]
    window = np.zeros(length)
    before = (length - form.win_length) // 2
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(form.win_length) / form.win_length)
    window[before : before + form.win_length] = hann
    kernels = torch.from_numpy(np.concatenate([basis.real, basis.imag]) * window)[:, None, :]
    padded = torch.nn.functional.pad(torch.from_numpy(samples.astype(np.float64))[None, None], (half, half), "reflect")
    both = torch.nn.functional.conv1d(padded, kernels, stride=hop)[0]
    magnitudes = torch.sqrt(both[: half + 1] ** 2 + both[half + 1 :] ** 2).numpy()
    filters = librosa.filters.mel(
        sr=form.sampling_rate,
        n_fft=length,
        n_mels=form.n_mel_channels,
        fmin=form.mel_fmin,
        fmax=form.mel_fmax,
    )
    found: NDArray[np.float64] = np.log(np.maximum(filters.astype(np.float64) @ magnitudes, FLOOR))
    return found


def check(samples: NDArray[np.float32], form: MelForm) -> None:
    mel = MelSpectrogram(form)(torch.from_numpy(samples))
    expected = original(samples, form)
    assert mel.dtype == torch.float32
    assert list(mel.shape) == [form.n_mel_channels, 1 + len(samples) // form.hop_length]
    assert list(expected.shape) == list(mel.shape)
    difference = np.abs(mel.numpy() - expected)
    is_far = expected > np.log(FLOOR) + NEAR_FLOOR
    assert difference.max() < 1e-2
    assert difference[is_far].max(initial=0) < 1e-4


def voice(seconds: float, rate: int, seed: int = 0) -> NDArray[np.float32]:
    """Harmonics with an envelope, noise, and silence at the end: of all levels down to the floor."""
    time = np.arange(int(seconds * rate)) / rate
    harmonics = np.sum([np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 30)], axis=0)
    noise = np.random.default_rng(seed).normal(0, 0.01, len(time))
    samples = (0.1 * harmonics + noise) * np.clip(np.sin(2 * np.pi * 1.5 * time), 0, 1)
    found: NDArray[np.float32] = (samples * (time < 0.8 * seconds)).astype(np.float32)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "form",
    [
        MelForm(),
        MelForm(sampling_rate=16000, mel_fmax=8000.0),
        MelForm(win_length=800, hop_length=200, mel_fmin=70.0, mel_fmax=7600.0, n_mel_channels=64),
        MelForm(sampling_rate=44100, filter_length=2048, win_length=2048, hop_length=512, n_mel_channels=128),
    ],
)
def test_a_voice(form: MelForm) -> None:
    check(voice(2.0, form.sampling_rate), form)


@pytest.mark.parametrize("num_samples", [513, 768, 1024, 5000, 22050])
def test_lengths_and_noise(num_samples: int) -> None:
    check(np.random.default_rng(num_samples).normal(0, 0.1, num_samples).astype(np.float32), MelForm())


def test_clips_of_several_blocks() -> None:
    check(voice(15.0, 22050, seed=1), MelForm())


def test_a_pure_tone_and_silence() -> None:
    time = np.arange(22050) / 22050
    check((0.9 * np.sin(2 * np.pi * 440 * time)).astype(np.float32), MelForm())
    mel = MelSpectrogram(MelForm())(torch.zeros(2000))
    assert torch.allclose(mel, torch.full_like(mel, float(np.log(FLOOR))))


@pytest.mark.parametrize(
    "form",
    [
        MelForm(),
        MelForm(mel_fmin=125.0, mel_fmax=7600.0),
        MelForm(sampling_rate=8000, filter_length=512, win_length=512, mel_fmax=900.0, n_mel_channels=20),
        MelForm(sampling_rate=48000, mel_fmax=24000.0, n_mel_channels=100),
    ],
)
def test_filters_are_librosas(form: MelForm) -> None:
    librosa = pytest.importorskip("librosa")
    expected = librosa.filters.mel(
        sr=form.sampling_rate,
        n_fft=form.filter_length,
        n_mels=form.n_mel_channels,
        fmin=form.mel_fmin,
        fmax=form.mel_fmax,
    )
    assert np.allclose(mel_filters(form), expected, rtol=1e-5, atol=1e-8)


def test_a_batch_of_clips_has_the_mels_of_each() -> None:
    """Noise behind the ends of clips, which GPUs get in one batch, does not count."""
    form = MelForm()
    spectrogram = MelSpectrogram(form)
    clips = [torch.from_numpy(voice(seconds, 22050, seed)) for seed, seconds in enumerate((2.0, 0.1, 1.3, 13.0))]
    lengths = torch.tensor([len(clip) for clip in clips])
    batch = torch.randn(4, int(lengths.max()) + 700, generator=torch.Generator().manual_seed(1))
    for row, clip in zip(batch, clips, strict=True):
        row[: len(clip)] = clip
    mels = spectrogram.of_batch(batch, lengths)
    assert mels.shape == (4, 80, 1 + batch.shape[1] // 256)
    for mel, clip in zip(mels, clips, strict=True):
        alone = spectrogram(clip)
        torch.testing.assert_close(mel[:, : alone.shape[1]], alone, rtol=0, atol=1e-5)
