"""Files that libsndfile does not read whole, read through a corrected copy: whole, and in segments."""

import struct
from pathlib import Path

import numpy as np
import pytest

from prepcli.audio import corrected
from prepcli.audio.probe import probe, probe_bytes
from prepcli.audio.read import read_segment
from prepcli.audio.segments import TARRED, TargetFormat, encoded, whole
from prepcli.errors import RecordRejected
from tests.audio.bench import chunk, fmt, rf64, riff
from tests.audio.signals import RATE, id3v2, tones, written

FIRST, SECOND = tones(0.6), tones(0.9, seed=1)
BOTH = np.concatenate([FIRST, SECOND])
DATA, MORE = chunk(b"data", FIRST.tobytes()), chunk(b"data", SECOND.tobytes())
LIST = chunk(b"LIST", b"odd")
UNKNOWN = tuple(chunk(b"data", part.tobytes(), 0xFFFFFFFF) for part in (FIRST, SECOND))
JOINED = {
    "files": riff(fmt(), DATA) + riff(fmt(), MORE),
    "files with other chunks": riff(LIST, fmt(), DATA, LIST) + riff(fmt(), LIST, MORE),
    "files without sizes": riff(fmt(), UNKNOWN[0]) + riff(fmt(), UNKNOWN[1]),
    "files with the size 0": riff(fmt(), UNKNOWN[0][:4] + bytes(4) + DATA[8:]) + riff(fmt(), MORE),
    "data": riff(fmt(), DATA, MORE),
    "data and chunks": riff(fmt(), DATA, LIST, MORE, LIST),
    "fmt and data": riff(fmt(), DATA, fmt(), MORE),
    "two fmt": riff(fmt(), fmt(), DATA, MORE),
    "RF64": rf64(2 * len(FIRST), fmt(), UNKNOWN[0]) + riff(fmt(), MORE),
    "tagged": id3v2(30) + riff(fmt(), DATA) + riff(fmt(), MORE),
}


@pytest.mark.parametrize("kind", JOINED)
def test_parts_of_wav(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(JOINED[kind])
    info = probe(path)
    assert (info.format, info.num_samples, info.sampling_rate) == ("sox", len(BOTH), RATE)
    for source in (path, JOINED[kind]):
        assert np.array_equal(read_segment(source, info)[:, 0], BOTH)
        for start in (0, len(FIRST) - 10, len(FIRST), len(BOTH) - 20):
            assert np.array_equal(read_segment(source, info, start, 20)[:, 0], BOTH[start : start + 20])
    written_again = encoded(whole(path, info), TargetFormat(), TARRED)
    assert not written_again.is_copy
    assert np.array_equal(read_segment(written_again.data, probe_bytes(written_again.data, "b")), BOTH[:, None])


@pytest.mark.parametrize("fault", ["rate", "bits", "codec"])
def test_parts_that_differ(fault: str) -> None:
    other = {"rate": fmt(8000), "bits": fmt(bits=8), "codec": fmt()[:8] + b"\x11" + fmt()[9:]}[fault]
    for data in (riff(fmt(), DATA) + riff(other, MORE), riff(fmt(), other, DATA), riff(fmt(), DATA, other, MORE)):
        with pytest.raises(RecordRejected, match="parts of different formats"):
            probe_bytes(data, "a.wav")


@pytest.mark.parametrize("size", [0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF - 24])
def test_au_without_a_size(size: int) -> None:
    plain = written(BOTH, "AU", "PCM_16")
    data = plain[:8] + struct.pack(">I", size) + plain[12:]
    info = probe_bytes(data, "a.au")
    assert (info.format, info.num_samples) == ("sox", len(BOTH))
    assert np.array_equal(read_segment(data, info, 100, 5000)[:, 0], BOTH[100:5100])


def test_the_copy_of_a_file_that_has_changed_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(JOINED["data"])
    info = probe(path)
    read_segment(path, info)
    assert corrected._Last.copy is not None
    path.write_bytes(riff(fmt(), MORE, DATA))
    assert np.array_equal(read_segment(path, info)[:, 0], np.concatenate([SECOND, FIRST]))
