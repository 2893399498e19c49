"""Speech for the tests, a folder with an odd name, and a machine without any program."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from tests.conftest import MINI_CORPUS

Samples = NDArray[Any]
SPEECH_SAMPLES = 122208


@pytest.fixture(scope="session")
def speech() -> Samples:
    """About five seconds of speech at 22.05 kHz, int16, mono, taken to be at 16 kHz, with a little noise."""
    parts = [soundfile.read(MINI_CORPUS / f"s01/s01_u{number}.flac", dtype="int16")[0] for number in range(1, 5)]
    samples = np.concatenate(parts)[:SPEECH_SAMPLES]
    noise = np.random.default_rng(0).normal(0, 30, SPEECH_SAMPLES)
    loud: Samples = (samples * 2.8 + noise).astype(np.int16)  # peaks at 0.7 of full scale
    return loud


@pytest.fixture(scope="session")
def short_speech(speech: Samples) -> Samples:
    """Its last two seconds and a half: for tests that compare many decodes of all that they are given."""
    return speech[-40_000:]


@pytest.fixture
def odd_path(tmp_path: Path) -> Path:
    """A folder whose name holds what shells, globs and option parsers stumble over."""
    path = tmp_path / '-n *it\'s "a"\n[b] {c}\\ |d'
    path.mkdir()
    return path


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without sox, ffmpeg and sph2pipe."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert shutil.which("sox") is None


def as_float(samples: Samples) -> Samples:
    """int16 or int32 samples as float64 in [-1, 1)."""
    return samples / -float(np.iinfo(samples.dtype).min)
