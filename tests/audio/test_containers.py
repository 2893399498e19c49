"""Whole files whose writers, on a pipe, could not go back to say how long they are."""

import subprocess

import numpy as np
import pytest

from prepcli.audio.containers import is_unknown, promised_bytes
from prepcli.audio.probe import probe_bytes
from prepcli.audio.read import read_segment
from prepcli.audio.source import ByteSource
from tests.audio.signals import tones, written
from tests.support.tools import need


@pytest.mark.parametrize("kind", ["aiff", "aifc"])
@pytest.mark.parametrize("bits", [16, 24])
def test_aiff_that_sox_writes_to_a_pipe(kind: str, bits: int) -> None:
    sox = need("sox")
    wav = written(tones(0.5), "WAV", "PCM_16")
    command = f"{sox} -t wav - -b {bits} -t {kind} - | cat"
    piped = subprocess.run(["sh", "-c", command], input=wav, stdout=subprocess.PIPE, check=True).stdout
    info = probe_bytes(piped, "a")
    expected = read_segment(wav, probe_bytes(wav, "b"))
    samples = read_segment(piped, info)
    assert info.num_samples == len(expected)
    assert np.array_equal(samples if bits == 16 else samples >> 16, expected)


@pytest.mark.parametrize("size", [2130706512, 2130706518, 2130706519, 0x7F000000 + 20_000])
def test_size_that_sox_leaves(size: int) -> None:
    """2,130,706,432 bytes of audio at most, and the header."""
    head = b"FORM" + size.to_bytes(4, "big") + b"AIFF"
    assert promised_bytes(head, ByteSource(head)) is None


@pytest.mark.parametrize("size", [1000, 900_000_000])
def test_size_of_others_is_a_promise(size: int) -> None:
    head = b"FORM" + size.to_bytes(4, "big") + b"AIFF"
    assert promised_bytes(head, ByteSource(head)) == size + 8


@pytest.mark.parametrize(
    ("size", "there", "unknown"),
    [
        (0, 1000, True),
        (999_999_999, 1000, False),
        (1_000_000_000, 1000, True),
        (2_000_000_000, 1_000_000_000, False),
        (0x7FFFF000, 1_900_000_000, True),
        (0x80000000 - 36, 1_900_000_000, True),
        (0xFFFFFFFF - 36, 1 << 31, True),
        ((1 << 64) - 1, 1 << 40, True),
        (1 << 40, 1 << 39, False),
    ],
)
def test_sizes_that_stand_for_unknown(size: int, there: int, unknown: bool) -> None:
    assert is_unknown(size, there) is unknown
