"""Folders that other processes remove while they are made, and the file system of a folder."""

import os
from pathlib import Path

import pytest

from prepcli.engine.state.folders import device_of_new_file, while_others_remove


def test_an_attempt_is_repeated_while_folders_disappear() -> None:
    attempts: list[int] = []

    def attempt() -> int:
        attempts.append(0)
        if len(attempts) < 4:
            raise FileNotFoundError
        return len(attempts)

    assert while_others_remove(attempt) == 4


def test_an_attempt_that_never_succeeds_ends() -> None:
    attempts: list[int] = []

    def attempt() -> None:
        attempts.append(0)
        raise FileExistsError

    with pytest.raises(FileExistsError):
        while_others_remove(attempt)
    assert len(attempts) == 10


def test_the_device_of_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_of_new_file(tmp_path / "a/b") == tmp_path.stat().st_dev
    opened = os.open

    def without_names(path: object, flags: int, *more: int) -> int:
        if getattr(os, "O_TMPFILE", 0) and flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError("not supported")
        return opened(path, flags, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", without_names)
    assert device_of_new_file(tmp_path / "a/b") == tmp_path.stat().st_dev
    assert list((tmp_path / "a/b").iterdir()) == []
