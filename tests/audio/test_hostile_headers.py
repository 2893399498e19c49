"""Files that are made to waste time: each is judged after a bounded number of steps, not one for every few bytes."""

import struct
from pathlib import Path

import pytest

from prepcli.audio import flac, mpeg
from prepcli.audio.probe import probe, probe_bytes
from prepcli.errors import RecordRejected
from tests.audio.signals import tones, written


def flac_of_headers(count: int, num_samples: int) -> bytes:
    """A FLAC file of `count` copies of its first frame's header, whose largest frame is as large as can be said."""
    whole = written(tones(0.5), "FLAC", "PCM_16")
    start = flac.first_frame(whole)
    end = next(end for end in range(start + 5, start + 16) if flac.crc8(whole[start:end]) == whole[end]) + 1
    packed = int.from_bytes(whole[18:26], "big") & ~0xFFFFFFFFF | num_samples
    head = whole[:15] + b"\xff\xff\xff" + packed.to_bytes(8, "big") + whole[26:start]
    return head + whole[start:end] * count


@pytest.mark.parametrize("num_samples", [0, 4096])
def test_flac_of_frame_headers_without_frames(monkeypatch: pytest.MonkeyPatch, num_samples: int) -> None:
    tried: list[int] = []
    crc16_fits = flac.crc16_fits

    def counted(frame: bytes) -> bool:
        tried.append(len(frame))
        return crc16_fits(frame)

    monkeypatch.setattr(flac, "crc16_fits", counted)
    data = flac_of_headers(2000, num_samples)
    with pytest.raises(RecordRejected, match="ends early or is damaged"):
        probe_bytes(data, "a.flac")
    assert len(tried) <= 8


def test_flac_of_sync_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    frame_header = flac.frame_header

    def counted(header: bytes, info: flac.StreamInfo) -> flac.FrameHeader | None:
        looked.append(1)
        return frame_header(header, info)

    monkeypatch.setattr(flac, "frame_header", counted)
    with pytest.raises(RecordRejected, match="ends early or is damaged"):
        probe_bytes(flac_of_headers(0, 4096) + b"\xff\xf8" * 20_000, "a.flac")
    assert len(looked) <= 10_000


def test_wav_without_data_before_a_million_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks without end after "0 bytes of data" are taken for what they more likely are: audio of a streamed WAV."""
    from prepcli.audio.source import FileSource

    reads: list[int] = []
    read = FileSource.read

    def counted(self: FileSource, offset: int, length: int) -> bytes:
        reads.append(offset)
        return read(self, offset, length)

    monkeypatch.setattr(FileSource, "read", counted)
    header = struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36, b"WAVEfmt ", 16, 1, 1, 8000, 16000, 2, 16, b"data", 0)
    path = tmp_path / "a.wav"
    path.write_bytes(header + b"aaaa\0\0\0\0" * 50_000)
    assert probe(path).num_samples == 200_000
    assert len(reads) < 2000


def test_id3_tags_without_end() -> None:
    empty_tag = b"ID3\3\0\0\0\0\0\0"
    wav = written(tones(0.5), "WAV", "FLOAT")
    assert mpeg.skip_id3v2(empty_tag * 3 + wav) == 30
    assert mpeg.skip_id3v2(empty_tag * 50_000) <= 20_000
