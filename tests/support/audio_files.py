"""Real audio files for tests: speech-like noise whose samples tell where they come from."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from tests.conftest import SHORT_CORPUS, read_lines, write_lines


def samples(seconds: float, rate: int = 8000, seed: int = 0, channels: int = 1) -> NDArray[np.int16]:
    """Int16 samples of shape (n,) or (n, channels): reproducible, and different everywhere."""
    shape = (round(seconds * rate),) if channels == 1 else (round(seconds * rate), channels)
    return np.random.default_rng(seed).integers(-8000, 8000, shape, dtype=np.int16)


def write_audio(path: Path, seconds: float, rate: int = 8000, seed: int = 0, **options: Any) -> NDArray[np.int16]:
    """Write an audio file (format by its name) and return the samples."""
    data = samples(seconds, rate, seed, options.pop("channels", 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, data, rate, **options)
    return data


def write_short_corpus(folder: Path, count: int) -> Path:
    """The first records of the short corpus in a folder of their own, for tests that change them; the manifest."""
    records = read_lines(SHORT_CORPUS / "manifest.json")[:count]
    for record in records:
        path = folder / record["audio_filepath"]
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SHORT_CORPUS / record["audio_filepath"], path)
    return write_lines(folder / "manifest.json", records)
