"""Long audio is given to libsndfile in blocks, for what it gets at once libvorbis puts onto the stack."""

import os
import sys

import numpy as np
import pytest

from prepcli.audio import encode as encoding
from prepcli.audio.encode import encode
from prepcli.audio.probe import probe_bytes
from prepcli.audio.read import read_segment
from tests.audio.signals import tones
from tests.support.running import run_process

# In a process of its own: a crash would be that of the test's.
CODE = """
import sys
import numpy as np
from prepcli.audio.encode import encode
from prepcli.audio.probe import probe_bytes

for words in sys.argv[1:]:
    format, seconds, rate, channels = words.split()[0], *map(int, words.split()[1:])
    samples = np.zeros((seconds * rate, channels), np.int16)
    samples[:rate] = np.random.default_rng(0).integers(-3000, 3000, (rate, channels))
    assert probe_bytes(encode(samples, rate, format), "a").num_samples == len(samples)
    print(words, flush=True)
"""
LONG = ["ogg 100 8000 1", "ogg 50 16000 2", "opus 100 8000 1", "mp3 100 8000 1", "flac 100 8000 1"]
"""Formats, seconds, sampling rates and channels."""


@pytest.mark.slow
def test_more_than_the_stack_holds() -> None:
    # 2 MB of stack: Vorbis needed four bytes of it a sample, 3.2 MB for these.
    command = [sys.executable, "-c", CODE, *LONG]
    outcome = run_process(["sh", "-c", 'ulimit -s 2048 && exec "$@"', "sh", *command], env=dict(os.environ))
    assert outcome.out.splitlines() == LONG, f"the one after these: {outcome}"
    assert (outcome.code, outcome.err) == (0, "")


@pytest.mark.parametrize("format", ["flac", "opus", "ogg", "mp3", "wav"])
@pytest.mark.parametrize("block", [1, 2500, 1 << 20])
def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch, format: str, block: int) -> None:
    samples = np.stack([tones(0.6), tones(0.6, seed=1)], axis=1)
    rate = 16000
    usual = encode(samples, rate, format)
    monkeypatch.setattr(encoding, "_BLOCK", block)
    data = encode(samples, rate, format)
    assert data == encode(samples, rate, format)
    info = probe_bytes(data, "a")
    assert info == probe_bytes(usual, "a")
    decoded, expected = (read_segment(one, info).astype(np.float64) for one in (data, usual))
    if format in ("flac", "wav"):
        assert np.array_equal(decoded, samples)
    assert np.corrcoef(decoded.ravel(), expected.ravel())[0, 1] > 0.999
    if format != "ogg":  # libvorbis sees another past in blocks of other sizes
        assert data == usual
