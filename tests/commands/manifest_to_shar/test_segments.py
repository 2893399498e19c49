"""The store of encoded segments: each made once, kept in bounded memory, dropped after its last use."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from prepcli.audio.probe import probe_bytes
from prepcli.audio.segments import SHAR, EncodedAudio, Segment, TargetFormat, encoded
from prepcli.commands.exports.records import Conversion
from prepcli.commands.manifest_to_shar import segments as shar_segments
from prepcli.commands.manifest_to_shar.segments import SegmentStore
from prepcli.errors import RecordRejected
from tests.support.audio_files import write_audio

FLAC = Conversion(TargetFormat("flac"), SHAR)


def plain(wanted: TargetFormat, segment: Segment) -> EncodedAudio:
    """The segment from a store of its own."""
    with SegmentStore(Conversion(wanted, SHAR), None) as store:
        store.expect(segment)
        return store.take(segment)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Segment]:
    """The segments that were encoded."""
    found: list[Segment] = []

    def counted(segment: Segment, *arguments: Any, **options: Any) -> EncodedAudio:
        found.append(segment)
        return encoded(segment, *arguments, **options)

    monkeypatch.setattr(shar_segments, "encoded", counted)
    return found


@pytest.mark.parametrize("cache_bytes", [0, 60_000, 1 << 30])
def test_each_segment_is_encoded_once(tmp_path: Path, cache_bytes: int, calls: list[Segment]) -> None:
    """In memory, partly in the file, wholly in the file: the same bytes."""
    write_audio(tmp_path / "a.wav", 10.0)
    wanted = TargetFormat("flac")
    places = [(n * 0.5, 1.0 + n * 0.1) for n in range(12)]
    uses = [place for place in places for _ in range(4)]
    random.Random(0).shuffle(uses)
    with SegmentStore(Conversion(wanted, SHAR), tmp_path, cache_bytes) as store:
        segments = [store.locate(str(tmp_path / "a.wav"), *place, None) for place in uses]
        for segment in segments:
            store.expect(segment)
        taken = [store.take(segment) for segment in segments]
        assert Counter(calls) == Counter(set(segments))
        assert not store._kept
        assert store._free_bytes == cache_bytes
    assert taken == [plain(wanted, segment) for segment in segments]
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]


def test_spelled_otherwise_it_is_the_same_segment(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 2.0)
    with SegmentStore(FLAC, None) as store:
        first, second = (store.locate(str(tmp_path / "a.wav"), 0.5, d, None) for d in (1.0, 1.00001))
        assert first == second


@pytest.mark.parametrize("format", ["flac", "wav", "opus", "mp3"])
def test_what_it_says_of_the_audio_is_what_a_reader_finds(tmp_path: Path, format: str) -> None:
    write_audio(tmp_path / "a.wav", 2.0, rate=22050, channels=2)
    with SegmentStore(Conversion(TargetFormat(format, 48000 if format == "opus" else 16000), SHAR), None) as store:
        segment = store.locate(str(tmp_path / "a.wav"), 0.3, 1.2345, 1)
        store.expect(segment)
        audio = store.take(segment)
    info = probe_bytes(audio.data, "a")
    assert (info.format, info.sampling_rate, info.num_samples) == (audio.format, audio.sampling_rate, audio.num_samples)
    assert info.num_channels == 1


def test_a_failure_is_remembered(tmp_path: Path, calls: list[Segment]) -> None:
    write_audio(tmp_path / "a.flac", 2.0)
    whole = (tmp_path / "a.flac").read_bytes()
    (tmp_path / "a.flac").write_bytes(whole[:3000] + bytes(9000) + whole[12000:])
    with SegmentStore(FLAC, None) as store:
        segment = store.locate(str(tmp_path / "a.flac"), 0.1, 1.5, None)
        for _ in range(3):
            store.expect(segment)
        details = []
        for _ in range(3):
            with pytest.raises(RecordRejected) as caught:
                store.take(segment)
            details.append(caught.value.detail)
        assert len(set(details)) == 1
        assert calls == [segment]
