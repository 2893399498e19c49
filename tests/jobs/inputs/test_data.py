"""Data sets as inputs of commands that read no audio."""

from pathlib import Path

import pytest

from tests.conftest import SHORT_CORPUS, make_set
from tests.support.running import prepcli


def test_a_numbered_file_that_is_missing(tmp_path: Path) -> None:
    """Not only writers, who read the audio, refuse the rest of a set; its bins would be those of a half."""
    pytest.importorskip("pyarrow")
    make_set("manifest-to-parquet", SHORT_CORPUS / "manifest.json", tmp_path / "made")
    (file,) = (tmp_path / "made").glob("*.parquet")
    (tmp_path / "half").mkdir()
    file.rename(tmp_path / "half/train-00000-of-00002.parquet")
    for command in (("estimate-bins", "-b", 3), ("manifest-to-shar", tmp_path / "out")):
        done = prepcli(command[0], tmp_path / "half", *command[1:])
        message = f"{tmp_path}/half/train-00001-of-00002.parquet is missing; download it too"
        assert (done.code, message in done.error_line) == (2, True)
