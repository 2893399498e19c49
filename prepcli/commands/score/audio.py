"""Measures of the audio of a record, as fields."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.measures import (
    Mean,
    Mono,
    bandwidth,
    bandwidth_sdp,
    frames_of,
    has_equal_channels,
    levels,
    loudness,
    silence,
    snr,
)
from prepcli.audio.segments import BLOCK_SAMPLES, Segment, decode
from prepcli.manifest.record import Value
from prepcli.models.silero import SAMPLING_RATE, speech_probabilities, speech_segments


def audio_measures(segment: Segment, groups: Sequence[str]) -> dict[str, Value]:
    """Return the fields of a segment of audio; a measure that cannot be taken is None.

    Raises:
        RecordRejected: the segment cannot be decoded.
    """
    samples, rate = decode(segment), segment.info.sampling_rate
    mono = Mean(samples)
    measures: dict[str, Value] = {}
    if "basic" in groups:
        measures |= _basic(samples, mono, rate, segment.info.subtype)
    if "bandwidth_sdp" in groups:
        measures["bandwidth_sdp"] = bandwidth_sdp(mono, rate)
    if "speech" in groups:
        blocks = (mono[start : start + BLOCK_SAMPLES] for start in range(0, len(mono), BLOCK_SAMPLES))
        measures |= _speech(blocks, rate, len(mono))
    return measures


def _basic(samples: NDArray[Any], mono: Mono, rate: int, subtype: str) -> dict[str, Value]:
    level, frames = levels(samples, subtype), frames_of(mono, rate)
    quiet = silence(frames, len(mono), rate)
    equal = has_equal_channels(samples)
    return {
        "bandwidth": bandwidth(mono, rate),
        "loudness": _rounded(loudness(samples, rate)),
        "peak_db": _rounded(level.peak_db),
        "dc": _rounded(level.dc, 9),
        "clipped": _rounded(level.clipped, 9),
        "snr": _rounded(snr(frames, len(mono) / rate)),
        "silence_share": _rounded(quiet and quiet.share),
        "silence_start": _rounded(quiet and quiet.start),
        "silence_end": _rounded(quiet and quiet.end),
        "equal_channels": equal,
    }


def _speech(blocks: Iterable[NDArray[np.float32]], rate: int, num_samples: int) -> dict[str, Value]:
    """Measure how much speech there is, and where, in mono audio of `num_samples` samples at `rate` Hz."""
    length = -(-num_samples * SAMPLING_RATE // rate)
    speech = speech_segments(speech_probabilities(blocks, rate), length)
    share = sum(end - start for start, end in speech) / length
    pauses = (later - end for (_, end), (later, _) in pairwise(speech))
    return {
        "speech_share": _rounded(share),
        "speech_start": _rounded(speech[0][0] / SAMPLING_RATE) if speech else None,
        "speech_end": _rounded(speech[-1][1] / SAMPLING_RATE) if speech else None,
        "speech_segments": len(speech),
        "longest_pause": _rounded(max(pauses, default=0) / SAMPLING_RATE) if speech else None,
    }


def _rounded(value: float | None, digits: int = 6) -> float | None:
    """The rounded number; None for a value that JSON does not have, such as NaN."""
    return round(value, digits) if value is not None and math.isfinite(value) else None
