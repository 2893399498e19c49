"""Real audio files for the tests: speech from espeak-ng, and what sox, ffmpeg and libsndfile make of it."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

Samples = NDArray[Any]
TEXT = "She had your dark suit in greasy wash water all year. Don't ask me to carry an oily rag like that."


@pytest.fixture(scope="session")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """About five seconds of speech, int16, mono, taken to be at 16 kHz, with a little noise."""
    path = tmp_path_factory.mktemp("speech") / "speech.wav"
    subprocess.run(["espeak-ng", "-w", str(path), TEXT], check=True)
    samples, _ = soundfile.read(path, dtype="int16")
    noise = np.random.default_rng(0).normal(0, 30, len(samples))
    loud: Samples = (samples * 0.7 + noise).astype(np.int16)
    return loud


@pytest.fixture
def odd_path(tmp_path: Path) -> Path:
    """A folder whose name holds what shells, globs and option parsers stumble over."""
    path = tmp_path / '-n *it\'s "a"\n[b] {c}\\ |d'
    path.mkdir()
    return path


@pytest.fixture
def tool() -> Callable[..., None]:
    """Run sox or ffmpeg; the test is skipped where it is not installed."""

    def run(*command: str | Path) -> None:
        if shutil.which(str(command[0])) is None:
            pytest.skip(f"{command[0]} is not installed")
        subprocess.run([str(part) for part in command], check=True, capture_output=True)

    return run


def as_float(samples: Samples) -> Samples:
    """int16 or int32 samples as float64 in [-1, 1)."""
    return samples / -float(np.iinfo(samples.dtype).min)
