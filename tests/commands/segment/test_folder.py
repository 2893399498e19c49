"""A folder of audio as the input."""

from pathlib import Path

import pytest

from prepcli.commands.segment.folder import audio_in
from prepcli.errors import UsageError
from tests.commands.segment.test_command import talk


def test_files_are_sorted_and_others_are_left_out(tmp_path: Path) -> None:
    for name in ("b.wav", "a/z.flac", ".hidden.wav", "x.prepcli/y.wav"):
        talk(tmp_path / name, 0.5)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "broken.wav").write_bytes(b"RIFF")
    [found] = audio_in(str(tmp_path), True) or []
    lines = list(found.read(str(tmp_path)))
    names = [line.split(b'"')[3].decode() for line in lines]
    assert names == [str(tmp_path / name) for name in ("a/z.flac", "b.wav", "broken.wav")]
    assert b"unreadable_audio" in lines[2]


def test_a_single_file(tmp_path: Path) -> None:
    talk(tmp_path / "a.wav", 0.5)
    [found] = audio_in(str(tmp_path / "a.wav"), False) or []
    [line] = found.read(str(tmp_path / "a.wav"))
    assert b'a.wav", "duration": 0.5' in line or b'a.wav","duration":0.5' in line


def test_a_folder_without_audio_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is empty"):
        audio_in(str(tmp_path), True)
