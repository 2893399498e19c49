"""Packs spans of speech (words, lines, or what a detector finds) into segments; all numbers are samples of a recording.

The rules are those of NeMo Curator's `plan_snippets`: a segment grows until the pause to the next span, or its length,
is too long. In addition, segments get a margin, may have to end at certain words, and too long speech is listed.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from prepcli.errors import RejectReason

JITTER = 0.1
"""Spans that share at most this number of seconds count as one after the other: recognizers, and people who write
subtitles, are not more exact. A shorter word within another one belongs to it."""
PAUSE = 0.1
"""Minimum seconds between two words that count as a pause, the shortest silence of Silero's detector."""


class Speech(NamedTuple):
    """A span of speech.

    Attributes:
        start, end: its first sample, and the sample after its last; `end` is greater.
        speakers: who speaks, in the order of their first words; empty if unknown.
        may_end: whether a segment may end after it, in the middle of other speech.
        reason: why it is in no segment; None if it may be in one.
        items: the numbers of the words or lines of which it consists.
    """

    start: int
    end: int
    speakers: tuple[str, ...] = ()
    may_end: bool = True
    reason: RejectReason | None = None
    items: range = range(0)


class Rules(NamedTuple):
    """How spans become segments; lengths are in samples.

    Attributes:
        shortest, longest: limits of the length of a segment, with its margins.
        join_pause: the longest pause within a segment.
        pad: the margin before and after speech, which ends in the middle of a shorter pause.
        pause: the shortest pause.
        same_speaker: whether all spans of a segment have the same speakers.
        at_pauses: whether a segment ends only at a pause.
        prefers_pauses: whether a segment that could grow on ends at a pause in its second half, if there is one.
    """

    shortest: int
    longest: int
    join_pause: int
    pad: int
    pause: int = 0
    same_speaker: bool = False
    at_pauses: bool = False
    prefers_pauses: bool = False


class Piece(NamedTuple):
    """A part of a recording: a segment if `reason` is None, else a part that is left out for this reason.

    `first` and `last` are the numbers of its first span, and after its last.
    """

    start: int
    end: int
    first: int
    last: int
    reason: RejectReason | None = None

    @property
    def length(self) -> int:
        """Its number of samples."""
        return self.end - self.start


def grouped(spans: Sequence[Speech], jitter: int, reason: RejectReason | None) -> list[Speech]:
    """Make one span of those that overlap; `spans` are sorted by their start.

    Args:
        spans: words or lines.
        jitter: the samples that two spans may share and still follow one another (`JITTER`).
        reason: why spans that share more are in no segment; None to keep them together.
    """
    groups: list[Speech] = []
    for number, span in enumerate(spans):
        if not groups:
            groups.append(span)
            continue
        last, shared = groups[-1], min(groups[-1].end, span.end) - span.start
        # Each span has samples on its side of the middle between two: see `bounds_of`.
        if shared <= jitter and span.start > spans[number - 1].start + 1 and span.end > last.end:
            groups.append(span)
            continue
        speakers = tuple(dict.fromkeys((*last.speakers, *span.speakers)))
        groups[-1] = Speech(
            last.start,
            max(last.end, span.end),
            speakers,
            span.may_end,
            last.reason or (reason if shared > jitter else None) or span.reason,
            range(last.items.start, span.items.stop),
        )
    return groups


def bounds_of(spans: Sequence[Speech], length: int) -> list[int]:
    """The samples that divide a recording of `length` samples between its spans: 0, the middles of pauses, `length`."""
    middles = ((one.end + other.start) // 2 for one, other in pairwise(spans))
    return [0, *middles, length]


def pack(spans: Sequence[Speech], length: int, rules: Rules) -> Iterator[Piece]:
    """Yield the segments of a recording of `length` samples, and the parts that are left out, in order.

    The pieces do not overlap; what is in none of them is a pause. `spans` are those of `grouped`.
    """
    packer = _Packer(spans, bounds_of(spans, length), rules)
    first = 0
    while first < len(spans):
        piece = packer.piece(first)
        yield piece
        first = piece.last


class _Packer:
    def __init__(self, spans: Sequence[Speech], bounds: Sequence[int], rules: Rules) -> None:
        self._spans, self._bounds, self._rules = spans, bounds, rules

    def piece(self, first: int) -> Piece:
        """The piece that begins with span `first`."""
        reason = self._spans[first].reason
        if reason is not None:
            return self._made(first, first + 1, reason)
        last = end = first
        while self._length(first, end) <= self._rules.longest:
            last = end + 1 if self._may_end(end) else last
            if self._breaks(end):
                return self._checked(first, last)
            end += 1
        if last == first:  # there is no place where a segment may end
            while not self._may_end(end):
                end += 1
            return self._made(first, end + 1, RejectReason.TOO_LONG)
        return self._checked(first, self._at_pause(first, last) if self._rules.prefers_pauses else last)

    def _may_end(self, number: int) -> bool:
        """Whether a segment may end after this span."""
        return self._breaks(number) or (
            self._spans[number].may_end
            and not (self._rules.at_pauses and self._pause_after(number) < self._rules.pause)
        )

    def _pause_after(self, number: int) -> int:
        return self._spans[number + 1].start - self._spans[number].end

    def _breaks(self, number: int) -> bool:
        """Whether no segment may go on after this span."""
        if number + 1 == len(self._spans):
            return True
        span, other = self._spans[number], self._spans[number + 1]
        return (
            other.reason is not None
            or self._pause_after(number) > self._rules.join_pause
            or (self._rules.same_speaker and other.speakers != span.speakers)
        )

    def _at_pause(self, first: int, last: int) -> int:
        """The end of the last span before a pause in the second half of a segment, or `last` if there is none."""
        for end in range(last, first, -1):
            if 2 * self._length(first, end - 1) < self._rules.longest:
                break
            if self._pause_after(end - 1) >= self._rules.pause:
                return end
        return last

    def _place(self, first: int, end: int, pad: int) -> tuple[int, int]:
        """The first sample of the spans `first` to `end` with the margin `pad`, and the sample after their last."""
        start = max(self._spans[first].start - pad, self._bounds[first])
        return start, min(self._spans[end].end + pad, self._bounds[end + 1])

    def _length(self, first: int, end: int) -> int:
        start, stop = self._place(first, end, self._rules.pad)
        return stop - start

    def _checked(self, first: int, last: int) -> Piece:
        is_short = self._length(first, last - 1) < self._rules.shortest
        return self._made(first, last, RejectReason.BELOW_MIN_DURATION if is_short else None)

    def _made(self, first: int, last: int, reason: RejectReason | None) -> Piece:
        is_heard = reason in (None, RejectReason.BELOW_MIN_DURATION)
        return Piece(*self._place(first, last - 1, self._rules.pad if is_heard else 0), first, last, reason)
