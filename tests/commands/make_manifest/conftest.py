"""A folder of audio that tests of make-manifest share."""

from pathlib import Path

import pytest

from tests.support.audio_files import write_audio


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    """Two files with one stem, and a third."""
    for number, name in enumerate(("a/x.wav", "b/x.wav", "b/y.flac")):
        write_audio(tmp_path / "audio" / name, 0.5 + number / 4, seed=number)
    return tmp_path / "audio"
