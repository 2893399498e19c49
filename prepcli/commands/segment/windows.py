"""Windows of a recording: of one length, or so that no word or line is cut; and with the timestamps of Whisper."""

from collections.abc import Iterator, Sequence

from prepcli.commands.segment.packing import Piece, Rules, Speech, bounds_of
from prepcli.commands.segment.texts import Item, joined
from prepcli.errors import RejectReason

_STEP = 0.02
"""The distance of Whisper's timestamps in seconds."""


def grid(length: int, rules: Rules) -> Iterator[Piece]:
    """Yield windows of the longest length; the last one is left out if it is too short."""
    for start in range(0, length, rules.longest):
        end = min(start + rules.longest, length)
        yield Piece(start, end, 0, 0, _too_short(start, end, rules))


def around_texts(spans: Sequence[Speech], length: int, rules: Rules) -> Iterator[Piece]:
    """Yield windows that cut no span: one that would ends before it, in the pause.

    A span for which there is no room in a window is left out, and so is one that has a reason to be.
    """
    bounds = bounds_of(spans, length)
    start = first = 0
    while start < length:
        end, last, reason = min(start + rules.longest, length), first, None
        while last < len(spans) and spans[last].end <= end and spans[last].reason is None:
            last += 1
        if last < len(spans) and spans[last].start < end:
            before = max(bounds[last], spans[last].start - rules.pad)
            if before > start:
                end = min(end, before)
            else:
                end, reason = bounds[last + 1], spans[last].reason or RejectReason.TOO_LONG
                last += 1
        yield Piece(start, end, first, last, reason or _too_short(start, end, rules))
        start, first = end, last


def for_whisper(spans: Sequence[Speech], length: int, rules: Rules) -> Iterator[Piece]:
    """Yield windows of one length for Whisper, by the rule of its authors (`timed_text`).

    If a line ends after its window, the next window begins with this line, so that both windows hold its beginning.
    A line for which there is no room in a window is left out.
    """
    start = first = 0
    while start < length:
        end, last = min(start + rules.longest, length), first
        while last < len(spans) and spans[last].end <= end and spans[last].reason is None:
            last += 1
        following = end
        if last < len(spans) and spans[last].start < end:
            following = max(spans[last].start, start)
        reason: RejectReason | None
        if following == start:
            reason = spans[last].reason or RejectReason.TOO_LONG
            following = max(spans[last].end, start + 1)
            yield Piece(start, following, first, last + 1, reason)
            last += 1
        else:
            left_out = _too_short(start, end, rules)  # it ends where the next window begins
            yield Piece(start, following if left_out else end, first, last, left_out)
        start, first = following, last


def _too_short(start: int, end: int, rules: Rules) -> RejectReason | None:
    return RejectReason.BELOW_MIN_DURATION if end - start < rules.shortest else None


def timed_text(spans: Sequence[Speech], items: Sequence[Item], piece: Piece, rate: int) -> str:
    """The text of a window with Whisper's timestamps: `<|0.00|> Hello.<|1.20|><|1.50|> Bye.<|2.00|>`.

    A line that ends after the window has only its start there. Whisper's models are trained so: what they decode next
    begins there (Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022, section 2.3).
    """
    text, before = "", 0.0
    for span in spans[piece.first : piece.last]:
        start = max(_timestamp(span.start - piece.start, rate), before)
        before = max(_timestamp(span.end - piece.start, rate), start)
        words = joined(items[span.items.start : span.items.stop])
        text += f"<|{start:.2f}|> {words}<|{before:.2f}|>"
    if piece.last < len(spans) and spans[piece.last].start < piece.end:
        text += f"<|{max(_timestamp(spans[piece.last].start - piece.start, rate), before):.2f}|>"
    return text


def _timestamp(samples: int, rate: int) -> float:
    return round(samples / rate / _STEP) * _STEP
