"""Segments of MP3 whose frames hold little: each borrows bits from many before it, with which decoding must begin."""

import random
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.probe import probe_file
from prepcli.audio.read import read_segment
from tests.audio.conftest import Samples
from tests.fuzz.examples import rounds

NEARLY_SILENT = 4000


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("mode", ["CONSTANT", "VARIABLE"])
@pytest.mark.parametrize("rate", [8000, 16000, 24000, 44100, 48000])
def test_segments(tmp_path: Path, speech: Samples, rate: int, mode: str, channels: int) -> None:
    path = tmp_path / "a.mp3"
    voice = speech[-rounds(len(speech), fast=40_000) :]
    mono = np.concatenate([voice, voice // 50, voice // NEARLY_SILENT, voice])
    samples = np.stack([np.roll(mono, 7777 * channel) for channel in range(channels)], axis=1)
    soundfile.write(path, samples, rate, format="MP3", bitrate_mode=mode, compression_level=0.999)
    info = probe_file(path)
    whole = read_segment(path, info)
    rng = random.Random(0)
    wrong = []
    for _ in range(rounds(60, fast=15)):
        start = rng.randrange(info.num_samples - 3000)
        got = read_segment(path, info, start, 3000)
        if np.abs(got - whole[start : start + 3000]).max() > 1e-6:
            wrong.append(start)
    assert not wrong
