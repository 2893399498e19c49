"""Fingerprints: silence, lengths, and the bits that stay when audio is changed."""

from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from prepcli.audio import fingerprint as fingerprints
from prepcli.audio.fingerprint import FRAME, HOP, SAMPLING_RATE, WORDS_PER_SECOND, Words, fingerprint
from prepcli.audio.resample import resample
from tests.conftest import MINI_CORPUS, read_lines


@pytest.fixture(scope="module")
def speech() -> tuple[NDArray[np.int16], int]:
    longest = max(read_lines(MINI_CORPUS / "manifest.json"), key=lambda record: float(record["duration"]))
    samples, rate = soundfile.read(MINI_CORPUS / longest["audio_filepath"], dtype="int16", always_2d=True)
    return samples, rate


def bit_error(one: Words, other: Words) -> float:
    length = min(len(one), len(other))
    return float(np.unpackbits((one[:length] ^ other[:length]).view(np.uint8)).mean())


def whole(samples: NDArray[Any]) -> NDArray[np.int16]:
    rounded: NDArray[np.int16] = np.rint(samples).clip(-32768, 32767).astype(np.int16)
    return rounded


def test_changed_audio_keeps_its_bits(speech: tuple[NDArray[np.int16], int]) -> None:
    samples, rate = speech
    words = fingerprint(samples, rate)
    assert len(words) == (-(-len(samples) * SAMPLING_RATE // rate) - FRAME) // HOP
    assert len(words) / (len(samples) / rate - FRAME / SAMPLING_RATE) == pytest.approx(WORDS_PER_SECOND, rel=0.01)
    assert np.array_equal(words, fingerprint(samples.copy(), rate))
    assert bit_error(words, fingerprint(whole(samples * 0.5), rate)) < 0.01
    assert bit_error(words, fingerprint(np.hstack([samples, samples]), rate)) < 0.001
    assert bit_error(words, fingerprint(resample(samples, rate, 11025), 11025)) < 0.02
    later = int(0.5 * rate)  # 43.1 words
    assert bit_error(words[43:], fingerprint(samples[later:], rate)) < 0.05
    assert bit_error(words, fingerprint(samples[::-1], rate)) > 0.35


@pytest.mark.parametrize("rate", [5000, 16000])
def test_silence_has_words_of_zero(rate: int) -> None:
    silence = np.zeros((3 * rate, 1), np.int16)
    assert not fingerprint(silence, rate).any()
    dither = np.random.default_rng(0).integers(-1, 2, (3 * rate, 1)).astype(np.int16)
    assert not fingerprint(dither, rate).any()
    heard = fingerprint(np.concatenate([silence, dither * 900, silence]), rate)
    assert (heard != 0).sum() == pytest.approx((3 + FRAME / SAMPLING_RATE) * WORDS_PER_SECOND, abs=10)


@pytest.mark.parametrize(("length", "words"), [(0, 0), (1, 0), (FRAME + HOP - 1, 0), (FRAME + HOP, 1)])
def test_short_audio(length: int, words: int) -> None:
    noise = np.random.default_rng(0).integers(-9000, 9000, (length, 1)).astype(np.int16)
    assert len(fingerprint(noise, SAMPLING_RATE)) == words


def test_the_fourier_transform_does_not_change_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """SciPy rounds differently: the sounds here have hundreds of words that would change."""
    transforms = [np.fft.rfft, lambda frames: np.fft.rfft(frames.astype(np.float64))]
    transforms.append(pytest.importorskip("scipy.fft").rfft)
    seconds = np.arange(10 * SAMPLING_RATE) / SAMPLING_RATE
    sweeps = np.cumsum(200 + 600 * (seconds % 3)) / SAMPLING_RATE
    waves = (8000 * np.sin(2 * np.pi * turns) for turns in (440 * seconds, sweeps, 2**0.5 * sweeps))
    for wave in [*waves, 9000 + np.random.default_rng(0).standard_normal(len(seconds)) * 30]:
        words = []
        for transform in transforms:
            monkeypatch.setattr(fingerprints, "_fast_transform", lambda transform=transform: transform)
            words.append(fingerprint(whole(wave)[:, None], SAMPLING_RATE))
        assert np.array_equal(words[0], words[1])
        assert np.array_equal(words[0], words[2])
