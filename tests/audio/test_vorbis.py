"""The length of Vorbis, which is read from its headers, is that which libsndfile states."""

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio import ogg_pages, vorbis
from prepcli.audio.encode import encode
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe
from prepcli.audio.source import ByteSource
from tests.audio import bench
from tests.audio.signals import RATE, flipped, tones, with_granule
from tests.support.tools import tool


def stated(data: bytes) -> AudioInfo | None:
    pages = ogg_pages.scan(ByteSource(data))
    assert pages is not None
    return vorbis.stated(ByteSource(data), pages)


def expected(data: bytes) -> tuple[object, ...]:
    with soundfile.SoundFile(io.BytesIO(data)) as sound:
        return "ogg", sound.subtype, sound.samplerate, sound.frames, sound.channels, None


def replaced(data: bytes, old: bytes, new: bytes) -> bytes:
    """A file with other bytes, of the same number, and checksums that fit."""
    assert data.count(old) == 1
    assert len(old) == len(new)
    return bench.renumbered(bench.ogg_pages(data.replace(old, new)))


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000])
def test_lengths(rate: int, channels: int) -> None:
    for samples in (1, 64, 500, 1025, 4096, 30_001, 100_000):
        data = encode(np.stack([tones(samples / rate, rate)] * channels, axis=1), rate, "ogg")
        assert stated(data) == expected(data)
    silence = encode(np.zeros((200_000, channels), np.int16), rate, "ogg")
    assert stated(silence) == expected(silence)


@pytest.mark.parametrize("options", [("-q:a", "4"), ("-b:a", "48k"), ("-q:a", "2", "-metadata", "title=" + 9000 * "é")])
def test_files_of_ffmpeg(options: tuple[str, ...], tmp_path: Path) -> None:
    wav, path, cut = tmp_path / "a.wav", tmp_path / "a.ogg", tmp_path / "b.ogg"
    soundfile.write(wav, tones(7.3), RATE)
    tool("ffmpeg", "-v", "error", "-i", wav, "-c:a", "libvorbis", *options, path)
    assert stated(path.read_bytes()) == expected(path.read_bytes())
    assert stated(path.read_bytes())[3] == round(7.3 * RATE)  # type: ignore[index]
    tool("ffmpeg", "-v", "error", "-ss", "2", "-i", path, "-c", "copy", cut)
    assert stated(cut.read_bytes()) in (None, expected(cut.read_bytes()))
    assert probe(cut).num_samples == expected(cut.read_bytes())[3]


def test_positions_that_do_not_start_at_zero() -> None:
    pages = bench.ogg_pages(encode(tones(10), RATE, "ogg"))
    later = b"".join(pages[:2]) + b"".join(
        with_granule(page, int.from_bytes(page[6:14], "little") + 1000) for page in pages[2:]
    )
    assert stated(later) == expected(later)
    assert expected(later)[3] == 10 * RATE
    earlier = with_granule(b"".join(pages[:3]), 1) + b"".join(pages[3:])
    assert stated(earlier) is None


def test_files_that_libsndfile_must_open() -> None:
    data = encode(tones(10), RATE, "ogg")
    pages = bench.ogg_pages(data)
    header = len(pages[0]) + len(pages[1])
    after = header + len(pages[2])
    assert stated(data) is not None
    for at in (40, 300, header - 1, header + 600, after - 1):
        assert stated(flipped(data, at)) is None
    assert stated(flipped(data, after + 600)) == expected(data)
    comments, setup = data.index(b"\x03vorbis"), data.index(b"\x05vorbis")
    assert replaced(data, data[comments:setup], data[comments:setup]) == data
    end = data[header - 13 : header]
    for old, new in (
        (data[comments : comments + 11], data[comments : comments + 7] + b"\xff\xff\xff\x7f"),
        (b"\x05vorbis", b"\x04vorbis"),
        (end, end[:4] + b"\x08" + end[5:]),  # within the 32 bits of 0 of a mode
        (pages[0][28:], pages[0][28:35] + b"\1" + pages[0][36:]),
    ):
        other = replaced(data, old, new)
        assert ogg_pages.scan(ByteSource(other)).is_plain  # type: ignore[union-attr]
        assert stated(other) is None
    assert stated(b"".join([pages[0], *pages[2:]])) is None
