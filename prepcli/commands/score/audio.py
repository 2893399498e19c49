"""Measures of the audio of a record, as fields."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

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
from prepcli.audio.resample import resample
from prepcli.audio.segments import Segment, decode
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
        # `resample` takes slices of `mono`, one after another, as it does with an array.
        measures |= _speech(
            mono if rate == SAMPLING_RATE else resample(cast("NDArray[Any]", mono), rate, SAMPLING_RATE)
        )
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


def _speech(mono: Mono) -> dict[str, Value]:
    """Measure how much speech there is, and where; `mono` has samples at 16 kHz."""
    speech = speech_segments(speech_probabilities(mono), len(mono))
    share = sum(end - start for start, end in speech) / len(mono)
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
