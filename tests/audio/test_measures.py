"""Measures of audio against the reference functions: librosa with the parameters of Curator and SDP, pyloudnorm."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from prepcli.audio import measures
from prepcli.audio.channels import mono
from prepcli.audio.measures import silence, snr
from tests.conftest import MINI_CORPUS
from tests.support.lazy import lazy
from tests.support.measured import bandwidth, bandwidth_sdp, fed, frames_of, has_equal_channels, levels, loudness
from tests.support.tools import need_package

librosa = lazy("librosa")
pyloudnorm = lazy("pyloudnorm")


@pytest.fixture(autouse=True)
def packages() -> None:
    for name in ("librosa", "pyloudnorm", "scipy"):
        need_package(name)


def noise(rate: int, seconds: float, seed: int = 0, level: float = 0.1) -> NDArray[np.float32]:
    """Noise that fades in and out, and loses its high frequencies."""
    rng = np.random.default_rng(seed)
    samples = rng.standard_normal(round(rate * seconds))
    width = 1 + seed % 4
    smooth = np.convolve(samples, np.hanning(2 * width + 1)[1:-1] if width > 1 else [1.0], "same")
    fading = 0.02 + np.abs(np.sin(np.arange(len(smooth)) / rate * 3))
    return (level * smooth * fading).clip(-1, 1).astype(np.float32)


def in_16_bits(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    return np.rint(samples * 32767).astype(np.int16)


def recordings() -> Iterator[tuple[NDArray[np.float32], int]]:
    """Synthetic and other audio at many rates, long and short."""
    for seed, (rate, seconds) in enumerate(
        [(8000, 3.0), (16000, 1.234), (22050, 0.01), (24000, 7.7), (44100, 2.5), (48000, 0.451), (11025, 33.0)]
    ):
        yield noise(rate, seconds, seed), rate
    for path in sorted(MINI_CORPUS.glob("s0[12]/*.flac")):
        yield soundfile.read(path, dtype="float32")


def curator_bandwidth(audio: NDArray[np.float32], rate: int, hop: int | None = None) -> int:
    """NeMo Curator's formula, with librosa."""
    spectrum = librosa.stft(y=audio, n_fft=512, hop_length=hop or int(rate * 0.01), window="blackmanharris")
    in_db = librosa.power_to_db(np.mean(np.abs(spectrum) ** 2, axis=1), ref=512, top_db=100.0)
    return int(np.flatnonzero(in_db - np.max(in_db) > -50)[-1] * (rate / 512))


@pytest.mark.slow
def test_the_bandwidth_is_that_of_curator_and_sdp(tmp_path: Path) -> None:
    found = []
    for samples, rate in recordings():
        found.append(bandwidth(samples, rate))
        assert found[-1] == curator_bandwidth(samples, rate), (rate, len(samples))
        path = tmp_path / "audio.wav"
        soundfile.write(path, samples, rate, subtype="FLOAT")
        loaded, _ = librosa.load(path, sr=44100, duration=30.0)
        assert bandwidth_sdp(samples, rate) == curator_bandwidth(loaded, 44100, 441), (rate, len(samples))
    assert len(set(found)) > 8
    assert bandwidth(np.zeros(9000, np.float32), 16000) is None
    assert bandwidth(np.ones(9, np.float32), 50) is None


@pytest.mark.parametrize("channels", [1, 5])
def test_the_loudness_is_that_of_pyloudnorm(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "_EDGES_AT_ONCE", 3)
    for seed, (rate, seconds) in enumerate([(8000, 0.4), (16000, 0.451), (8000, 9.0), (44100, 1.7)]):
        samples = np.stack([noise(rate, seconds, seed + channel) for channel in range(channels)], axis=1)
        samples *= 10 ** -np.linspace(0, 1.5, len(samples), dtype=np.float32)[:, None]  # across the relative gate
        for stored in (samples, in_16_bits(samples), np.rint(samples * 2**31 * 0.99).astype(np.int32)):
            scale = 1.0 if stored.dtype.kind == "f" else -float(np.iinfo(stored.dtype).min)
            reference = pyloudnorm.Meter(rate).integrated_loudness(stored.astype(np.float64) / scale)
            assert loudness(stored, rate) == pytest.approx(reference, abs=1e-9)


def test_no_loudness_of_what_is_too_short_or_silent() -> None:
    assert loudness(np.ones((6399, 1), np.int16), 16000) is None
    assert loudness(np.zeros((16000, 1), np.int16), 16000) is None
    assert loudness(np.ones((16000, 1), np.float32) * 1e-6, 16000) is None
    assert loudness(np.ones((16000, 6), np.int16), 16000) is None


def reference_snr(audio: NDArray[np.float32], rate: int) -> float | None:
    """The documented formula, frame by frame."""
    size, hop = round(rate * 0.025), round(rate * 0.01)
    doubles = audio.astype(np.float64)
    power = [float(np.mean(doubles[at : at + size] ** 2)) for at in range(0, len(audio) - size + 1, hop)]
    positive = sorted(one for one in power if one > 0)
    if len(audio) / rate < 0.5 or len(positive) < 5:
        return None
    quiet = np.mean(positive[: max(5, len(positive) // 10)])
    loud = [one for one in power if one > 4 * quiet]
    if not loud:
        return None
    return float(np.clip(10 * np.log10(max(np.mean(loud) - quiet, 1e-12) / quiet), -20, 100))


def test_the_ratio_of_speech_to_noise() -> None:
    found = [(snr(frames_of(x, rate), len(x) / rate), reference_snr(x, rate)) for x, rate in recordings()]
    assert all(ours == (None if theirs is None else pytest.approx(theirs, abs=1e-9)) for ours, theirs in found)
    assert found.count((None, None)) == 2  # those below 0.5 s
    rate = 16000
    pure = np.concatenate([np.zeros(rate), np.sin(np.arange(rate))]).astype(np.float32)
    steady = np.ones(2 * rate, np.float32)
    assert snr(frames_of(steady, rate), 2) is None
    tone_in_noise = 0.2 * pure + 0.001 * np.random.default_rng(0).standard_normal(2 * rate).astype(np.float32)
    expected = 10 * np.log10(np.mean((0.2 * np.sin(np.arange(rate))) ** 2) / 1e-6)
    assert snr(frames_of(tone_in_noise.astype(np.float32), rate), 2) == pytest.approx(expected, abs=0.7)
    assert snr(frames_of(pure, rate), 2) is None  # exact zeros do not count as noise


def test_an_offset_is_neither_noise_nor_sound() -> None:
    rate = 16000
    for samples in (noise(rate, 3.0, 1), np.concatenate([1e-2 * noise(rate, 1.0, 2), noise(rate, 1.0, 3)])):
        plain = frames_of(samples, rate)
        expected = snr(plain, len(samples) / rate), silence(plain, len(samples), rate)
        for offset in (0.05, -0.3):
            moved = (samples + np.float32(offset)).astype(np.float32)
            padded = np.concatenate([np.zeros(rate, np.float32), moved])
            found = frames_of(moved, rate)
            assert snr(found, len(moved) / rate) == pytest.approx(expected[0], abs=0.1)
            assert silence(found, len(moved), rate) == pytest.approx(expected[1], abs=0.01)
            assert snr(frames_of(padded, rate), len(padded) / rate) == pytest.approx(expected[0], abs=0.5)
    assert silence(frames_of(np.full(rate, 0.2, np.float32), rate), rate, rate) == (1.0, None, None)


@pytest.mark.slow
def test_silence_at_the_edges() -> None:
    rate = 16000
    loud = noise(rate, 2.0, 3, level=0.5) + 0.1
    audio = np.concatenate([np.zeros(8000), loud, 1e-6 * loud[:12000]]).astype(np.float32)
    found = silence(frames_of(audio, rate), len(audio), rate)
    assert found is not None
    assert found.start == pytest.approx(0.5, abs=0.025)
    assert found.end == pytest.approx(0.75, abs=0.025)
    assert found.share == pytest.approx(1.25 / 3.25, abs=0.02)
    _, (first, last) = librosa.effects.trim(audio, top_db=60, frame_length=400, hop_length=160)
    assert found.start == pytest.approx(first / rate, abs=0.05)
    assert found.end == pytest.approx((len(audio) - last) / rate, abs=0.05)
    assert silence(frames_of(np.zeros(rate, np.float32), rate), rate, rate) == (1.0, None, None)
    assert silence(frames_of(audio[:399], rate), 399, rate) is None
    assert silence(frames_of(audio[8000:8400], rate), 400, rate) == (0.0, 0.0, 0.0)


def test_levels_and_clipping() -> None:
    samples = np.zeros((1000, 2), np.int16)
    samples[10:12, 0] = 32767  # two in a row do not count
    samples[20:23, 0] = 32767
    samples[30:34, 1] = (-32768, 32767, 32740, -32735)
    samples[996:, 1] = 32767
    found = levels(samples, "PCM_16")
    assert found.clipped == (3 + 4 + 4) / 2000
    assert found.peak_db == 0.0
    assert found.dc == pytest.approx(samples.mean() / 32768, abs=1e-15)
    full = samples.astype(np.float32) / 32768
    assert levels(full, "FLOAT").clipped == (3 + 3 + 4) / 2000  # 32735 is below 0.999
    loud = np.full((100, 1), 32124, np.int16)
    assert [levels(loud, subtype).clipped for subtype in ("ULAW", "PCM_16")] == [1.0, 0.0]
    assert levels(np.full((5, 1), -16384, np.int16), "PCM_16").peak_db == pytest.approx(-6.0206, abs=1e-4)
    assert levels(np.zeros((5, 1), np.int32), "PCM_24") == (None, 0.0, 0.0)
    assert levels(np.full((5, 1), 0x7FFFFF00, np.int32), "PCM_24").clipped == 1.0


def test_equal_channels() -> None:
    one: NDArray[Any] = np.arange(10, dtype=np.int16)[:, None]
    assert has_equal_channels(one) is None
    assert has_equal_channels(np.repeat(one, 3, axis=1)) is True
    assert has_equal_channels(np.hstack([one, one, one + 1])) is False


def all_measures(samples: NDArray[Any], rate: int, subtype: str, size: int) -> tuple[Any, ...]:
    """The results of all meters, which get blocks of `size` samples."""
    of_mono = mono(samples)
    return (
        fed(measures.LevelMeter(subtype), samples, size).levels(),
        fed(measures.LoudnessMeter(rate), samples, size).loudness(),
        fed(measures.ChannelMeter(), samples, size).equal,
        fed(measures.BandwidthMeter(rate), of_mono, size).bandwidth(),
        fed(measures.SdpBandwidthMeter(rate), of_mono, size).bandwidth(),
        fed(measures.FrameMeter(rate), of_mono, size).frames().power.tobytes(),
    )


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("dtype", "rate"), [("int16", 8000), ("int32", 96000), ("float32", 22050)])
def test_blocks_do_not_change_the_measures(channels: int, dtype: str, rate: int) -> None:
    """To the last bit, except that sums of floating-point samples are rounded elsewhere."""
    signal = np.stack([noise(rate, 3.3, seed, level=2.5) for seed in range(channels)], axis=1)
    signal[rate : 2 * rate, 0] = 0.9995  # a run over many blocks
    signal[-2:] = 1
    full = 1 if dtype == "float32" else np.iinfo(dtype).max
    samples = (signal.astype(np.float64) * full).astype(dtype)
    subtype = {"int16": "PCM_16", "int32": "PCM_24", "float32": "FLOAT"}[dtype]
    levels, *others = all_measures(samples, rate, subtype, len(samples))
    assert levels.clipped > 0.3 / channels
    for size in (10_007, rate, rate // 10, 997):
        in_blocks, *others_in_blocks = all_measures(samples, rate, subtype, size)
        assert others_in_blocks == others
        assert (in_blocks.peak_db, in_blocks.clipped) == (levels.peak_db, levels.clipped)
        assert in_blocks.dc == (levels.dc if dtype == "int16" else pytest.approx(levels.dc, abs=1e-12))
    silent = np.zeros((9000, channels), dtype)
    assert all_measures(silent, rate, subtype, 997) == all_measures(silent, rate, subtype, 9000)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_runs_of_clipped_samples_over_the_edges_of_blocks(size: int) -> None:
    rng = np.random.default_rng(size)
    for _ in range(30):
        loud = rng.random((40, 2)) < 0.6
        samples = np.where(loud, np.int16(32767), np.int16(5))
        runs = [run for channel in loud.T for run in "".join("01"[int(one)] for one in channel).split("0")]
        expected = sum(len(run) for run in runs if len(run) >= 3) / samples.size
        assert fed(measures.LevelMeter("PCM_16"), samples, size).levels().clipped == expected
