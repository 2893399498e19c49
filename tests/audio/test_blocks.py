"""Blocks of a segment: exactly the samples that `decode` returns, or its reject, in memory that does not grow."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio import segments, source
from prepcli.audio.encode import encode
from prepcli.audio.probe import probe
from prepcli.audio.segments import Segment, decode, decoded_blocks, mono_blocks, whole
from prepcli.errors import RecordRejected
from prepcli.storage.addresses import ByteRange
from tests.audio.bench import Bench
from tests.audio.oddities import ODDITIES
from tests.audio.signals import tones, written
from tests.audio.test_ffmpeg import encoded
from tests.audio.test_read import LOSSLESS
from tests.support.memory import peak_megabytes
from tests.support.seeds import some_of
from tests.support.tools import need

STEREO = np.stack([tones(3), tones(3, seed=1)], axis=1)
LOSSY = ("mp3", "ogg", "opus")


def outcome(segment: Segment, *, in_blocks: bool) -> tuple[str, bytes]:
    """The type and the samples of a segment, or the reason why it is a reject and no samples."""
    try:
        if not in_blocks:
            samples = decode(segment)
        else:
            blocks = list(decoded_blocks(segment))
            assert {len(block) for block in blocks[:-1]} <= {segments.BLOCK_SAMPLES}
            samples = np.concatenate(blocks)
    except RecordRejected as rejected:
        return rejected.detail, b""
    return f"{samples.dtype} {samples.shape}", samples.tobytes()


def compare(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare blocks of a file with `decode`: by its path, in memory, and inside a longer file, such as a tar."""
    data = path.read_bytes()
    path.with_name("outer").write_bytes(bytes(512) + data + bytes(512))
    outer = ByteRange(str(path.with_name("outer")), 512, len(data))
    try:
        info = probe(path)
    except RecordRejected:
        return
    monkeypatch.setattr(source, "_SHORT", 0)  # also a short range is not read at once
    for audio in (str(path), data, outer):
        for start, length in ((0, info.num_samples), (7001, info.num_samples - 9001), (100, 0)):
            for channel in (None, "mix", info.num_channels - 1):
                segment = Segment(audio, info, start, max(length, 0), channel, "a")
                expected = outcome(segment, in_blocks=False)
                for size in (1000, 17_001):
                    monkeypatch.setattr(segments, "BLOCK_SAMPLES", size)
                    assert outcome(segment, in_blocks=True) == expected, (path, start, channel, size)


@pytest.mark.parametrize(("container", "subtype"), [row[:2] for row in LOSSLESS])
def test_lossless_formats(tmp_path: Path, container: str, subtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(written(STEREO, container, subtype))
    compare(tmp_path / "a", monkeypatch)


@pytest.mark.parametrize("format", LOSSY)
def test_lossy_formats(tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(encode(STEREO, 16000, format))
    compare(tmp_path / "a", monkeypatch)


@pytest.mark.parametrize("name", ["a.m4a", "first.m4a", "a.webm"])
def test_formats_of_ffmpeg(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(encoded(tmp_path, tones(2), name), monkeypatch)


def test_odd_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for oddity in ODDITIES:
        if not oddity.programs:
            (tmp_path / oddity.name).write_bytes(oddity.make(Bench(tmp_path)))
            compare(tmp_path / oddity.name, monkeypatch)


@pytest.mark.slow
def test_odd_files_of_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("flac")
    need("ffmpeg")
    bench = Bench(tmp_path)
    for oddity in some_of(one for one in ODDITIES if one.programs):
        (tmp_path / oddity.name).write_bytes(oddity.make(bench))
        compare(tmp_path / oddity.name, monkeypatch)


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
@pytest.mark.parametrize("kind", ["wav", "flac", *LOSSY])
def test_damage_behind_the_first_blocks(
    tmp_path: Path, kind: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks before the fault come, and then the reject of `decode`."""
    data = encode(STEREO, 16000, kind)
    path = tmp_path / "a"
    path.write_bytes(data)
    segment = whole(str(path), probe(path), "a")
    half = len(data) * 2 // 3
    path.write_bytes(data[:half] + (b"" if damage == "cut" else bytes(len(data) - half)))
    monkeypatch.setattr(segments, "BLOCK_SAMPLES", 1000)
    expected = outcome(segment, in_blocks=False)
    assert outcome(segment, in_blocks=True) == expected
    if not expected[1]:
        blocks = decoded_blocks(segment)
        assert len(next(blocks)) == 1000
        with pytest.raises(RecordRejected, match=r"a (ends early|can't be decoded)"):
            list(blocks)
    assert damage == "overwritten" or not expected[1]


def test_samples_that_are_not_finite_are_counted_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = STEREO / np.float32(32768)
    samples[[20_000, 20_001, 40_000], 1] = np.nan
    (tmp_path / "a").write_bytes(written(samples, "WAV", "FLOAT"))
    segment = whole(str(tmp_path / "a"), probe(tmp_path / "a"), "a")
    monkeypatch.setattr(segments, "BLOCK_SAMPLES", 1000)
    got = 0
    with pytest.raises(RecordRejected) as caught:
        for block in decoded_blocks(segment):
            got += len(block)
    assert got == 20_000
    assert caught.value.detail == outcome(segment, in_blocks=False)[0]
    assert "3 of 48000 samples" in caught.value.detail


@pytest.mark.parametrize("dtype", ["int16", "int32", "float32"])
def test_the_mean_of_all_channels(tmp_path: Path, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subtype = {"int16": "PCM_16", "int32": "PCM_24", "float32": "FLOAT"}[dtype]
    (tmp_path / "a").write_bytes(written(STEREO / 32768 if dtype == "float32" else STEREO, "WAV", subtype))
    monkeypatch.setattr(segments, "BLOCK_SAMPLES", 1000)
    blocks = list(mono_blocks(whole(str(tmp_path / "a"), probe(tmp_path / "a"))))
    assert {block.dtype.name for block in blocks} == {"float32"}
    assert np.abs(np.concatenate(blocks) - STEREO.mean(axis=1) / 32768).max() < 1e-7


_PEAK = """
import sys
from prepcli.audio.probe import probe
from prepcli.audio.segments import mono_blocks, whole
from prepcli.storage.addresses import ByteRange
path, start, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
audio = ByteRange(path, start, length) if start else path
assert sum(len(block) for block in mono_blocks(whole(audio, probe(audio)))) == int(sys.argv[4])
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wav", "flac", "flac in a tar"])
def test_memory_does_not_grow_with_the_length(tmp_path: Path, kind: str) -> None:
    """Decoded as a whole, the longer file would take hundreds of MB more."""
    start = 512 if "tar" in kind else 0
    piece = np.tile(STEREO, (20, 1))
    peaks = []
    for count in (3, 25):
        path = tmp_path / str(count)
        container, subtype = ("WAV", "PCM_16") if kind == "wav" else ("FLAC", "PCM_24")
        with soundfile.SoundFile(path, "w", 16000, 2, subtype, format=container) as file:
            for _ in range(count):
                file.write(piece)
        if start:
            path.write_bytes(bytes(start) + path.read_bytes())
        peaks.append(peak_megabytes(_PEAK, path, start, path.stat().st_size - start, count * len(piece)))
    assert peaks[1] - peaks[0] < 40
