"""The words and lines of a recording, from texts with times: their places in samples, and the fields of segments."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from math import inf
from textwrap import shorten
from typing import Any, NamedTuple

import msgspec

from prepcli.commands.segment.packing import JITTER, Piece, Speech, grouped
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.times.timed import WITHOUT_TEXT, Timed
from prepcli.gate import fit

_SENTENCE = re.compile(r"[.?!…。？！؟।]['\")\]»”’」』]*$")  # noqa: RUF001
"""Matches a text that ends a sentence."""
_WITHOUT_BLANKS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff，。？！、；：]")  # noqa: RUF001
"""A character of Chinese or Japanese, which are written without blanks between words."""
_WITHOUT = RecordRejected(RejectReason.MISSING_TRANSCRIPT, WITHOUT_TEXT)


class Item(NamedTuple):
    """A word or a line; `start` and `end` are samples of the recording. `reason`: why it is not used."""

    start: int
    end: int
    text: str | None
    speaker: str | None
    is_word: bool
    reason: RecordRejected | None = None


class Recording(NamedTuple):
    """The audio of a record: `length` samples at `rate` Hz, the first of which is at `offset` seconds of the times.

    `with_turns`: also items that only reach into it are its own, but not their texts.
    """

    length: int
    rate: int
    offset: float = 0.0
    is_whole: bool = True
    with_turns: bool = False

    @property
    def seconds(self) -> float:
        """Its length in seconds."""
        return self.length / self.rate


def items_of(lines: Sequence[Timed], recording: Recording, *, by_word: bool = True) -> list[Item]:
    """The words of `lines`, or lines without words, in the order of their starts.

    If a record is a part of a file, its items are those whose middle lies in it. One that lies outside of a whole
    recording by more than rounding has a `reason`, and so has one without a text among others with texts.

    Args:
        lines: sorted by their starts; times in seconds.
        recording: the audio.
        by_word: False for the lines themselves, also of those that have words.
    """
    items: list[Item] = []
    for line in lines:
        words = line.words if by_word else ()
        for number, one in enumerate(words or [line]):
            item = _item(one, one.speaker or line.speaker, recording, is_first=bool(words) and not number)
            items += [] if item is None else [item]
    if not recording.with_turns and any(item.text is not None for item in items):
        items = [item._replace(reason=item.reason or _WITHOUT) if item.text is None else item for item in items]
    return sorted(items, key=lambda item: item.start)


def _item(timed: Timed, speaker: str | None, recording: Recording, *, is_first: bool) -> Item | None:
    start = timed.start - recording.offset
    end = min(timed.end, recording.offset + recording.seconds) if timed.end == inf else timed.end
    # Recognizers give some words no duration; their text counts all the same.
    seconds = max(round(end - timed.start, 9), 1 / recording.rate if timed.is_word else 0.0)
    is_inside = recording.is_whole or 0 <= start + seconds / 2 < recording.seconds
    reaches = recording.with_turns and start < recording.seconds and start + seconds > 0
    if not (is_inside or reaches):
        return None
    rejected = None
    what = "the word" if timed.is_word else "the line"
    what += f" {shorten(timed.text, 40, placeholder='…')!r}" if timed.text else ""
    try:
        span = fit(start, seconds, recording.seconds if recording.is_whole else inf, what, "the recording")
        start, seconds = span.start, span.duration
    except RecordRejected as error:
        if recording.is_whole:
            rejected = error
    places = [min(max(round(time * recording.rate), 0), recording.length) for time in (start, start + seconds)]
    text = timed.text if is_inside else None
    if is_first and text and not text[0].isspace() and not _WITHOUT_BLANKS.match(text):
        text = f" {text}"  # the word before is of another line
    return Item(places[0], max(places[1], places[0]), text, speaker, timed.is_word, rejected)


def speech_of(items: Sequence[Item], end_at: str, rate: int, overlap: RejectReason | None) -> list[Speech]:
    """The spans of speech that items make: one for each item, or for several that overlap.

    Args:
        items: those that have samples, in order.
        end_at: `punctuation` if a segment may end only after a sentence.
        rate: the sampling rate (Hz).
        overlap: why items that overlap are in no segment; None to keep them together.
    """
    spans = []
    for number, item in enumerate(items):
        may_end = end_at != "punctuation" or _SENTENCE.search(item.text or "") is not None
        speakers = (item.speaker,) if item.speaker else ()
        reason = item.reason.reason if item.reason else None
        spans.append(Speech(item.start, item.end, speakers, may_end, reason, range(number, number + 1)))
    return grouped(spans, round(JITTER * rate), overlap)


def fields_of(items: Sequence[Item], piece: Piece, rate: int) -> dict[str, Any]:
    """The fields of a segment with the words and lines `items`: text, speaker or number of speakers, and words."""
    fields: dict[str, Any] = {}
    if any(item.text for item in items):
        fields["text"] = joined(items)
    speakers = list(dict.fromkeys(item.speaker for item in items if item.speaker))
    if speakers:
        fields["speaker"] = speakers[0] if len(speakers) == 1 else None
        fields["num_speakers"] = len(speakers)
    if items and all(item.is_word for item in items):
        words = [
            {"word": (item.text or "").strip()}
            | {name: round(min(max(at, 0), piece.length) / rate, 6) for name, at in _relative(item, piece)}
            | ({"speaker": item.speaker} if item.speaker and len(speakers) > 1 else {})
            for item in items
        ]
        fields["words"] = msgspec.Raw(msgspec.json.encode(words))
    return fields


def _relative(item: Item, piece: Piece) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("start", item.start - piece.start), ("end", item.end - piece.start)


def joined(items: Sequence[Item]) -> str:
    """The text of words, which have the blanks between them, or of lines, with blanks between them.

    There is no blank between two lines of Chinese or Japanese.
    """
    made = ""
    for item in items:
        text = item.text or ""
        is_glued = item.is_word or not made or (_WITHOUT_BLANKS.match(made[-1]) and _WITHOUT_BLANKS.match(text))
        made += text if is_glued else f" {text}"
    return made.strip()


class ByMiddle:
    """Finds items by the sample in their middle."""

    def __init__(self, items: Sequence[Item]) -> None:
        """`items`: in the order in which they are said."""
        self._items = items
        middles = [(item.start + item.end) // 2 for item in items]
        self._order = sorted(range(len(items)), key=middles.__getitem__)
        self._middles = [middles[number] for number in self._order]

    def within(self, start: int, end: int) -> list[Item]:
        """The items whose middle lies from sample `start` to before `end`, in their order."""
        lo, hi = bisect_left(self._middles, start), bisect_left(self._middles, end)
        return [self._items[number] for number in sorted(self._order[lo:hi])]
