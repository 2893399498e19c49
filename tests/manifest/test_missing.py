"""What is said before the work if none of the audio files of a sample is there."""

import os
from pathlib import Path

import pytest

from prepcli.manifest.missing import explain_missing


def sample(base: Path, *paths: str) -> list[tuple[str, str]]:
    return [(str(base), path) for path in paths]


def test_one_file_is_enough(tmp_path: Path) -> None:
    (tmp_path / "b.wav").touch()
    assert explain_missing(sample(tmp_path, "a.wav", "b.wav")) is None


def test_the_folder_nearby_that_has_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the base folder or the source, or the current folder; else no folder is named."""
    (tmp_path / "audio/x").mkdir(parents=True)
    (tmp_path / "audio/x/a.wav").touch()
    lists = tmp_path / "audio/lists/train"
    wanted = f"but x/a.wav is in {tmp_path / 'audio'}: give --audio-base-dir {tmp_path / 'audio'}"
    assert wanted in str(explain_missing(sample(lists, "x/a.wav", "x/b.wav")))
    elsewhere = tmp_path / "elsewhere"
    assert wanted in str(explain_missing(sample(elsewhere, "x/a.wav"), near=str(lists / "list.txt")))
    assert "give the right folder with --audio-base-dir, or mount it" in str(
        explain_missing(sample(elsewhere, "x/a.wav"))
    )
    monkeypatch.chdir(tmp_path / "audio")
    assert wanted in str(explain_missing(sample(elsewhere, "x/a.wav")))


def test_absolute_paths(tmp_path: Path) -> None:
    found = explain_missing(sample(tmp_path, os.path.join(tmp_path, "a.wav")), "list.txt")
    assert f"the audio file {tmp_path}/a.wav does not exist, and list.txt names no other" in str(found)
    assert "is the folder mounted?" in str(found)
