"""Resampling: exact lengths, kept types, a clean pass band, nothing aliased, nothing wrapped, no noise added."""

import math
import random

import numpy as np
import pytest

from prepcli.audio import resample as resample_module
from prepcli.audio.resample import resample, resampled_blocks
from tests.audio.conftest import Samples

RATES = [(44100, 22050), (48000, 16000), (44100, 16000), (8000, 16000), (16000, 44100), (11025, 48000), (22050, 8000)]


@pytest.mark.parametrize(("old", "new"), RATES)
def test_lengths_types_and_channels(old: int, new: int) -> None:
    rng = random.Random(old)
    for length in [1, 2, 3, 5, 100, old] + [rng.randrange(1, 50000) for _ in range(10)]:
        expected = math.ceil(length * new / old)
        for dtype in (np.int16, np.int32, np.float32):
            out = resample(np.ones((length, 2), dtype), old, new)
            assert out.shape == (expected, 2)
            assert out.dtype == dtype
    assert resample(np.ones(7, np.int16), old, new).shape == (math.ceil(7 * new / old),)
    assert resample(np.ones((0, 2), np.int16), old, new).shape == (0, 2)


def tone(frequency: float, rate: int, amplitude: float, phase: float = 0.0) -> Samples:
    return amplitude * np.sin(2 * np.pi * frequency * np.arange(2 * rate) / rate + phase)


@pytest.mark.parametrize(("old", "new"), RATES)
def test_tones_pass_in_place_and_aliases_do_not(old: int, new: int) -> None:
    nyquist = min(old, new) / 2
    middle = slice(new // 2, -new // 2)
    for share in (0.01, 0.3, 0.6, 0.85):
        got = resample(tone(share * nyquist, old, 0.5).astype(np.float32), old, new)
        assert np.abs(got - tone(share * nyquist, new, 0.5))[middle].max() < 0.5e-3
    if new < old:
        for share in (1.1, 1.3, 0.98 * old / new):
            got = resample(tone(share * nyquist, old, 0.5).astype(np.float32), old, new)
            assert np.abs(got)[middle].max() < 1e-5  # -100 dB


@pytest.mark.parametrize(("old", "new"), RATES)
def test_integers_are_rounded_only(old: int, new: int) -> None:
    signal = tone(440, old, 0.3) + tone(1234, old, 0.2, 1.0)
    for dtype, full in ((np.int16, 2**15), (np.int32, 2**31)):
        whole = np.rint(signal * full).astype(dtype)
        got = resample(whole, old, new) / full
        fine = resample((whole / full).astype(np.float32), old, new)
        # No dither: half a step of int16, and what float32 can't hold.
        assert np.abs(got - fine).max() <= 0.5 / 2**15 + 1e-6 if dtype == np.int16 else 1e-6
    assert np.array_equal(resample(whole, old, new), resample(whole, old, new))


def test_int32_keeps_24_bits() -> None:
    signal = np.rint(tone(440, 44100, 0.5) * 2**31).astype(np.int32)
    expected = tone(440, 16000, 0.5)
    got = resample(signal, 44100, 16000) / 2**31
    middle = slice(4000, -4000)
    error = np.abs(got - expected)[middle].max()
    assert error < 2**-20


@pytest.mark.parametrize("dtype", [np.int16, np.int32])
def test_overshoot_is_clipped_and_does_not_wrap(dtype: type) -> None:
    limits = np.iinfo(dtype)
    square: Samples = np.where(np.arange(48000) // 100 % 2, limits.max, limits.min).astype(dtype)
    out = resample(square, 48000, 16000)
    assert out.max() == limits.max
    assert out.min() == limits.min
    # A wrapped sample would stand out among neighbours of the other sign.
    inside = np.arange(len(out)) * 3 % 100
    level = np.where(np.arange(len(out)) * 3 // 100 % 2, 1, -1)
    steady = (inside > 30) & (inside < 70)
    assert (np.sign(out[steady].astype(np.int64)) == level[steady]).all()


def test_channels_do_not_mix() -> None:
    left, right = tone(300, 44100, 0.5).astype(np.float32), tone(700, 44100, 0.5).astype(np.float32)
    both = resample(np.stack([left, right], axis=1), 44100, 16000)
    assert np.array_equal(both[:, 0], resample(left, 44100, 16000))
    assert np.array_equal(both[:, 1], resample(right, 44100, 16000))


def test_same_rate_is_a_copy() -> None:
    samples = np.arange(10, dtype=np.int16)
    same = resample(samples, 16000, 16000)
    assert np.array_equal(same, samples)
    assert same is not samples


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="float64"):
        resample(np.zeros(5), 16000, 8000)
    with pytest.raises(ValueError, match="above 0"):
        resample(np.zeros(5, np.int16), 16000, 0)


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), RATES)
@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.float32])
def test_pieces_do_not_change_the_result(
    old: int, new: int, dtype: type[np.generic], monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = (np.random.default_rng(old).standard_normal((7001, 2)) * (0.3 if dtype == np.float32 else 9000)).astype(
        dtype
    )
    whole = resample(samples, old, new)
    for size in (7000, 1234, 7):
        monkeypatch.setattr(resample_module, "_PIECE", size)
        assert np.array_equal(resample(samples, old, new), whole)
        blocks = (samples[start : start + size] for start in range(0, len(samples), size))
        parts = list(resampled_blocks(blocks, old, new))
        assert np.array_equal(np.concatenate(parts), whole)
        assert {part.dtype for part in parts} == {whole.dtype}
