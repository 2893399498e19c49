"""A text with its times, and the checks that all forms of times share."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from prepcli.errors import RecordRejected, RejectReason
from prepcli.gate import MAX_SECONDS

PAUSES = frozenset(("<eps>", "<b>", "<sil>"))
"""Words that stand for no sound: silences of Kaldi and of aligners made with it, blanks of the NeMo Forced Aligner."""
WITHOUT_TEXT = "it has times and no text; other lines have texts"
_FAR, _FAR_SECONDS = 2.0, 10.0


class Timed(NamedTuple):
    """A line of a text with times (a cue, a segment, an interval), or a word.

    Attributes:
        start: seconds from the start of the recording.
        end: seconds, never before `start`; infinite for a segment of Kaldi that extends to the end of the recording.
        text: None if the form has no texts. The text of a word begins with a blank if one separates it from the word
            before: `text_of` joins them.
        speaker: None if it is not known.
        words: the words of a line, if their times are known.
        is_word: whether it is a word, as each item of a CTM.
        channel: the number from 0 of its channel, if `segments` of Kaldi name it.
    """

    start: float
    end: float
    text: str | None = None
    speaker: str | None = None
    words: tuple["Timed", ...] = ()
    is_word: bool = False
    channel: int | None = None


def text_of(words: Iterable[Timed]) -> str:
    """The text of consecutive words."""
    return "".join(word.text or "" for word in words).strip()


def damaged(place: str, why: str) -> RecordRejected:
    """The reject of a recording whose times are damaged at `place`, such as `talk.srt:12`."""
    return RecordRejected(RejectReason.BAD_FIELD, f"{place}: {why}; correct it, or leave the recording out")


def checked(start: float, end: float, place: str) -> tuple[float, float]:
    """The times of a line, in seconds.

    Raises:
        RecordRejected: BAD_FIELD if the times are not finite, or the end is before the start.
    """
    if not (math.isfinite(start) and math.isfinite(end)) or max(abs(start), abs(end)) > MAX_SECONDS:
        raise damaged(place, f"it lies from {start} to {end} s, which cannot be times")
    if end < start:
        raise damaged(place, f"it ends at {end:.10g} s, before it begins at {start:.10g} s")
    return start, end


def last_whole(lines: Sequence[Timed]) -> float | None:
    """The latest of the times if all are whole numbers, as those in milliseconds are; else None."""
    items = [item for line in lines for item in (line, *line.words)]
    if not all(item.start.is_integer() and (item.end.is_integer() or item.end == math.inf) for item in items):
        return None
    return max((item.start if item.end == math.inf else item.end for item in items), default=None)


def check_unit(lines: Sequence[Timed], seconds: Callable[[], float], place: str) -> None:
    """Check that times are not in milliseconds; `seconds` gives the length of the audio, and is called if it may be.

    Raises:
        RecordRejected: BAD_FIELD if the times are whole numbers, and far beyond the end of the audio.
    """
    last = last_whole(lines)
    if last is not None and last > _FAR_SECONDS and last > max(_FAR * (length := seconds()), length + _FAR_SECONDS):
        raise unclear_unit(place, last, f"the audio lasts {length:.10g} s")


def unclear_unit(place: str, last: float, length: str) -> RecordRejected:
    """The reject of a recording whose times may be in milliseconds; `length` says how long it is."""
    why = f"{place}: its times are whole numbers up to {last:.10g}, and {length}: milliseconds?"
    how = "divide them by 1,000, or give the audio that they are of"
    return RecordRejected(RejectReason.BAD_FIELD, f"{why} Seconds are read; {how}")


def number(text: str, place: str) -> float:
    """The number of seconds that a word of a file states.

    Raises:
        RecordRejected: BAD_FIELD if it is not a number.
    """
    try:
        if "_" not in text:  # float() takes 1_0 for 10
            return float(text)
    except ValueError:
        pass
    raise damaged(place, f"{text[:40]!r} is not a number of seconds")
