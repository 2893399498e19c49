"""Formats that only sox or ffmpeg read, whatever their files are called."""

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe, probe_bytes
from prepcli.audio.read import read_segment
from prepcli.errors import RecordRejected, RejectReason
from tests.audio.conftest import Samples
from tests.support.sphere_files import shorten, sphere, ulaw, ulaw_sphere, ulaw_values, with_real_rate
from tests.support.tools import need, tool


@pytest.fixture
def wavpack(tmp_path: Path, speech: Samples) -> bytes:
    soundfile.write(tmp_path / "a.wav", np.stack([speech, speech // 2], axis=1), 16000)
    tool("sox", tmp_path / "a.wav", tmp_path / "a.wv")
    return (tmp_path / "a.wv").read_bytes()


@pytest.mark.slow
def test_wavpack(odd_path: Path, speech: Samples, wavpack: bytes) -> None:
    for name in ("-n", "|echo a", "a.m3u", "*.wv", "line\nbreak.wv", "http:"):
        path = odd_path / name
        path.write_bytes(wavpack)
        info = probe(path)
        assert info == AudioInfo("sox", "PCM_16", 16000, len(speech), 2, None)
        samples = read_segment(path, info, 1000, 5000)
        assert samples.dtype == np.int16
        assert np.array_equal(samples[:, 0], speech[1000:6000])
        assert np.array_equal(samples[:, 1], speech[1000:6000] // 2)
    assert probe_bytes(wavpack, "x") == info
    assert np.array_equal(read_segment(wavpack, info)[:, 0], speech)
    with pytest.raises(RecordRejected, match="ends early: 10 samples wanted"):
        read_segment(wavpack, info, len(speech) - 9, 10)


def test_wavpack_from_a_relative_path(
    odd_path: Path, monkeypatch: pytest.MonkeyPatch, speech: Samples, wavpack: bytes
) -> None:
    monkeypatch.chdir(odd_path)
    Path("-V").write_bytes(wavpack)
    assert probe("-V").num_samples == len(speech)


def test_wavpack_of_24_bits(tmp_path: Path, speech: Samples) -> None:
    fine = (speech.astype(np.int32) << 16) + (np.arange(len(speech), dtype=np.int32) % 256 << 8)
    soundfile.write(tmp_path / "a.wav", fine, 16000, subtype="PCM_24")
    tool("sox", tmp_path / "a.wav", tmp_path / "a.wv")
    info = probe(tmp_path / "a.wv")
    assert info.subtype == "PCM_24"
    assert np.array_equal(read_segment(tmp_path / "a.wv", info)[:, 0], fine)


def test_wavpack_cut_short(wavpack: bytes) -> None:
    for length in (len(wavpack) - 1, len(wavpack) - 1000, len(wavpack) // 2, 100):
        with pytest.raises(RecordRejected) as caught:
            probe_bytes(wavpack[:length], "a.wv")
        assert caught.value.reason is RejectReason.UNREADABLE_AUDIO


def test_a_sox_that_cannot_be_started_is_not_the_records_fault(
    wavpack: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_process(*_: object, **__: object) -> None:
        raise OSError("Cannot allocate memory")

    info = probe_bytes(wavpack, "a.wv")
    monkeypatch.setattr("sox.core.subprocess.Popen", no_process)
    with pytest.raises(OSError):
        probe_bytes(wavpack, "a.wv")
    monkeypatch.undo()
    monkeypatch.setattr("sox.core.sox", lambda *_: (1, None, None))
    monkeypatch.setattr("sox.transform.sox", lambda *_: (1, None, None))
    with pytest.raises(OSError, match=r"sox cannot be run on a\.wv"):
        read_segment(wavpack, info, name="a.wv")


def test_nothing_is_printed_and_nothing_is_left(
    wavpack: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    info = probe_bytes(wavpack, "a.wv")
    read_segment(wavpack, info, 0, 100)
    with pytest.raises(RecordRejected) as caught:
        probe_bytes(wavpack[: len(wavpack) // 2], "a.wv")
    assert "\n" not in caught.value.detail
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("prepcli-")] == []


@pytest.fixture
def real_rate(speech: Samples) -> bytes:
    """SPHERE whose sampling rate is a real number: sox reads it, libsndfile wants an integer."""
    return with_real_rate(sphere(speech.tobytes(), "pcm", len(speech), 1))


def test_a_header_that_libsndfile_does_not_take(real_rate: bytes, speech: Samples) -> None:
    need("sox")
    info = probe_bytes(real_rate, "a.sph")
    assert info == AudioInfo("sox", "PCM_16", 8000, len(speech), 1, None)
    assert np.array_equal(read_segment(real_rate, info)[:, 0], speech)


def test_without_sox(real_rate: bytes, no_tools: None) -> None:
    check_that_sox_is_asked_for(real_rate)


def test_wavpack_without_sox(wavpack: bytes, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("no_tools")  # after sox has made the file
    check_that_sox_is_asked_for(wavpack)


def check_that_sox_is_asked_for(data: bytes) -> None:
    with pytest.raises(RecordRejected, match="install the Debian package sox"):
        probe_bytes(data, "a.audio")
    with pytest.raises(RecordRejected, match="install the Debian package sox"):
        read_segment(data, AudioInfo("sox", "PCM_16", 16000, 10, 2, None))


@pytest.mark.parametrize("channels", [1, 2])
def test_ulaw_sphere(tmp_path: Path, speech: Samples, channels: int) -> None:
    samples = np.stack([np.roll(speech, 999 * channel) for channel in range(channels)], axis=1)
    (tmp_path / "a.sph").write_bytes(ulaw_sphere(samples))
    info = probe(tmp_path / "a.sph")
    assert info == AudioInfo("nist", "ULAW", 8000, len(speech), channels, None)
    assert np.array_equal(read_segment(tmp_path / "a.sph", info), ulaw_values()[ulaw(samples)])


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(("encoding", "subtype"), [("u-law", "ULAW"), ("signed", "PCM_16")])
def test_sphere_of_sox(tmp_path: Path, speech: Samples, encoding: str, subtype: str, channels: int) -> None:
    soundfile.write(tmp_path / "a.wav", np.stack([speech] * channels, axis=1), 8000)
    tool("sox", "-D", tmp_path / "a.wav", "-e", encoding, tmp_path / "a.sph")
    tool("sox", tmp_path / "a.sph", "-e", "signed", "-b", "16", tmp_path / "back.wav")
    info = probe(tmp_path / "a.sph")
    assert info == AudioInfo("nist", subtype, 8000, len(speech), channels, None)
    back, _ = soundfile.read(tmp_path / "back.wav", dtype="int16", always_2d=True)
    assert np.array_equal(read_segment(tmp_path / "a.sph", info), back)


@pytest.mark.parametrize("channels", [1, 2])
def test_shorten_in_sphere(tmp_path: Path, speech: Samples, channels: int) -> None:
    need("ffmpeg")
    samples = np.stack([speech[20000:28100], speech[40000:48100]], axis=1)[:, :channels]
    body = shorten([samples[:, channel].tolist() for channel in range(channels)])
    path = tmp_path / "-a.sph"
    path.write_bytes(sphere(body, "pcm,embedded-shorten-v2.00", len(samples), channels))
    info = probe(path)
    assert info == AudioInfo("sox", "PCM_16", 8000, 8100, channels, None)
    assert np.array_equal(read_segment(path, info), samples)
    assert np.array_equal(read_segment(path.read_bytes(), info, 4000, 100), samples[4000:4100])
    with pytest.raises(RecordRejected, match=r"ends early: the header promises 8100 samples|that ffmpeg can't decode"):
        probe_bytes(path.read_bytes()[:-3000], "a.sph")


def test_shorten_that_nothing_here_decodes(tmp_path: Path) -> None:
    data = sphere(b"ajkg\x02" + os.urandom(500), "ulaw,embedded-shorten-v2.00", 8000, 1)
    with pytest.raises(RecordRejected, match="is SPHERE compressed with shorten"):
        probe_bytes(data, "a.sph")


def test_shorten_without_ffmpeg(no_tools: None) -> None:
    data = sphere(b"ajkg\x02" + bytes(500), "pcm,embedded-shorten-v2.00", 8000, 1)
    with pytest.raises(RecordRejected, match="install the Debian package ffmpeg, or sph2pipe"):
        probe_bytes(data, "a.sph")
