"""What stands where a container should is a reject, and not waited for."""

import os
from pathlib import Path

import pytest

from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.members import audio_of
from prepcli.storage.containers import Place


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "zip", "parquet", "ark"])
def test_pipes_and_folders(suffix: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"pipe.{suffix}")
    (tmp_path / f"folder.{suffix}").mkdir()
    for name, words in (("pipe", "is a pipe or a device, not a file"), ("folder", "is a folder, not a file")):
        with pytest.raises(RecordRejected, match=words) as rejected:
            audio_of(Place(str(tmp_path / f"{name}.{suffix}"), "0"))
        assert rejected.value.reason == RejectReason.UNREADABLE_AUDIO


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "zip", "parquet", "ark"])
def test_containers_that_cannot_be_opened(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"loop.{suffix}").symlink_to(f"loop.{suffix}")
    (tmp_path / "file.txt").touch()
    for name, reason in (
        ("loop", RejectReason.UNREADABLE_AUDIO),
        ("x" * 300, RejectReason.UNREADABLE_AUDIO),
        ("file.txt/x", RejectReason.MISSING_AUDIO),
        ("gone", RejectReason.MISSING_AUDIO),
    ):
        with pytest.raises(RecordRejected) as rejected:
            audio_of(Place(f"{tmp_path}/{name}.{suffix}", "0"))
        assert rejected.value.reason == reason
