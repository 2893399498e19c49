"""Encoded audio is opened in a file, in a range of a file, and in memory: the samples are the same."""

import errno
import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.probe import probe
from prepcli.audio.segments import MELS, SHAR_CODES, WENET, TargetFormat, decode, encoded, locate
from prepcli.errors import RecordRejected, RejectReason
from prepcli.storage import ahead
from prepcli.storage.addresses import ByteRange
from tests.audio.test_segments import flac


def test_a_file_a_member_of_a_tar_and_bytes_are_the_same_audio(tmp_path: Path) -> None:
    data = flac(channels=2)
    (tmp_path / "a.flac").write_bytes(data)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "a.flac", "x.flac")
        tar.add(tmp_path / "a.flac", "y.flac")
    with tarfile.open(tmp_path / "a.tar") as tar:
        member = tar.getmember("y.flac")
    part = ByteRange(str(tmp_path / "a.tar"), member.offset_data, member.size)
    decoded, stored = [], []
    for source in (str(tmp_path / "a.flac"), part, data):
        segment = locate(source, probe(source), 0.25, 0.5, 1, MELS)
        decoded.append(decode(segment).tobytes())
        stored.append(encoded(locate(source, probe(source), 0.0, 1.23, None, WENET), TargetFormat(), WENET).data)
        assert (segment.offset, segment.duration) == (0.25, 0.5)
    second = soundfile.read(tmp_path / "a.flac", dtype="int16")[0][4000:12000, 1]
    assert decoded == [second.tobytes()] * 3
    assert stored == [data] * 3


def test_plain_wav_in_a_tar_that_ends_early(tmp_path: Path) -> None:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(8000), 16000, format="WAV", subtype="PCM_16")
    (tmp_path / "x").write_bytes(bytes(100) + file.getvalue())
    source = ByteRange(str(tmp_path / "x"), 100, len(file.getvalue()))
    segment = locate(source, probe(source), 0.0, 0.5, None, SHAR_CODES)
    assert len(decode(segment)) == 8000
    (tmp_path / "x").write_bytes(bytes(100) + file.getvalue()[:-2])
    with pytest.raises(RecordRejected, match=r"audio at 100 in .*/x ends early"):
        decode(segment)


def test_a_member_of_a_tar_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(piece: ByteRange) -> bytes:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), piece.path)

    monkeypatch.setattr(ahead, "piece_of", read)
    for folder in (str(tmp_path), "s3://bucket"):
        with pytest.raises(RecordRejected, match="name of the member does not exist") as caught:
            probe(ByteRange(f"{folder}/a.tar", 512, 1000), "name of the member")
        assert caught.value.reason is RejectReason.MISSING_AUDIO
