"""The speech in a recording, by Silero's detector, divided if it is too long for a segment."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from prepcli.commands.segment.packing import Rules, Speech
from prepcli.errors import RejectReason
from prepcli.models.silero import END_THRESHOLD, FRAME, SAMPLING_RATE, THRESHOLD, speech_segments

Probabilities = NDArray[np.float32]


def speech_in(probabilities: Probabilities, length: int, rate: int, rules: Rules) -> list[Speech]:
    """The spans of speech in a recording of `length` samples at `rate` Hz, none longer than a segment may be.

    `probabilities`: of speech, for each frame of 32 ms. Speech that cannot be divided has the reason TOO_LONG.
    """
    at_16k = -(-length * SAMPLING_RATE // rate)
    spans: list[Speech] = []
    longest = (rules.longest - 2 * rules.pad) * SAMPLING_RATE // rate
    for start, end in speech_segments(probabilities, at_16k, pad=0):
        for first, last, is_divided in _divided(start, end, probabilities, longest):
            place = (sample * rate // SAMPLING_RATE for sample in (first, last))
            begin, stop = (min(sample, length) for sample in place)
            if stop > begin:
                spans.append(Speech(begin, stop, reason=None if is_divided else RejectReason.TOO_LONG))
    return spans


def _divided(start: int, end: int, probabilities: Probabilities, longest: int) -> Iterator[tuple[int, int, bool]]:
    """Divide speech (samples at 16 kHz) until each part has at most `longest` samples.

    It is divided at its longest pause, else in the frame with the lowest probability of speech. A part without a frame
    below the threshold of speech is not divided: the third value is False.
    """
    parts = [(start, end)]
    while parts:
        start, end = parts.pop()
        if end - start <= longest:
            yield start, end, True
            continue
        cut = _cut(start, end, probabilities, min(longest, end - start) // 8)
        if cut is None:
            yield start, end, False
            continue
        parts += [(cut[1], end), (start, cut[0])]


def _cut(start: int, end: int, probabilities: Probabilities, edge: int) -> tuple[int, int] | None:
    """The end of the first and the start of the second part of speech; None if there is speech in all of its frames.

    The cut is at least `edge` samples from both ends.
    """
    first, last = -(-(start + edge) // FRAME), (end - edge) // FRAME
    inside = probabilities[first:last]
    if not len(inside):
        return None
    is_pause = np.concatenate([[False], inside < END_THRESHOLD, [False]])
    edges = np.flatnonzero(np.diff(is_pause.astype(np.int8))).reshape(-1, 2)
    if len(edges):
        lo, hi = edges[np.argmax(edges[:, 1] - edges[:, 0])].tolist()
        return (first + lo) * FRAME, (first + hi) * FRAME
    lowest = int(np.argmin(inside))
    if inside[lowest] >= THRESHOLD:
        return None
    middle = (first + lowest) * FRAME + FRAME // 2
    return middle, middle
