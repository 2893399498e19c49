"""Segments: which samples a manifest's seconds mean, and that exactly those come back."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.encode import encode
from prepcli.audio.probe import AudioInfo, probe_bytes, probe_file
from prepcli.audio.read import read_segment, segment_samples, select_channel
from prepcli.errors import RecordRejected, RejectReason
from tests.audio.conftest import Samples

LOSSLESS = [
    ("WAV", "PCM_16", "int16"),
    ("WAV", "PCM_U8", "int16"),
    ("WAV", "ULAW", "int16"),
    ("WAV", "IMA_ADPCM", "int16"),
    ("WAV", "PCM_24", "int32"),
    ("WAV", "PCM_32", "int32"),
    ("WAV", "FLOAT", "float32"),
    ("WAV", "DOUBLE", "float32"),
    ("RF64", "PCM_16", "int16"),
    ("FLAC", "PCM_16", "int16"),
    ("FLAC", "PCM_24", "int32"),
    ("NIST", "ULAW", "int16"),
    ("NIST", "PCM_16", "int16"),
    ("AIFF", "PCM_24", "int32"),
    ("CAF", "ALAC_24", "int32"),
]


def check_segments(path: Path, info: AudioInfo, whole: Samples, tolerance: float, count: int = 15) -> None:
    """Compare random segments, by path and by bytes, with the same part of a full decode."""
    data = path.read_bytes()
    rng = random.Random(0)
    total = info.num_samples
    pairs = [(0, 1), (total - 1, 1), (0, total), (total // 2, 0), (4095, 2)]
    pairs += [(start := rng.randrange(total), rng.randint(1, total - start)) for _ in range(count)]
    for start, length in pairs:
        expected = whole[start : start + length]
        for source in (path, str(path), data):
            got = read_segment(source, info, start, length, name="x")
            assert got.shape == expected.shape == (length, info.num_channels)
            assert got.dtype == expected.dtype
            if length:
                assert np.abs(got.astype(np.float64) - expected).max() <= tolerance


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("container", "subtype", "dtype"), LOSSLESS)
def test_segments_of_lossless_formats(
    odd_path: Path, speech: Samples, container: str, subtype: str, dtype: str, channels: int
) -> None:
    if subtype == "IMA_ADPCM" and channels > 2:
        pytest.skip("IMA ADPCM has at most two channels")
    path = odd_path / "-rf"
    samples = np.stack([np.roll(speech, 777 * channel) for channel in range(channels)], axis=1)[:30000]
    soundfile.write(path, samples, 16000, format=container, subtype=subtype)
    whole, _ = soundfile.read(path, dtype=dtype, always_2d=True)
    check_segments(path, probe_file(path), whole, 0)


@pytest.mark.parametrize("rate", [8000, 24000, 48000])
@pytest.mark.parametrize("format", ["ogg", "opus", "mp3"])
def test_segments_of_lossy_formats(tmp_path: Path, speech: Samples, format: str, rate: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(encode(np.stack([speech, speech[::-1]], axis=1), rate, format))
    info = probe_file(path)
    assert info.num_samples == len(speech)
    with soundfile.SoundFile(path) as sound:
        whole = sound.read(dtype="float32", always_2d=True)
    check_segments(path, info, whole, 1e-6, count=6)


@pytest.mark.parametrize("bit_rate", ["8k", "16k", "24k"])
def test_segments_of_opus_at_low_bit_rates(
    tmp_path: Path, speech: Samples, tool: Callable[..., None], bit_rate: str
) -> None:
    # Down here Opus predicts from far back, and libsndfile's own seek comes out audibly different.
    wav, path = tmp_path / "a.wav", tmp_path / "a.opus"
    soundfile.write(wav, np.concatenate([speech, speech // 2, speech]), 16000)
    tool("ffmpeg", "-v", "error", "-i", wav, "-c:a", "libopus", "-b:a", bit_rate, path)
    info = probe_file(path)
    with soundfile.SoundFile(path) as sound:
        whole = sound.read(dtype="float32", always_2d=True)
    check_segments(path, info, whole, 1e-6, count=6)


@pytest.mark.parametrize("options", [["-q:a", "4"], ["-q:a", "4", "-write_xing", "0"], ["-write_xing", "0"]])
def test_segments_of_other_mp3(
    tmp_path: Path, speech: Samples, tool: Callable[..., None], options: list[str]
) -> None:
    wav, path = tmp_path / "a.wav", tmp_path / "a.mp3"
    soundfile.write(wav, np.concatenate([speech, speech // 50, speech]), 16000)
    tool("ffmpeg", "-v", "error", "-i", wav, *options, path)
    info = probe_file(path)
    whole = read_segment(path, info)
    check_segments(path, info, whole, 1e-6, count=6)


def test_fewer_samples_than_the_info_says(tmp_path: Path, speech: Samples) -> None:
    for format in ("wav", "flac", "mp3", "ogg"):
        data = encode(speech, 16000, format)
        info = probe_bytes(data, "x")
        (tmp_path / "cut").write_bytes(data[: len(data) // 2])
        for source in (data[: len(data) // 2], tmp_path / "cut"):
            with pytest.raises(RecordRejected) as caught:
                read_segment(source, info, name="a.x")
            assert caught.value.reason is RejectReason.UNREADABLE_AUDIO
            assert caught.value.detail.startswith("a.x ")
        (tmp_path / "cut").unlink()
        with pytest.raises(RecordRejected) as caught:
            read_segment(tmp_path / "cut", info)
        assert caught.value.reason is RejectReason.MISSING_AUDIO
        with pytest.raises(RecordRejected):
            read_segment(data, info, info.num_samples - 5, 6)
    with pytest.raises(ValueError, match="negative"):
        read_segment(data, info, -1, 5)


def test_pcm_wav_on_disk_is_read_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speech: Samples) -> None:
    import os

    path = tmp_path / "a.wav"
    path.write_bytes(encode(np.tile(speech, 20), 16000, "wav"))
    asked: list[int] = []
    pread = os.pread

    def counting(fd: int, length: int, offset: int) -> bytes:
        asked.append(length)
        return pread(fd, length, offset)

    monkeypatch.setattr(os, "pread", counting)
    info = probe_file(path)
    read_segment(path, info, 500_000, 1000)
    assert sum(asked) < 4000


def test_seconds_become_samples_as_in_lhotse() -> None:
    from lhotse.utils import compute_num_samples

    rng = random.Random(1)
    for _ in range(20000):
        rate = rng.choice([8000, 11025, 16000, 22050, 24000, 44100, 48000])
        info = AudioInfo("wav", "PCM_16", rate, 10**9, 1, 44)
        seconds = rng.choice(
            [
                rng.uniform(0, 10),
                rng.uniform(0, 20000),
                round(rng.uniform(0, 100), rng.randint(1, 6)),
                (rng.randrange(10**6) + 0.5) / rate,
                (rng.randrange(10**8) + 0.5) / rate,
                (rng.randrange(10**6) + 0.5 + rng.uniform(-3e-8, 3e-8)) / rate,
            ]
        )
        expected = compute_num_samples(seconds, rate)
        if seconds and expected:
            assert segment_samples(info, seconds, None)[0] == expected
            assert segment_samples(info, 0, seconds)[1] == expected


def test_segments_beyond_the_audio() -> None:
    info = AudioInfo("wav", "PCM_16", 16000, 175456, 1, 44)  # 10.966 s
    assert segment_samples(info, 0, None) == (0, 175456)
    assert segment_samples(info, 1.5, None) == (24000, 151456)
    assert segment_samples(info, 1.5, 2) == (24000, 32000)
    # 20 ms are 320 samples: clipped up to there, refused above.
    assert segment_samples(info, 0, 10.986) == (0, 175456)
    assert segment_samples(info, 10.0, 0.986) == (160000, 15456)
    for offset, duration, detail in [
        (0, 10.98607, "offset 0 s + duration 10.98607 s ends 0.020 s after the end of the audio (10.966 s)"),
        (3.2, 9.0, "offset 3.2 s + duration 9 s ends 1.234 s after the end of the audio (10.966 s)"),
        (10.966, 0.01, "offset 10.966 s is not before the end of the audio (10.966 s)"),
        (10.97, None, "offset 10.97 s is not before the end of the audio (10.966 s)"),
        (99, 1, "offset 99 s is not before the end of the audio (10.966 s)"),
    ]:
        with pytest.raises(RecordRejected) as caught:
            segment_samples(info, offset, duration)
        assert caught.value.reason is RejectReason.BEYOND_AUDIO
        assert caught.value.detail == detail


@pytest.mark.parametrize(
    ("offset", "duration", "reason"),
    [
        (-0.1, 1.0, RejectReason.BAD_OFFSET),
        (float("nan"), 1.0, RejectReason.BAD_OFFSET),
        (float("inf"), 1.0, RejectReason.BAD_OFFSET),
        (0.0, 0.0, RejectReason.BAD_DURATION),
        (0.0, -1.0, RejectReason.BAD_DURATION),
        (0.0, float("nan"), RejectReason.BAD_DURATION),
        (0.0, float("inf"), RejectReason.BAD_DURATION),
        (0.0, 1e-5, RejectReason.BAD_DURATION),
    ],
)
def test_numbers_that_mean_no_segment(offset: float, duration: float, reason: RejectReason) -> None:
    with pytest.raises(RecordRejected) as caught:
        segment_samples(AudioInfo("wav", "PCM_16", 16000, 16000, 1, 44), offset, duration)
    assert caught.value.reason is reason


def test_select_channel() -> None:
    samples = np.arange(12, dtype=np.int16).reshape(4, 3)
    assert select_channel(samples, None) is samples
    assert select_channel(samples, 2).tolist() == [[2], [5], [8], [11]]
    for channel in (3, -1):
        with pytest.raises(RecordRejected) as caught:
            select_channel(samples, channel)
        assert caught.value.reason is RejectReason.BAD_FIELD
