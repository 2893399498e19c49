"""Encoding: lossless where it says so, clipped and never wrapped, and the same bytes on every run."""

import hashlib
import io
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.encode import encodable_rate, encode, lossless_subtype
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe, probe_bytes
from prepcli.audio.read import read_segment
from prepcli.errors import RecordRejected
from tests.audio.conftest import Samples, as_float

FORMATS = ["flac", "wav", "opus", "ogg", "mp3"]


def decode(data: bytes, dtype: str) -> Samples:
    samples: Samples = soundfile.read(io.BytesIO(data), dtype=dtype, always_2d=True)[0]
    return samples


@pytest.mark.parametrize("channels", [1, 2, 5])
@pytest.mark.parametrize("format", FORMATS)
def test_what_is_written_is_what_is_read(tmp_path: Path, short_speech: Samples, format: str, channels: int) -> None:
    samples = np.stack([np.roll(short_speech, 5000 * channel) for channel in range(channels)], axis=1)
    if format == "mp3" and channels > 2:
        with pytest.raises(RecordRejected, match="a maximum of 2 channels, the audio has 5"):
            encode(samples, 16000, format)
        return
    data = encode(samples, 16000, format)
    info = probe_bytes(data, "x")
    assert (info.format, info.sampling_rate) == (format, 16000)
    assert (info.num_samples, info.num_channels) == samples.shape
    decoded = read_segment(data, info)
    if format in ("flac", "wav"):
        assert np.array_equal(decoded, samples)
    else:
        for channel in range(channels):
            # Time-aligned and alike: the codecs' noise is below the signal.
            error = decoded[:, channel] - as_float(samples[:, channel])
            assert np.mean(error**2) < 0.5 * np.mean(as_float(samples[:, channel]) ** 2)


WAV_SUBTYPES = [None, "PCM_16", "PCM_24", "PCM_32", "FLOAT", "PCM_U8", "ULAW", "DOUBLE"]


@pytest.mark.parametrize("kind", ["int16", "int24", "float32"])
@pytest.mark.parametrize(
    ("format", "subtype"),
    [*(("wav", subtype) for subtype in WAV_SUBTYPES), ("flac", None), ("flac", "PCM_16"), ("flac", "PCM_24")],
)
def test_subtypes(speech: Samples, format: str, kind: str, subtype: str | None) -> None:
    fine = (speech.astype(np.int32) << 16) + (np.arange(len(speech), dtype=np.int32) % 256 << 8)
    samples = {"int16": speech, "int24": fine, "float32": (fine / 2**31).astype(np.float32)}[kind]
    data = encode(samples, 16000, format, subtype)
    info = soundfile.info(io.BytesIO(data))
    default = {"int16": "PCM_16", "int24": "PCM_24", "float32": "FLOAT" if format == "wav" else "PCM_16"}
    assert info.subtype == (subtype or default[kind])
    assert probe_bytes(data, "x").num_samples == len(speech)
    wanted = samples if kind == "float32" else as_float(samples)
    step = {"PCM_16": 2.0**-15, "PCM_U8": 2.0**-7, "ULAW": 2.0**-4}.get(info.subtype, 0)
    exact = kind == "int16" and info.subtype not in ("PCM_U8", "ULAW")
    tolerance = 0 if exact else 0.51 * step if info.subtype == "PCM_16" else step
    assert np.abs(decode(data, "float64")[:, 0] - wanted).max() <= tolerance


def test_wav_bytes_are_those_of_libsndfile(speech: Samples) -> None:
    for subtype in ("PCM_16", "PCM_24", "PCM_32"):
        theirs = io.BytesIO()
        soundfile.write(theirs, speech, 16000, format="WAV", subtype=subtype)
        assert encode(speech, 16000, "wav", subtype) == theirs.getvalue()


def test_wav_of_odd_length() -> None:
    data = encode(np.array([256, 512, 768], np.int32) << 8, 8000, "wav")
    assert len(data) == 44 + 9 + 1
    assert int.from_bytes(data[4:8], "little") == len(data) - 8
    assert decode(data, "int32")[:, 0].tolist() == [1 << 16, 2 << 16, 3 << 16]


@pytest.mark.parametrize("format", ["flac", "wav"])
@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
def test_floats_are_clipped_and_do_not_wrap(format: str, subtype: str) -> None:
    loud = np.array([0, 1.0, -1.0, 1.5, -7.0, np.inf, -np.inf, np.nan, 0.5], np.float32)
    decoded = decode(encode(loud, 16000, format, subtype), "int32")[:, 0]
    top = 2**31 - (2**16 if subtype == "PCM_16" else 2**8)
    assert decoded.tolist() == [0, top, -(2**31), top, -(2**31), top, -(2**31), 0, 2**30]
    widest = np.array([2**31 - 1, -(2**31), 2**15 - 1, 2**15], np.int32)
    assert decode(encode(widest, 16000, format, "PCM_16"), "int16")[:, 0].tolist() == [32767, -32768, 0, 1]


@pytest.mark.parametrize("format", ["opus", "ogg", "mp3"])
def test_loud_floats_through_lossy_codecs(format: str) -> None:
    tone = np.sin(np.arange(32000) / 16000 * 2 * np.pi * 200)
    loud, full = (
        decode(encode(np.clip(tone * gain, -limit, limit).astype(np.float32), 16000, format), "float32")
        for gain, limit in ((4, 99), (4, 1))
    )
    assert np.array_equal(loud, full)
    broken = np.full(16000, np.nan, np.float32)
    assert np.isfinite(decode(encode(broken, 16000, format), "float32")).all()


def test_encodable_rates(speech: Samples) -> None:
    assert [encodable_rate("opus", rate) for rate in (6000, 8000, 11025, 22050, 44100, 48000, 96000)] == [
        8000,
        8000,
        12000,
        24000,
        48000,
        48000,
        48000,
    ]
    assert [encodable_rate("mp3", rate) for rate in (7000, 11025, 44100, 46000, 96000)] == [
        8000,
        11025,
        44100,
        48000,
        48000,
    ]
    for format in ("wav", "flac", "ogg"):
        assert encodable_rate(format, 11127) == 11127
    for format, rates in (("opus", (8000, 12000, 16000, 24000, 48000)), ("mp3", (8000, 11025, 12000, 44100))):
        for rate in rates:
            assert probe_bytes(encode(speech[:9000], rate, format), "x").sampling_rate == rate
        with pytest.raises(ValueError, match="resample first"):
            encode(speech, 44101, format)


@pytest.mark.parametrize(
    ("source", "flac", "wav"),
    [
        ("PCM_16", "PCM_16", "PCM_16"),
        ("PCM_U8", "PCM_16", "PCM_16"),
        ("ULAW", "PCM_16", "PCM_16"),
        ("PCM_24", "PCM_24", "PCM_24"),
        ("PCM_32", "PCM_24", "PCM_32"),
        ("FLOAT", "PCM_24", "FLOAT"),
    ],
)
def test_lossless_subtype_keeps_the_samples(tmp_path: Path, speech: Samples, source: str, flac: str, wav: str) -> None:
    path = tmp_path / "a.wav"
    values = as_float(speech) if source in ("PCM_U8", "ULAW") else (as_float(speech) + 2.0**-20) * 0.999
    soundfile.write(path, values, 16000, subtype=source)
    info = probe(path)
    samples = read_segment(path, info)
    for format, expected in (("flac", flac), ("wav", wav)):
        subtype = lossless_subtype(info, format)
        assert subtype == expected
        again = encode(samples, 16000, format, subtype)
        kept = read_segment(again, probe_bytes(again, "x"))
        if format == "wav" or source not in ("PCM_32", "FLOAT"):
            assert kept.dtype == samples.dtype
            assert np.array_equal(kept, samples)
        else:
            assert np.abs(decode(again, "float64")[:, 0] - decode(path.read_bytes(), "float64")[:, 0]).max() < 2**-23


def test_lossless_subtype_of_lossy_codecs() -> None:
    info = AudioInfo("mp3", "MPEG_LAYER_III", 16000, 1, 1, None)
    assert (lossless_subtype(info, "flac"), lossless_subtype(info, "wav")) == ("PCM_16", "PCM_16")
    assert lossless_subtype(info, "opus") is None


def test_what_can_not_be_encoded(speech: Samples) -> None:
    with pytest.raises(ValueError, match="is not one of flac, wav, opus, ogg, mp3"):
        encode(speech, 16000, "aac")
    for format in FORMATS:
        with pytest.raises(ValueError, match="no samples"):
            encode(speech[:0], 16000, format)


SCRIPT = """
import sys, hashlib
import soundfile
from prepcli.audio.encode import encode
for dtype in ("int16", "float32"):
    samples, _ = soundfile.read(sys.argv[1], dtype=dtype)
    for format in sys.argv[2:]:
        print(hashlib.sha256(encode(samples, 24000, format)).hexdigest())
"""


@pytest.mark.slow
def test_two_processes_write_the_same_bytes(tmp_path: Path, short_speech: Samples) -> None:
    path = tmp_path / "speech.wav"
    soundfile.write(path, np.stack([short_speech, short_speech[::-1]], axis=1), 24000)
    command = [sys.executable, "-c", SCRIPT, str(path), *FORMATS]
    there = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    time.sleep(1.1)  # libsndfile's seeds and time stamps are in seconds
    here = [
        hashlib.sha256(encode(soundfile.read(path, dtype=dtype)[0], 24000, format)).hexdigest()
        for dtype in ("int16", "float32")
        for format in FORMATS
    ]
    assert there == here
    assert len(set(here[:5])) == len(FORMATS)
