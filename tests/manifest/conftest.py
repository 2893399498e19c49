"""Files of all kinds that tests of inputs share."""

import json
from pathlib import Path

import pytest

from tests.support.audio_files import write_audio

NAMES = [f"wavs/u{number}.wav" for number in range(4)]
"""The files in `folder`."""


def write(path: Path, *durations: float, more: bytes = b"") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"audio_filepath": "a.wav", "duration": d}).encode() for d in durations]
    path.write_bytes(b"".join(line + b"\n" for line in lines) + more)
    return str(path)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Manifests a.json (1, 2), b.json (3), m_0..m_2.json (10, 11, 12) in the working directory."""
    write(tmp_path / "a.json", 1, 2)
    write(tmp_path / "b.json", 3)
    for number in range(3):
        write(tmp_path / f"m_{number}.json", 10 + number)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with short recordings."""
    for number, name in enumerate(NAMES):
        write_audio(tmp_path / name, 0.25, seed=number)
    return tmp_path
