"""Errors of the operating system name the file that they are about."""

import os
from pathlib import Path

import pytest

from prepcli.errors import naming


def test_an_error_without_a_file_gets_its_name(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(IsADirectoryError) as caught, naming(tmp_path / "a"):
            os.read(folder, 1)
    finally:
        os.close(folder)
    assert caught.value.filename == str(tmp_path / "a")


def test_an_error_with_a_file_keeps_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, naming(tmp_path / "a"):
        (tmp_path / "b").read_bytes()
    assert Path(caught.value.filename) == tmp_path / "b"
