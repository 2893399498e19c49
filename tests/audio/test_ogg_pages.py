"""What the page headers of Ogg show without decoding: missing pages, several streams, lengths that do not fit."""

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio import ogg_pages
from prepcli.audio.encode import encode
from prepcli.audio.opening import open_source
from prepcli.audio.probe import probe, probe_bytes
from prepcli.audio.read import read_segment
from prepcli.audio.source import ByteSource
from prepcli.errors import RecordRejected
from prepcli.storage.addresses import ByteRange
from tests.audio import bench
from tests.audio.signals import RATE, flipped, tones, with_granule


def scan(data: bytes) -> ogg_pages.Pages | None:
    return ogg_pages.scan(ByteSource(data))


@pytest.mark.slow
@pytest.mark.parametrize("format", ["ogg", "opus"])
@pytest.mark.parametrize("seconds", [0.01, 0.5, 3, 12])
@pytest.mark.parametrize("channels", [1, 2])
def test_whole_files_are_plain(format: str, seconds: float, channels: int) -> None:
    silence = np.zeros(RATE, np.int16)
    samples = np.concatenate([tones(seconds), silence, tones(seconds, seed=1)])
    data = encode(np.stack([samples] * channels, axis=1), RATE, format)
    found = scan(data)
    assert found is not None
    assert found.is_plain
    assert found.streams == [0]
    assert data[found.last :] == bench.ogg_pages(data)[-1]


@pytest.mark.parametrize("format", ["ogg", "opus"])
def test_pages_that_are_missing(format: str) -> None:
    pages = bench.ogg_pages(encode(tones(10), RATE, format))
    for number in (3, 5, len(pages) - 2):
        lost = b"".join(pages[:number] + pages[number + 1 :])
        found = scan(lost)
        assert found is not None
        assert found.has_gap
        if number > 3:
            with pytest.raises(RecordRejected, match="could be decoded; a page is missing"):
                probe_bytes(lost, "a.ogg")
    with pytest.raises(RecordRejected, match="could be decoded"):
        probe_bytes(bench.renumbered(pages[:5] + pages[6:]), "a.ogg")
    late = probe_bytes(b"".join(pages[:2] + pages[5:]), "a.ogg")
    assert late.num_samples < 9 * RATE


@pytest.mark.parametrize("format", ["ogg", "opus"])
def test_other_data(format: str) -> None:
    data = encode(tones(10), RATE, format)
    assert scan(b"x" + data) is None
    assert scan(data + b"x") is None
    assert scan(data[:-1]) is None
    assert scan(b"") is None
    longer = scan(with_granule(data, 10**7))
    assert longer is not None
    assert not longer.is_plain


@pytest.mark.slow
@pytest.mark.parametrize("format", ["ogg", "opus"])
@pytest.mark.parametrize("channels", [1, 2])
def test_files_one_after_the_other(format: str, channels: int, tmp_path: Path, no_tools: None) -> None:
    sounds = [np.stack([tones(seconds, seed=k)] * channels, axis=1) for k, seconds in enumerate((2, 3, 1))]
    files = [encode(sound, RATE, format) for sound in sounds]
    decoded = np.concatenate([read_segment(file, probe_bytes(file, "a")) for file in files])
    path = tmp_path / "a.ogg"
    path.write_bytes(b"".join(files))
    info = probe(path)
    assert (info.format, info.num_samples, info.duration) == ("sox", len(decoded), 6)
    for start, count in ((0, len(decoded)), (5, 1000), (2 * RATE - 10, 50), (len(decoded) - 7, 7)):
        assert np.array_equal(read_segment(path, info, start, count), decoded[start : start + count])
    assert probe_bytes(2 * files[0], "a").duration == 4  # the same serial number


def test_files_of_different_rates_one_after_the_other() -> None:
    data = encode(tones(2), RATE, "ogg") + encode(tones(2, 22050), 22050, "ogg")
    with pytest.raises(RecordRejected, match=r"2 Ogg streams .* differ in sampling rate .* ffmpeg -i 'a b' OUT.flac"):
        probe_bytes(data, "a b")


@pytest.mark.slow
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [8000, 16000, 24000, 48000])
def test_plain_opus_has_what_libsndfile_states(channels: int, rate: int) -> None:
    for seconds in (0.05, 1.01, 2.5, 4.4):
        data = encode(np.stack([tones(seconds, rate)] * channels, axis=1), rate, "opus")
        pages = scan(data)
        assert pages is not None
        stated = ogg_pages.stated_opus(ByteSource(data), pages)
        with soundfile.SoundFile(io.BytesIO(data)) as sound:
            expected = (sound.samplerate, sound.frames, sound.channels, sound.subtype)
            assert len(sound.read()) == sound.frames
        if seconds > 1.5:
            assert stated is not None
        for info in filter(None, (stated, probe_bytes(data, "a"))):
            assert (info.sampling_rate, info.num_samples, info.num_channels, info.subtype) == expected
        # libsndfile skips a page that is damaged.
        for at in (60, pages.audio + 40):
            assert ogg_pages.stated_opus(ByteSource(flipped(data, at)), pages) is None


@pytest.mark.parametrize("format", ["ogg", "opus"])
def test_pages_of_a_file_that_is_read_in_blocks(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(encode(tones(10), RATE, format))
    expected = scan(path.read_bytes())
    for size in (300, 4096, 10_000):
        monkeypatch.setattr(ogg_pages, "_BLOCK", size)
        with open_source(str(path), "a") as source:
            assert ogg_pages.scan(source) == expected
        with open_source(ByteRange(str(path), 0, path.stat().st_size - 1), "a") as source:
            assert ogg_pages.scan(source) is None


@pytest.mark.parametrize("format", ["ogg", "opus"])
def test_an_impossible_position(format: str) -> None:
    found = scan(with_granule(encode(tones(3), RATE, format), -2))
    assert found is not None
    assert not found.is_plain
