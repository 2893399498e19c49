"""FLAC and MP3 as other encoders write them: whole files are never refused, and none loses its end."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.encode import encode
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe_bytes, probe_file
from prepcli.audio.read import read_segment
from tests.audio.conftest import Samples
from tests.audio.encoders import ENCODERS, flac_of_unknown_length, write_flac, write_mp3
from tests.support.tools import tool


@pytest.mark.parametrize("encoder", ENCODERS)
def test_flac_of_unknown_length(tmp_path: Path, speech: Samples, encoder: str) -> None:
    source, streamed = tmp_path / "a.wav", tmp_path / "pipe.flac"
    soundfile.write(source, speech, 16000)
    if encoder == "ffmpeg":
        streamed.write_bytes(tool("ffmpeg", "-v", "error", "-i", source, "-f", "flac", "-"))
    else:
        streamed.write_bytes(flac_of_unknown_length(encode(speech, 16000, "flac")))
    info = probe_file(streamed)
    assert info == AudioInfo("sox", "PCM_16", 16000, len(speech), 1, None)
    assert np.array_equal(read_segment(streamed, info)[:, 0], speech)
    assert np.array_equal(read_segment(streamed.read_bytes(), info, 40000, 999)[:, 0], speech[40000:40999])


@pytest.mark.parametrize(
    "encoder", ["libsndfile 0", "libsndfile 0.5", "libsndfile 1", "flac -0", "flac -4", "flac -8", "ffmpeg"]
)
def test_flac_of_other_encoders_and_with_tags(tmp_path: Path, speech: Samples, encoder: str) -> None:
    path = tmp_path / "a.flac"
    write_flac(path, np.stack([speech, speech // 3], axis=1), 16000, encoder)
    expected = AudioInfo("flac", "PCM_16", 16000, len(speech), 2, None)
    assert probe_file(path) == expected
    data = path.read_bytes()
    assert probe_bytes(data + b"TAG" + bytes(125), "id3v1") == expected
    assert probe_bytes(data + b"something else", "junk") == expected


def test_flac_of_variable_block_size_and_36_bit_numbers() -> None:
    from prepcli.audio import flac

    # RFC 9639, 9.1: sync and "samples are counted", 192 samples at STREAMINFO's rate, mono, 16 bits.
    for first in (0, 127, 128, 2047, 2048, 65536, 1 << 20, 1 << 26, 1 << 31, (1 << 36) - 193):
        number = utf8_like(first)
        header = b"\xff\xf9\x10\x08" + number
        header += bytes([flac._crc8(header)])
        info = flac.StreamInfo(4096, 0, 16000, 1, 16, 0)
        assert flac._frame_end(header + bytes(16), info) == first + 192
        assert flac._frame_end(header[:-1] + bytes([header[-1] ^ 1]) + bytes(16), info) is None


def utf8_like(number: int) -> bytes:
    if number < 128:
        return bytes([number])
    extra = next(n for n in range(1, 7) if number < 1 << (6 * n + 6 - n))
    lead = (0xFF << (7 - extra)) & 0xFF | number >> (6 * extra)
    return bytes([lead, *(0x80 | number >> (6 * n) & 0x3F for n in reversed(range(extra)))])


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("xing", [True, False])
@pytest.mark.parametrize("kind", ["constant", "variable"])
@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_mp3_is_as_long_as_its_decode(
    tmp_path: Path, short_speech: Samples, rate: int, kind: str, xing: bool, encoder: str
) -> None:
    path = tmp_path / "a.mp3"
    write_mp3(path, short_speech, rate, kind, xing=xing, encoder=encoder)
    info = probe_file(path)
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
    info = probe_file(path)
    assert info.format == "sox"
    assert 0 <= info.num_samples - len(samples) < 3000
    decoded = read_segment(path, info)[:, 0]
    # The loud second is where it should be, give or take the codec's delay.
    loud = np.flatnonzero(np.abs(decoded) > 0.1)
    expected = np.flatnonzero(np.abs(samples.astype(float)) > 3277)
    assert abs(loud[0] - expected[0]) < 1200
    assert abs(loud[-1] - expected[-1]) < 1200
