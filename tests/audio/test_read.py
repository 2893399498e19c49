"""Segments: exactly the samples that were asked for come back, whatever the format."""

import random
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.encode import encode
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe, probe_bytes
from prepcli.audio.read import read_segment
from prepcli.errors import RecordRejected, RejectReason
from tests.audio.conftest import Samples
from tests.audio.encoders import ENCODERS, write_mp3, write_opus
from tests.fuzz.examples import rounds

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


def check_segments(
    path: Path, info: AudioInfo, whole: Samples, tolerance: float, count: int = 15, longest: int = 10**9
) -> None:
    """Compare random segments, by path and by bytes, with the same part of a full decode."""
    data = path.read_bytes()
    rng = random.Random(0)
    total = info.num_samples
    pairs = [(0, 1), (total - 1, 1), (0, total), (total // 2, 0), (4095, 2)]
    assert np.array_equal(read_segment(str(path), info, 7, total - 7), read_segment(path, info, 7, total - 7))
    pairs += [(start := rng.randrange(total), rng.randint(1, min(longest, total - start))) for _ in range(count)]
    for start, length in pairs:
        expected = whole[start : start + length]
        for source in (path, data):
            got = read_segment(source, info, start, length, name="x")
            assert got.shape == expected.shape == (length, info.num_channels)
            assert got.dtype == expected.dtype
            if length:
                assert np.abs(got.astype(np.float64) - expected).max() <= tolerance


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(("container", "subtype", "dtype"), LOSSLESS)
def test_segments_of_lossless_formats(
    odd_path: Path, speech: Samples, container: str, subtype: str, dtype: str, channels: int
) -> None:
    path = odd_path / "-rf"
    samples = np.stack([np.roll(speech, 777 * channel) for channel in range(channels)], axis=1)[:30000]
    soundfile.write(path, samples, 16000, format=container, subtype=subtype)
    whole, _ = soundfile.read(path, dtype=dtype, always_2d=True)
    check_segments(path, probe(path), whole, 0)


@pytest.mark.parametrize("rate", [8000, 24000, 48000])
@pytest.mark.parametrize("format", ["ogg", "opus", "mp3"])
def test_segments_of_lossy_formats(tmp_path: Path, speech: Samples, format: str, rate: int) -> None:
    path = tmp_path / "a"
    voice = speech[-rounds(len(speech), fast=60_000 if format == "opus" else 40_000) :]
    path.write_bytes(encode(np.stack([voice, voice[::-1]], axis=1), rate, format))
    info = probe(path)
    assert info.num_samples == len(voice)
    with soundfile.SoundFile(path) as sound:
        whole = sound.read(dtype="float32", always_2d=True)
    check_segments(path, info, whole, 1e-6, count=6)


@pytest.mark.parametrize("length", [1, 5000, 40000, 122208])
def test_the_last_page_of_vorbis(speech: Samples, length: int) -> None:
    # libsndfile's own seek is 64 samples off there.
    data = encode(speech[:length], 16000, "ogg")
    info = probe_bytes(data, "x")
    whole = read_segment(data, info)
    for back in (1, 63, 64, 65, 129, 500, 1000, 3000, 5000, 9000, 20000):
        if back <= length:
            assert np.array_equal(read_segment(data, info, length - back), whole[length - back :])


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("kilobits", [8, *(pytest.param(one, marks=pytest.mark.slow) for one in (16, 24))])
def test_segments_of_opus_at_low_bit_rates(tmp_path: Path, speech: Samples, kilobits: int, encoder: str) -> None:
    # Down here Opus predicts from far back, and libsndfile's own seek comes out audibly different.
    path = tmp_path / "a.opus"
    voice = speech[-rounds(len(speech), fast=60_000) :]
    write_opus(path, np.concatenate([voice, voice // 2, voice]), 16000, kilobits, encoder)
    info = probe(path)
    with soundfile.SoundFile(path) as sound:
        whole = sound.read(dtype="float32", always_2d=True)
    check_segments(path, info, whole, 1e-6, count=rounds(30, fast=12), longest=3000)  # one in twelve would differ


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(("kind", "xing"), [("variable", True), ("variable", False), ("constant", False)])
def test_segments_of_other_mp3(tmp_path: Path, speech: Samples, kind: str, xing: bool, encoder: str) -> None:
    path = tmp_path / "a.mp3"
    voice = speech[-rounds(len(speech), fast=40_000) :]
    samples = np.concatenate([voice, voice // 50, voice])
    write_mp3(path, samples, 16000, kind, xing=xing, encoder=encoder)
    info = probe(path)
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
    info = probe(path)
    read_segment(path, info, 500_000, 1000)
    assert sum(asked) < 12_000  # the head of the file, and the segment
