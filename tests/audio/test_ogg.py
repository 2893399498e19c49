"""Ogg pages: serial numbers and checksums, and damage anywhere in a stream."""

import io

import numpy as np
import pytest
import soundfile

from prepcli.audio import ogg
from prepcli.audio.encode import encode
from prepcli.audio.ogg import page_crc
from tests.audio.conftest import Samples
from tests.audio.signals import RATE, flipped, tones
from tests.audio.test_flac import refuses


@pytest.mark.slow
@pytest.mark.parametrize("format", ["ogg", "opus"])
def test_ogg_serial_numbers_come_from_the_samples(speech: Samples, format: str) -> None:
    streams = [encode(samples, 16000, format) for samples in (speech, speech[:-1])]
    assert streams[0][14:18] != streams[1][14:18]
    for data in streams:
        starts = [at for at in range(len(data)) if data[at : at + 4] == b"OggS"]
        assert {data[at + 14 : at + 18] for at in starts} == {data[14:18]}


def test_ogg_checksum_is_that_of_libogg(speech: Samples) -> None:
    buffer = io.BytesIO()
    soundfile.write(buffer, speech, 16000, format="OGG", subtype="VORBIS")
    data = buffer.getvalue()
    starts = [at for at in range(len(data)) if data[at : at + 4] == b"OggS"]
    assert len(starts) > 4
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        page = data[start:end]
        assert page_crc(page[:22] + bytes(4) + page[26:]) == int.from_bytes(page[22:26], "little")


@pytest.mark.slow
@pytest.mark.parametrize("format", ["ogg", "opus"])
def test_ogg_with_a_bit_flipped_anywhere(format: str) -> None:
    data = encode(tones(10), RATE, format)
    assert ogg.pages_fit(data)
    assert not ogg.pages_fit(data + b"?")
    pages = data.count(b"OggS")
    assert pages > 5
    for at in np.random.default_rng(1).integers(len(data) // 3, 2 * len(data) // 3, 20).tolist():
        damaged = flipped(data, at, at % 8)
        assert not ogg.pages_fit(damaged)
        assert "ends early" in (refuses(damaged) or "")
