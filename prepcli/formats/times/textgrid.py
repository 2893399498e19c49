"""Praat's TextGrid, in its long and its short text form."""

import re
from collections.abc import Callable, Iterator

from prepcli.formats.times.timed import PAUSES, Timed, checked, damaged, number

_TOKEN = re.compile(r'"((?:[^"]|"")*)"|!.*|([^\s"]+)')
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_WORDS = re.compile(r"(.* - )?words?", re.IGNORECASE)
_PHONES = re.compile(r"(.* - )?(phones?|phonemes?)", re.IGNORECASE)
_SAME_LENGTH = 0.1
"""Seconds by which a TextGrid may be longer or shorter than its audio: decoders pad, and aligners round to frames."""


class _Tokens:
    """The strings and free-standing numbers of a TextGrid; Praat itself takes all other words for comments."""

    def __init__(self, text: str, name: str) -> None:
        self._text, self._name = text, name
        self._tokens = self._all()
        self._position = 0

    def _all(self) -> Iterator[tuple[str, bool]]:
        for match in _TOKEN.finditer(self._text):
            self._position = match.start()
            if match[1] is not None:
                yield match[1].replace('""', '"'), True
            elif match[2] and (_NUMBER.fullmatch(match[2]) or match[2] in ("<exists>", "<absent>")):
                yield match[2], False

    @property
    def place(self) -> str:
        """The file, and the line of the last token."""
        return f"{self._name}:{self._text.count(chr(10), 0, self._position) + 1}"

    def word(self) -> str:
        """The next token, which must be a string."""
        return self._next(is_string=True)

    def number(self) -> float:
        """The next token, which must be a number."""
        return number(self._next(is_string=False), self.place)

    def count(self) -> int:
        """The next token, which must be a number of tiers, intervals or points."""
        value = self.number()
        if not (value.is_integer() and value >= 0):
            raise damaged(self.place, f"{value} is not a number of intervals")
        return int(value)

    def flag(self) -> str:
        """The next token, which says whether there are tiers."""
        return self._next(is_string=False)

    def _next(self, is_string: bool) -> str:
        token, found = next(self._tokens, ("", None))
        if found is None:
            raise damaged(self.place, "the TextGrid ends too early")
        if found is not is_string:
            raise damaged(self.place, f"there is {token[:40]!r} where a {'text' if is_string else 'number'} must be")
        return token


def read_textgrid(text: str, name: str, seconds: Callable[[], float] | None = None) -> list[Timed]:
    """The intervals of a TextGrid that have a text. `name` is the file, for messages.

    A TextGrid of a part of a recording, whose `xmin` is not 0, counts from the start of the recording, or of the part:
    `seconds` gives the length of the audio, which shows it; without it, times stay as they are.

    If there are tiers of words, as `words` or `SPEAKER - words` of the Montreal Forced Aligner, they alone are read,
    and give words. Else each tier of intervals gives lines, except those of phones; if there are several, the name of
    a tier is the speaker. Tiers of points are left out.

    Raises:
        RecordRejected: BAD_FIELD if the file is damaged, or the length of the audio fits neither.
    """
    tokens = _Tokens(text, name)
    for _ in range(2):
        tokens.word()  # the type of the file and of the object
    first, last = tokens.number(), tokens.number()
    shift = _shift(first, last, seconds(), name) if first and seconds is not None else 0.0
    tiers = list(_tiers(tokens))
    words = [tier for tier in tiers if _WORDS.fullmatch(tier[0])]
    lines = words or [tier for tier in tiers if not _PHONES.fullmatch(tier[0])]
    if tiers and not lines:
        raise damaged(name, f"it has no tier of words or texts, only {', '.join(tier for tier, _ in tiers)}")
    timed = []
    for tier, intervals in lines:
        speaker = tier.rpartition(" - ")[0] or None if words else tier if len(lines) > 1 else None
        for start, end, label in intervals:
            if shift:
                start, end = round(start - shift, 9), round(end - shift, 9)
            if not (words and label in PAUSES):
                timed.append(Timed(start, end, f" {label}" if words else label, speaker, is_word=bool(words)))
    return timed


def _shift(first: float, last: float, length: float, name: str) -> float:
    """The time at which the audio begins, for a TextGrid from `first` to `last`, and audio of `length` seconds."""
    shift = min((0.0, first), key=lambda start: abs(last - start - length))
    if not abs(last - shift - length) <= _SAME_LENGTH:
        why = f"it lies from {first:.10g} to {last:.10g} s, and its audio lasts {length:.10g} s"
        raise damaged(name, f"{why}: neither its end nor its length, so it is not known where the audio begins in it")
    return shift


def _tiers(tokens: _Tokens) -> Iterator[tuple[str, list[tuple[float, float, str]]]]:
    if tokens.flag() != "<exists>":
        return
    for _ in range(tokens.count()):
        kind, name = tokens.word(), tokens.word()
        tokens.number(), tokens.number()
        size = tokens.count()
        if kind != "IntervalTier":
            for _ in range(size):
                tokens.number(), tokens.word()
            continue
        intervals = (_interval(tokens) for _ in range(size))
        yield name, [interval for interval in intervals if interval[2]]


def _interval(tokens: _Tokens) -> tuple[float, float, str]:
    start, end = tokens.number(), tokens.number()
    checked(start, end, tokens.place)
    return start, end, " ".join(tokens.word().split())
