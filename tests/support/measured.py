"""Measures of whole audio, which the meters get in blocks."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from prepcli.audio import measures
from prepcli.audio.measures import Frames, Levels, Meter

MeterT = TypeVar("MeterT", bound=Meter)
Samples = NDArray[Any]


def fed(meter: MeterT, samples: Samples, size: int = 4097) -> MeterT:
    """The meter after all samples, in blocks of `size`."""
    for start in range(0, len(samples), size):
        meter.add(samples[start : start + size])
    return meter


def bandwidth(mono: Samples, rate: int) -> int | None:
    """The bandwidth in Hz."""
    return fed(measures.BandwidthMeter(rate), mono).bandwidth()


def bandwidth_sdp(mono: Samples, rate: int) -> int | None:
    """The bandwidth in Hz of the first 30 s, at 44.1 kHz."""
    return fed(measures.SdpBandwidthMeter(rate), mono).bandwidth()


def frames_of(mono: Samples, rate: int) -> Frames:
    """The power of frames."""
    return fed(measures.FrameMeter(rate), mono).frames()


def loudness(samples: Samples, rate: int) -> float | None:
    """The loudness of samples (n, channels)."""
    return fed(measures.LoudnessMeter(rate), samples).loudness()


def levels(samples: Samples, subtype: str) -> Levels:
    """The levels of samples (n, channels)."""
    return fed(measures.LevelMeter(subtype), samples).levels()


def has_equal_channels(samples: Samples) -> bool | None:
    """Whether samples (n, channels) have equal channels."""
    return fed(measures.ChannelMeter(), np.asarray(samples)).equal
