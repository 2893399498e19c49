"""WAV headers as all sorts of writers leave them."""

import os
import random
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.probe import plain_wav_seconds, probe, probe_bytes
from prepcli.audio.read import read_segment
from prepcli.errors import RecordRejected
from tests.audio.conftest import Samples


def chunk(name: bytes, body: bytes, size: int | None = None) -> bytes:
    return name + struct.pack("<I", len(body) if size is None else size) + body + b"\0" * (len(body) & 1)


FMT = chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, 8000, 16000, 2, 16))
BODY = np.arange(-500, 500, dtype="<i2").tobytes()


def riff(*chunks: bytes) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(
    "data",
    [
        riff(FMT, chunk(b"data", BODY)),
        riff(FMT, chunk(b"LIST", b"odd"), chunk(b"fact", b"\0\0\0\0"), chunk(b"data", BODY)),
        riff(FMT, chunk(b"data", BODY), chunk(b"LIST", b"after the samples")),
        riff(FMT, chunk(b"JUNK", b"j" * 70001), chunk(b"data", BODY)),
        riff(FMT, chunk(b"data", BODY, 0xFFFFFFFF)),
        riff(FMT, chunk(b"data", BODY, 0x7FFFF000)),
        riff(chunk(b"fmt ", FMT[8:] + b"\0\0"), chunk(b"data", BODY)),
    ],
    ids=["plain", "chunks before", "chunk after", "far away", "streamed", "streamed by sox", "fmt of 18 bytes"],
)
def test_wav_headers(data: bytes, tmp_path: Path) -> None:
    info = probe_bytes(data, "x")
    assert (info.format, info.num_samples, info.sampling_rate) == ("wav", 1000, 8000)
    assert read_segment(data, info).tobytes() == BODY
    # What we call "wav" and pass on as it is, a trainer's libsndfile must see in the same way.
    path = tmp_path / "x"
    path.write_bytes(data)
    assert soundfile.info(path).frames == 1000
    assert probe(path) == info


@pytest.mark.parametrize("subtype", ["PCM_16", "FLOAT"])
def test_wav_of_unknown_length_is_read_but_not_passable(subtype: str, tmp_path: Path, speech: Samples) -> None:
    path = tmp_path / "x.wav"
    soundfile.write(path, speech, 16000, subtype="PCM_16")
    data = path.read_bytes()
    if subtype == "PCM_16":
        data = data[:40] + b"\0\0\0\0" + data[44:]
    else:
        fmt = chunk(b"fmt ", struct.pack("<HHIIHH", 3, 1, 16000, 64000, 4, 32))
        data = riff(fmt, chunk(b"data", (speech / np.float32(32768)).tobytes(), 0))
    info = probe_bytes(data, "x")
    assert (info.format, info.subtype, info.num_samples) == ("sox", subtype, len(speech))
    samples = read_segment(data, info, 100, 200)[:, 0]
    assert np.array_equal(samples * (1 if subtype == "PCM_16" else 32768), speech[100:300])


@pytest.mark.parametrize("after", [b"", chunk(b"LIST", b"x")], ids=["the end", "a chunk"])
def test_wav_without_samples(after: bytes) -> None:
    with pytest.raises(RecordRejected) as caught:
        probe_bytes(riff(FMT, chunk(b"data", b""), after), "x")
    assert caught.value.detail == "x holds no samples"


def test_plain_headers_are_judged_in_the_same_way(tmp_path: Path) -> None:
    """A header with a few random bytes has the duration that `probe` finds, or is left to it."""
    generator = random.Random(0)
    plain = riff(FMT, chunk(b"data", BODY))
    path = tmp_path / "x.wav"
    num_plain = 0
    for turn in range(600):
        data = bytearray(plain)
        for _ in range(turn and generator.randint(0, 3)):
            data[generator.choice([*range(20, 36), *range(44)])] = generator.choice([0, 1, 2, 3, 6, 8, 16, 32, 255])
        if turn % 7 == 6:
            del data[generator.randrange(len(data)) :]
        path.write_bytes(data)
        found = plain_wav_seconds(str(path))
        if found is not None:
            num_plain += 1
            assert found == probe(path).duration
    assert num_plain > 50


def test_what_is_not_a_plain_wav_file_is_left_to_the_probe(tmp_path: Path) -> None:
    sizes = [struct.pack("<I", size) for size in (0, 1, 2001, 0x7FFFF000, 0xFFFFFFFF)]
    (tmp_path / "x").write_bytes(b"")
    assert plain_wav_seconds(str(tmp_path / "x")) is None
    for size in sizes:
        (tmp_path / "x").write_bytes(riff(FMT, chunk(b"data", BODY)).replace(struct.pack("<I", len(BODY)), size))
        assert plain_wav_seconds(str(tmp_path / "x")) is None
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing", "", "a\0b"):
        assert plain_wav_seconds(str(tmp_path / name)) is None
