"""FLAC that was joined or cut without decoding: its frames get the right numbers, and give all samples."""

import itertools

import numpy as np
import pytest

from prepcli.audio import flac, flac_frames
from prepcli.audio.encode import encode
from prepcli.audio.probe import probe_bytes
from prepcli.audio.read import read_segment
from tests.audio.signals import RATE, flipped, id3v2, tones


def frames_of(data: bytes) -> list[flac_frames.Frame]:
    frames = flac_frames.scan(data)
    assert frames is not None
    return frames


def joined(*parts: bytes) -> bytes:
    """The frames of several files after the header of the first one, as programs join them that do not decode."""
    return parts[0] + b"".join(part[frames_of(part)[0].start :] for part in parts[1:])


@pytest.mark.parametrize("between", [b"", id3v2(20)], ids=["files", "files with tags"])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("is_cat", [True, False])
def test_joined_files_have_all_samples(channels: int, is_cat: bool, between: bytes) -> None:
    sounds = [np.stack([tones(s, seed=k)] * channels, axis=1) for k, s in enumerate((1.3, 0.7, 1.3))]
    files = [encode(sound, RATE, "flac") for sound in sounds]
    data = between.join(files) if is_cat else joined(*files)
    info = probe_bytes(data, "a.flac")
    whole = np.concatenate(sounds)
    assert (info.format, info.num_samples) == ("sox", len(whole))
    assert np.array_equal(read_segment(data, info), whole)
    for start in (0, 1, 20_000, 21_000, 33_000, len(whole) - 5):
        count = min(3000, len(whole) - start)
        assert np.array_equal(read_segment(data, info, start, count), whole[start : start + count])
    copy = flac_frames.plain_copy(data, frames_of(data))
    assert probe_bytes(copy, "copy")._replace(format="sox") == info
    assert flac.frames_fit(copy)


@pytest.mark.parametrize("seconds", [(1.0, 1.0), (0.2, 0.2), (2.0, 2.0, 2.0), (0.1, 0.1)])
def test_parts_of_the_same_length(seconds: tuple[float, ...]) -> None:
    """The last frame ends at the sample that the header names, so only the frames before show the other parts."""
    files = [encode(tones(length, seed=k), RATE, "flac") for k, length in enumerate(seconds)]
    for data in (joined(*files), b"".join(files)):
        assert probe_bytes(data, "a.flac").num_samples == round(sum(seconds) * RATE)


@pytest.mark.parametrize(("first", "last"), [(3, None), (3, 6), (1, 2)])
def test_pieces_of_a_file(first: int, last: int | None) -> None:
    sound = tones(4)
    data = encode(sound, RATE, "flac")
    frames = frames_of(data)
    end = frames[last].start if last else len(data)
    piece = data[: frames[0].start] + data[frames[first].start : end]
    info = probe_bytes(piece, "a.flac")
    expected = sound[frames[first].number : frames[last].number if last else None]
    assert (info.format, info.num_samples) == ("sox", len(expected))
    assert np.array_equal(read_segment(piece, info)[:, 0], expected)


def test_scan() -> None:
    data = encode(tones(2), RATE, "flac")
    frames = frames_of(data)
    assert [frame.end for frame in frames[:-1]] == [frame.start for frame in frames[1:]]
    assert frames[-1].end == len(data)
    assert [frame.number for frame in frames] == [0, *itertools.accumulate(frame.samples for frame in frames[:-1])]
    assert flac_frames.scan(flipped(data, frames[2].start + 100)) is None
    assert flac_frames.scan(data[:-1]) is None
    for length in range(frames[0].start + 20):
        assert flac_frames.scan(data[:length]) is None
    other_rate = encode(tones(1), 22050, "flac")
    assert flac_frames.scan(data + other_rate) is None
    assert flac_frames.scan(joined(data, other_rate)) is None


@pytest.mark.parametrize("number", [0, 127, 128, 2047, 2048, 65535, 65536, 1 << 20, 1 << 26, 1 << 31, (1 << 36) - 4096])
def test_numbers_of_frames(number: int) -> None:
    data = encode(tones(1), RATE, "flac")
    info = flac.stream_info(data)
    assert info is not None
    frame = frames_of(data)[1]
    other = flac_frames._renumbered(data[frame.start : frame.end], frame.header_bytes, number)
    header = flac.frame_header(other[:16], info)
    assert header is not None
    assert (header.number, header.samples) == (number, frame.samples)
    assert flac.crc16_fits(other)
