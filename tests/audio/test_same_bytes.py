"""The same input gives the same bytes, on every run and in every process."""

import hashlib
import io
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.encode import encode
from prepcli.audio.ogg import page_crc
from tests.audio.conftest import Samples

FORMATS = ["flac", "wav", "opus", "ogg", "mp3"]

SCRIPT = """
import sys, hashlib
import soundfile
from prepcli.audio.encode import encode
for dtype in ("int16", "float32"):
    samples, _ = soundfile.read(sys.argv[1], dtype=dtype)
    for format in sys.argv[2:]:
        print(hashlib.sha256(encode(samples, 24000, format)).hexdigest())
"""


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
