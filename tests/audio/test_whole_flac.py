"""FLAC that dr_flac decodes: libsndfile's samples, and libsndfile's judgement of what is damaged."""

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from prepcli.audio import read
from prepcli.audio.encode import encode
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe, probe_bytes
from prepcli.audio.read import read_segment
from prepcli.audio.source import ByteSource
from prepcli.errors import RecordRejected
from tests.audio.conftest import Samples
from tests.audio.encoders import write_flac
from tests.fuzz.examples import examples

pytest.importorskip("miniaudio", reason="dr_flac has no wheel for this machine")


def by_dr_flac(data: bytes, info: AudioInfo) -> Samples | None:
    return read.decode_flac(ByteSource(data), info, 0, info.num_samples)


def by_libsndfile(data: bytes) -> Samples:
    samples, _ = soundfile.read(io.BytesIO(data), dtype="int16", always_2d=True)
    return np.asarray(samples)


@pytest.mark.parametrize("channels", [1, 2, 3, 8])
@pytest.mark.parametrize(
    "encoder",
    ["libsndfile 0", "libsndfile 1", "flac -0", "flac -5", "flac -8", "flac --blocksize=192", "flac -l32"],
)
def test_the_same_samples(tmp_path: Path, short_speech: Samples, channels: int, encoder: str) -> None:
    samples = np.stack([np.roll(short_speech, 555 * channel) for channel in range(channels)], axis=1)
    samples[1000:3000] = 0
    samples[4000:5000, 0] &= -16  # what FLAC calls wasted bits
    samples[6000:9000] = np.random.default_rng(0).integers(-32768, 32768, (3000, channels))
    write_flac(tmp_path / "a.flac", samples, 16000, encoder)
    data = (tmp_path / "a.flac").read_bytes()
    for source in (data, tmp_path / "a.flac"):
        got = read_segment(source, probe(tmp_path / "a.flac"))
        assert got.dtype == np.int16
        assert np.array_equal(got, samples)
    decoded = by_dr_flac(data, probe_bytes(data, "x"))
    assert decoded is not None
    assert np.array_equal(decoded, samples)
    assert np.array_equal(by_libsndfile(data), samples)


def test_what_is_left_to_libsndfile(monkeypatch: pytest.MonkeyPatch, speech: Samples) -> None:
    data = encode(speech, 16000, "flac")
    info = probe_bytes(data, "x")
    assert by_dr_flac(data, info) is not None
    source = ByteSource(data)
    assert read.decode_flac(source, info, 1, info.num_samples - 1) is None
    assert read.decode_flac(source, info, 0, info.num_samples - 1) is None
    for subtype in ("PCM_24", "PCM_S8"):
        file = io.BytesIO()
        soundfile.write(file, speech, 16000, format="FLAC", subtype=subtype)
        assert by_dr_flac(file.getvalue(), probe_bytes(file.getvalue(), "x")) is None
    wav = encode(speech, 16000, "wav")
    assert by_dr_flac(wav, probe_bytes(wav, "x")) is None
    with monkeypatch.context() as patch:
        patch.setattr(read, "_MAX_SAMPLES", len(speech) - 1)
        assert by_dr_flac(data, info) is None
        assert np.array_equal(read_segment(data, info), speech[:, None])
    # A machine without it.
    monkeypatch.setattr(read, "_dr_flac", lambda: None)
    assert by_dr_flac(data, info) is None
    assert np.array_equal(read_segment(data, info), speech[:, None])


def test_damage_within(monkeypatch: pytest.MonkeyPatch, speech: Samples) -> None:
    # The first and last frames are whole, so that only decoding can tell.
    data = bytearray(encode(speech, 16000, "flac"))
    data[len(data) // 2] ^= 4
    broken = bytes(data)
    info = probe_bytes(broken, "x")
    assert by_dr_flac(broken, info) is None

    def outcome() -> str:
        try:
            return str(read_segment(broken, info, name="x").tobytes())
        except RecordRejected as rejected:
            return rejected.detail

    mine = outcome()
    monkeypatch.setattr(read, "_dr_flac", lambda: None)
    assert outcome() == mine


@pytest.mark.slow
@examples(300, slow=False)
@given(st.data())
def test_any_damage(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    channels = data.draw(st.integers(1, 3))
    samples = np.cumsum(rng.normal(0, 300, (6000, channels)), axis=0).clip(-30000, 30000).astype(np.int16)
    whole = encode(samples, 16000, "flac")
    info = probe_bytes(whole, "x")
    broken = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        # Half of all damage in the headers, which are the smaller part.
        at = data.draw(st.integers(0, len(broken) - 1) | st.integers(0, 60))
        broken[at] = data.draw(st.integers(0, 255))
    decoded = by_dr_flac(bytes(broken), info)
    # Either not by dr_flac, or every sample right: no frame whose checksum is wrong is ever taken.
    assert decoded is None or np.array_equal(decoded, samples)
