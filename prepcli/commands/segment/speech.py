"""The speech in a recording, by Silero's detector, divided if it is too long for a segment.

The detector hears speech, but its times are not exact: it notices a pause, and its end, up to 0.12 s late, and does not
notice each pause of 0.15 s. So a short pause is moved to the quietest place near it.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import inf

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from prepcli.audio.framing import Framing
from prepcli.commands.segment.packing import Rules, Speech
from prepcli.errors import RejectReason
from prepcli.models.silero import END_THRESHOLD, FRAME, MIN_SPEECH, SAMPLING_RATE, THRESHOLD, speech_segments

Probabilities = NDArray[np.float32]
Places = list[tuple[int, int]]
"""The first sample of each span, and the sample after its last, at 16 kHz."""
_LATE = SAMPLING_RATE * 3 // 20
"""The samples at 16 kHz by which a pause is noticed late, at most."""
_QUIET_SHARE = 0.1
"""A place is quiet, although the detector hears speech, if its power is a tenth of that of the speech around."""
_WINDOW = 16
"""The number of frames of `Power` in a place: about as long as a short pause, so that its middle is the quietest."""


class Power:
    """The power of a recording in frames of 10 ms, in which quiet places are found; places are samples at 16 kHz."""

    def __init__(self, rate: int) -> None:
        """`rate`: that of the recording (Hz)."""
        size = max(rate // 100, 1)
        self._framing = Framing(size, size, at_once=1000)
        self._samples = size * SAMPLING_RATE / rate
        self._power = np.empty(0, np.float32)

    def measured(self, blocks: Iterable[NDArray[np.float32]]) -> Iterator[NDArray[np.float32]]:
        """Yield the blocks of a recording; when all are used, its power is known."""
        powers = [self._power]
        for block in blocks:
            powers += [self._framing.frames(group).var(axis=1) for group in self._framing.add(block)]
            yield block
        powers += [self._framing.frames(group).var(axis=1) for group in self._framing.end()]
        self._power = np.concatenate(powers)

    def mean(self, start: int, end: int) -> float:
        """The mean power from sample `start` to before `end`."""
        first, last = round(start / self._samples), round(end / self._samples)
        return float(self._power[first : max(last, first + 1)].mean())

    def quietest(self, start: int, end: int) -> tuple[int, float]:
        """The middle of the quietest 0.16 s, which lies from sample `start` to `end`, and their mean power."""
        first = max(round(start / self._samples) - _WINDOW // 2, 0)
        power = self._power[first : round(end / self._samples) + _WINDOW // 2]
        if len(power) < _WINDOW:
            return (start + end) // 2, float("inf")
        means = sliding_window_view(power, _WINDOW).mean(axis=1)
        lowest = np.flatnonzero(means == means.min())
        middle = first + int(lowest[len(lowest) // 2]) + _WINDOW // 2
        return min(max(round(middle * self._samples), start), end), float(means.min())


def speech_in(probabilities: Probabilities, power: Power, length: int, rate: int, rules: Rules) -> list[Speech]:
    """The spans of speech in a recording of `length` samples at `rate` Hz, none longer than a segment may be.

    `probabilities`: of speech, for each frame of 32 ms. Speech that cannot be divided has the reason TOO_LONG.
    """
    margins, longest, join_pause = (
        samples * SAMPLING_RATE // rate for samples in (2 * rules.pad, rules.longest - 2 * rules.pad, rules.join_pause)
    )
    heard = speech_segments(probabilities, -(-length * SAMPLING_RATE // rate), pad=0, shortest=0)
    divider = Divider(probabilities, power, longest, margins)
    spans: list[Speech] = []
    for start, end in divider.moved(_near(heard, join_pause)):
        for first, last, is_divided in divider.parts(start, end):
            place = (sample * rate // SAMPLING_RATE for sample in (first, last))
            begin, stop = (min(sample, length) for sample in place)
            if stop > begin:
                spans.append(Speech(begin, stop, reason=None if is_divided else RejectReason.TOO_LONG))
    return spans


def _near(spans: Places, join_pause: int) -> Places:
    """Spans of speech without those up to 0.25 s that are alone: some are a word, but most are noises."""
    bounds = [-inf, *(place for span in spans for place in span), inf]
    pauses = [after - before for before, after in zip(bounds[::2], bounds[1::2], strict=True)]
    near = (min(pair) <= join_pause for pair in pairwise(pauses))
    return [span for span, is_near in zip(spans, near, strict=True) if is_near or span[1] - span[0] > MIN_SPEECH]


class Divider:
    """Divides speech that is too long; all places and lengths are samples at 16 kHz."""

    def __init__(self, probabilities: Probabilities, power: Power, longest: int, margins: int) -> None:
        """`longest`: the limit of a part; `margins`: the length of the margins that two parts get between them."""
        self._probabilities, self._power = probabilities, power
        self._longest, self._margins = longest, margins

    def moved(self, spans: Places) -> Places:
        """Spans of speech whose short pauses are moved to the quietest place."""
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        middles = [(start + end) // 2 for start, end in spans]
        for number, (low, high) in enumerate(pairwise(middles)):
            ends[number], starts[number + 1] = self._moved(ends[number], starts[number + 1], low + 1, high)
        return list(zip(starts, ends, strict=True))

    def _moved(self, start: int, end: int, low: int, high: int) -> tuple[int, int]:
        """A pause with its middle at the quietest place, if it is so short that margins reach its middle.

        It does not begin before sample `low`, nor end after `high`.
        """
        half = (end - start) // 2
        if 2 * half >= max(self._margins, 1):
            return start, end
        middle, _ = self._power.quietest(max(start - _LATE, low), min(end, high))
        return max(middle - half, low), min(middle + half, high)

    def parts(self, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Divide speech until each part has at most `longest` samples; yield the start and the end of each.

        A part without a place for a cut is not divided: the third value is False.
        """
        parts = [(start, end)]
        while parts:
            start, end = parts.pop()
            cut = self._cut(start, end) if end - start > self._longest else None
            if cut is None:
                yield start, end, end - start <= self._longest
            else:
                parts += [(cut[1], end), (start, cut[0])]

    def _cut(self, start: int, end: int) -> tuple[int, int] | None:
        """The end of the first and the start of the second part, each of at least an eighth of `longest`.

        The cut is the longest pause of two frames or more; else the quietest place, if it is quiet; else the frame with
        the lowest probability of speech. None if there is no pause, no quiet place, and speech in all frames.
        """
        edge = max(self._longest // 8, 1)
        low, high = start + edge, end - edge
        first, last = -(-low // FRAME), high // FRAME
        inside = self._probabilities[first:last]
        if not len(inside):
            return None
        is_pause = np.concatenate([[False], inside < END_THRESHOLD, [False]])
        pauses = np.flatnonzero(np.diff(is_pause.astype(np.int8))).reshape(-1, 2).tolist()
        begin, stop = max(pauses, key=lambda pause: pause[1] - pause[0], default=(0, 0))
        if stop - begin > 1:
            return self._moved((first + begin) * FRAME, (first + stop) * FRAME, low, high)
        place, lowest_power = self._power.quietest(low, high)
        if lowest_power < _QUIET_SHARE * self._power.mean(start, end):
            return place, place
        lowest = int(np.argmin(inside))
        if inside[lowest] >= THRESHOLD:
            return None
        middle = (first + lowest) * FRAME + FRAME // 2
        return self._moved(middle, middle, low, high)
