"""Real audio files for tests: speech-like noise whose samples tell where they come from."""

from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from tests.conftest import MINI_CORPUS, read_lines, write_lines


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
    """The first recordings of the mini corpus, cut down to a tenth: for tests that need records, whatever they hold.

    Returns the manifest in `folder`; decoding is most of what `verify` does with the whole recordings.
    """
    records = read_lines(MINI_CORPUS / "manifest.json")[:count]
    for record in records:
        data, rate = soundfile.read(MINI_CORPUS / record["audio_filepath"], dtype="int16")
        data = data[: len(data) // 10]
        record["duration"] = round(len(data) / rate, 3)
        path = folder / record["audio_filepath"]
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, data, rate)
    return write_lines(folder / "manifest.json", records)
