"""Segments of MP3 whose frames hold little: each borrows bits from many before it, with which decoding must begin."""

import random
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio import mpeg
from prepcli.audio.probe import probe, probe_bytes
from prepcli.audio.read import read_segment
from prepcli.audio.source import ByteSource, FileSource, Window
from tests.audio.conftest import Samples
from tests.audio.encoders import ENCODERS, write_mp3
from tests.fuzz.examples import rounds

NEARLY_SILENT = 4000


@pytest.mark.slow
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("mode", ["CONSTANT", "VARIABLE"])
@pytest.mark.parametrize("rate", [8000, 16000, 24000, 44100, 48000])
def test_segments(tmp_path: Path, speech: Samples, rate: int, mode: str, channels: int) -> None:
    path = tmp_path / "a.mp3"
    voice = speech[-rounds(len(speech), fast=40_000) :]
    mono = np.concatenate([voice, voice // 50, voice // NEARLY_SILENT, voice])
    samples = np.stack([np.roll(mono, 7777 * channel) for channel in range(channels)], axis=1)
    soundfile.write(path, samples, rate, format="MP3", bitrate_mode=mode, compression_level=0.999)
    info = probe(path)
    whole = read_segment(path, info)
    rng = random.Random(0)
    wrong = []
    for _ in range(rounds(25, fast=15)):
        start = rng.randrange(info.num_samples - 3000)
        got = read_segment(path, info, start, 3000)
        if np.abs(got - whole[start : start + 3000]).max() > 1e-6:
            wrong.append(start)
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("xing", [True, False])
@pytest.mark.parametrize("kind", ["constant", "variable"])
@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_mp3_is_as_long_as_its_decode(
    tmp_path: Path, short_speech: Samples, rate: int, kind: str, xing: bool, encoder: str
) -> None:
    path = tmp_path / "a.mp3"
    write_mp3(path, short_speech, rate, kind, xing=xing, encoder=encoder)
    info = probe(path)
    assert info.format in ("mp3", "sox")
    assert len(read_segment(path, info)) == info.num_samples
    # The whole utterance is there: an encoder adds silence of at most two frames and its delay.
    assert 0 <= info.num_samples - len(short_speech) < 3500
    if info.format == "mp3" and xing:
        assert info.num_samples == soundfile.info(path).frames
    assert probe_bytes(path.read_bytes() + b"TAG" + bytes(125), "x").num_samples == info.num_samples


@pytest.mark.parametrize("encoder", ENCODERS)
def test_mp3_of_variable_rate_without_xing_header_keeps_its_end(tmp_path: Path, speech: Samples, encoder: str) -> None:
    # A loud start makes libsndfile take the file for half as long as it is.
    path = tmp_path / "a.mp3"
    noise = np.random.default_rng(1).integers(-20000, 20000, 8000).astype(np.int16)
    samples = np.concatenate([noise[:1], speech // 64, noise])
    write_mp3(path, samples, 8000, "fine", xing=False, encoder=encoder)
    if soundfile.info(path).frames >= len(samples):
        samples = np.concatenate([noise, speech // 64])
        write_mp3(path, samples, 8000, "fine", xing=False, encoder=encoder)
    assert soundfile.info(path).frames < len(samples)
    info = probe(path)
    assert info.format == "sox"
    assert 0 <= info.num_samples - len(samples) < 3000
    decoded = read_segment(path, info)[:, 0]
    # The loud second is where it should be, give or take the codec's delay.
    loud = np.flatnonzero(np.abs(decoded) > 0.1)
    expected = np.flatnonzero(np.abs(samples.astype(float)) > 3277)
    assert abs(loud[0] - expected[0]) < 1200
    assert abs(loud[-1] - expected[-1]) < 1200


def test_frames_that_are_read_in_blocks(
    tmp_path: Path, short_speech: Samples, draw: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of plain, tagged, joined, cut and damaged files: the scan is that of the whole file."""
    one, other = tmp_path / "a.mp3", tmp_path / "b.mp3"
    soundfile.write(one, short_speech, 16000, format="MP3")
    soundfile.write(other, short_speech[::2], 24000, format="MP3")
    parts = [one.read_bytes(), other.read_bytes(), b"ID3\x04\0\0\0\0\x07\x08" + bytes(904), b"TAG" + bytes(125)]
    found = set()
    for _ in range(400):
        pieces = [*draw.choices(parts, k=draw.randint(1, 3)), draw.randbytes(draw.choice([0, 0, 1, 700]))]
        data = b"".join(draw.sample(pieces, len(pieces)))
        data = data[: draw.choice([len(data), draw.randint(0, len(data))])]
        monkeypatch.setattr(Window, "_BLOCK", draw.choice([1, 97, 4096, 1 << 20]))
        expected = mpeg.scan(data)
        assert mpeg.scan(Window(ByteSource(data))) == expected
        found.add(None if expected is None else (expected.cut, expected.irregular, expected.changes))
    assert {None, (False, False, False), (True, False, False), (False, True, False), (False, True, True)} <= found


def test_a_long_file_is_read_in_blocks(tmp_path: Path, short_speech: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.mp3"
    soundfile.write(path, short_speech, 16000, format="MP3")
    info = probe(path)
    monkeypatch.setattr("prepcli.audio.probe._IN_MEMORY", 1000)
    monkeypatch.setattr(FileSource, "everything", None)
    assert probe(path) == info
