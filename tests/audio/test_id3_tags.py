"""ID3v2 tags before other audio than MP3: libsndfile misplaces the samples of most, so they are encoded again."""

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.encode import encode
from prepcli.audio.info import NOT_PASSABLE, AudioInfo
from prepcli.audio.probe import probe, probe_bytes
from prepcli.audio.read import read_segment
from prepcli.audio.segments import TargetFormat, convert, whole
from prepcli.errors import RecordRejected
from tests.audio.signals import RATE, id3v2, tones, written
from tests.audio.test_flac import flac_of, refuses

SAMPLES = tones(0.5)


@pytest.mark.parametrize(
    ("container", "subtype"),
    [("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "FLOAT"), ("AIFF", "PCM_16"), ("AU", "PCM_16"), ("FLAC", "PCM_16")],
)
@pytest.mark.parametrize("size", [9, 300])
def test_tag_before(tmp_path: Path, container: str, subtype: str, size: int) -> None:
    bare = written(SAMPLES, container, subtype)
    expected = read_segment(bare, probe_bytes(bare, "bare"))
    data = id3v2(size) + bare
    path = tmp_path / "a"
    path.write_bytes(data)
    info = probe_bytes(data, "a")
    assert info == probe(path)
    assert info.num_samples == len(SAMPLES)
    assert np.array_equal(read_segment(data, info), expected)
    assert np.array_equal(read_segment(path, info, 100, 200), expected[100:300])
    encoded = convert(whole(data, info), TargetFormat())
    assert len(soundfile.read(io.BytesIO(encoded.data))[0]) == len(SAMPLES)
    # What is copied as it is must be what trainers read.
    assert info.format == ("flac" if container == "FLAC" else NOT_PASSABLE)


def test_streamed_wav_with_chunks_behind_a_tag() -> None:
    """Of a WAV whose size is known, what follows the samples is not taken for samples."""
    bare = written(SAMPLES, "WAV", "FLOAT") + b"LIST\x04\0\0\0abcd"
    data = id3v2(30) + bare
    assert len(read_segment(data, probe_bytes(data, "a"))) == len(SAMPLES)


def id3_flac_info(data: bytes) -> AudioInfo:
    return probe_bytes(data, "a.flac")


def test_id3v2_before_flac(tmp_path: Path) -> None:
    data = flac_of()
    tagged = id3v2() + data
    assert id3_flac_info(tagged) == id3_flac_info(data)
    (tmp_path / "a.flac").write_bytes(tagged)
    assert probe(tmp_path / "a.flac") == id3_flac_info(data)
    for source in (tagged, tmp_path / "a.flac"):
        assert np.array_equal(read_segment(source, id3_flac_info(tagged))[:, 0], tones(5))
        assert np.array_equal(read_segment(source, id3_flac_info(tagged), 70001, 9)[:, 0], tones(5)[70001:70010])
    for cut in (1, 100, 5000, 50000):
        assert "ends early" in (refuses(tagged[:-cut]) or "")
    assert refuses(id3v2() + tagged) is not None  # libsndfile skips one tag only


def test_id3v2_before_mp3() -> None:
    data = encode(tones(2), RATE, "mp3")
    tagged = id3v2() + data
    info, bare = probe_bytes(tagged, "a"), probe_bytes(data, "a")
    assert (info.format, info.num_samples) == (bare.format, bare.num_samples)
    assert np.array_equal(read_segment(tagged, info), read_segment(data, bare))
    assert "ends early" in (refuses(tagged[:-700]) or "")


def test_id3v2_before_what_libsndfile_then_refuses() -> None:
    """It must not get into a set: trainers would fail on it."""
    for format in ("ogg", "opus"):
        data = id3v2() + encode(tones(2), RATE, format)
        try:
            assert probe_bytes(data, "a").format == NOT_PASSABLE  # sox, where there is one
        except RecordRejected as rejected:
            assert "libsndfile" in rejected.detail


@pytest.mark.parametrize("tag", [b"ID3", b"ID3\x04\x00\x00\x7f\x7f\x7f\x7f", id3v2(), id3v2()[:-5], id3v2() * 3])
def test_nothing_but_a_tag(tag: bytes) -> None:
    with pytest.raises(RecordRejected):
        probe_bytes(tag, "a")
