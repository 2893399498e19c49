"""What trainers can read of a file is what soundfile decodes of it, from the start, in one go."""

import io

import numpy as np
import pytest
import soundfile

from prepcli.audio import mpeg
from prepcli.audio.check import check_decoded
from prepcli.audio.decodable import count_decodable, readable_mpeg
from prepcli.audio.encode import encode
from prepcli.audio.probe import probe_bytes
from prepcli.audio.source import ByteSource
from prepcli.errors import RecordRejected
from tests.audio.bench import chunk, fmt, ogg_pages, riff
from tests.audio.signals import RATE, flipped, tones


@pytest.mark.parametrize("format", ["ogg", "opus"])
def test_samples_after_a_gap_are_counted_once(format: str) -> None:
    pages = ogg_pages(encode(tones(10), RATE, format))
    lost = b"".join(pages[:5] + pages[6:])
    assert count_decodable(ByteSource(lost)) == len(soundfile.read(io.BytesIO(lost))[0]) < 10 * RATE


@pytest.mark.parametrize("format", ["wav", "flac", "mp3", "ogg", "opus"])
def test_whole_files(format: str) -> None:
    data = encode(tones(3), RATE, format)
    info = probe_bytes(data, "a")
    assert count_decodable(ByteSource(data)) == info.num_samples
    check_decoded(data, info, "a")
    with pytest.raises(RecordRejected, match="of which soundfile, as in trainers, reads 48000"):
        check_decoded(data, info._replace(num_samples=50_000), "a")


def test_files_that_soundfile_does_not_read() -> None:
    data = riff(fmt(), *[chunk(b"data", tones(1).tobytes())] * 2)
    with pytest.raises(RecordRejected, match="cannot be read by soundfile, as trainers do"):
        check_decoded(data, probe_bytes(data, "a"), "a")
    flac = encode(tones(3), RATE, "flac")
    with pytest.raises(RecordRejected, match=r"soundfile|damaged"):
        check_decoded(flipped(flac, len(flac) // 2), probe_bytes(flac, "a"), "a")


def test_mpeg_of_which_libsndfile_would_read_a_part() -> None:
    data = encode(tones(3), RATE, "mp3")
    found = mpeg.scan(data)
    assert found is not None
    assert readable_mpeg(ByteSource(data), found)[1] == probe_bytes(data, "a")
    joined = data + data
    twice = mpeg.scan(joined)
    assert twice is not None
    source, info = readable_mpeg(ByteSource(joined), twice)
    assert info is not None
    assert info.num_samples == len(soundfile.read(io.BytesIO(source.everything()))[0])
    assert abs(info.duration - 6) < 0.2
    assert len(soundfile.read(io.BytesIO(joined))[0]) == 3 * RATE
    assert np.isclose(probe_bytes(joined, "a").duration, info.duration)
