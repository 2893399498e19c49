"""ID3v2 tags before other audio than MP3: libsndfile misplaces the samples of most, so they are encoded again."""

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.info import NOT_PASSABLE
from prepcli.audio.probe import probe_bytes, probe_file
from prepcli.audio.read import read_segment
from prepcli.audio.segments import TargetFormat, convert, whole
from tests.audio.signals import id3v2, tones, written

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
    assert info == probe_file(path)
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
