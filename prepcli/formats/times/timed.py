"""A text with its times, and the checks that all forms of times share."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from prepcli.errors import RecordRejected, RejectReason
from prepcli.gate import MAX_SECONDS

PAUSES = frozenset(("<eps>", "<b>", "<sil>"))
"""Words that stand for no sound: silences of Kaldi and of aligners made with it, blanks of the NeMo Forced Aligner."""
WITHOUT_TEXT = "it has times and no text; other lines have texts"


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
