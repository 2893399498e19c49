"""Measures of the audio of a record, as fields."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.channels import mono
from prepcli.audio.measures import (
    BandwidthMeter,
    ChannelMeter,
    FrameMeter,
    LevelMeter,
    LoudnessMeter,
    Meter,
    SdpBandwidthMeter,
    silence,
    snr,
)
from prepcli.audio.segments import Segment, decoded_blocks
from prepcli.manifest.record import Value
from prepcli.models.silero import SAMPLING_RATE, speech_probabilities, speech_segments


def audio_measures(segment: Segment, groups: Sequence[str]) -> dict[str, Value]:
    """Return the fields of a segment of audio, which is read once; a measure that cannot be taken is None.

    Raises:
        RecordRejected: the segment cannot be decoded.
    """
    rate, num_samples = segment.info.sampling_rate, segment.num_samples
    level, loudness, channels = LevelMeter(segment.info.subtype), LoudnessMeter(rate), ChannelMeter()
    bandwidth, power, sdp = BandwidthMeter(rate), FrameMeter(rate), SdpBandwidthMeter(rate)
    of_samples: list[Meter] = [level, loudness, channels] if "basic" in groups else []
    of_mono: list[Meter] = [bandwidth, power] if "basic" in groups else []
    if "bandwidth_sdp" in groups:
        of_mono.append(sdp)
    blocks = _measured(decoded_blocks(segment), of_samples, of_mono)
    speech = _speech(blocks, rate, num_samples) if "speech" in groups else {}
    for _ in blocks:  # unless all are used for speech
        pass
    measures: dict[str, Value] = {}
    if "basic" in groups:
        levels, frames = level.levels(), power.frames()
        quiet = silence(frames, num_samples, rate)
        measures = {
            "bandwidth": bandwidth.bandwidth(),
            "loudness": _rounded(loudness.loudness()),
            "peak_db": _rounded(levels.peak_db),
            "dc": _rounded(levels.dc, 9),
            "clipped": _rounded(levels.clipped, 9),
            "snr": _rounded(snr(frames, num_samples / rate)),
            "silence_share": _rounded(quiet and quiet.share),
            "silence_start": _rounded(quiet and quiet.start),
            "silence_end": _rounded(quiet and quiet.end),
            "equal_channels": channels.equal,
        }
    if "bandwidth_sdp" in groups:
        measures["bandwidth_sdp"] = sdp.bandwidth()
    return measures | speech


def _measured(
    blocks: Iterator[NDArray[Any]], of_samples: Sequence[Meter], of_mono: Sequence[Meter]
) -> Iterator[NDArray[np.float32]]:
    """Yield blocks as mono, after the meters have got them."""
    for samples in blocks:
        for meter in of_samples:
            meter.add(samples)
        block = mono(samples)
        for meter in of_mono:
            meter.add(block)
        yield block


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
