"""JSON with times: of Whisper, whisperX, faster-whisper, FunASR, AssemblyAI; and such fields of a manifest."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

from prepcli.formats.times.timed import (
    Timed,
    checked,
    damaged,
    last_whole,
    text_of,
    unclear_unit,
)

_TIMESTAMPED = re.compile(r"[A-Za-z0-9À-ɏЀ-ӿ]+(?:['\u2019.\-][A-Za-z0-9À-ɏЀ-ӿ]+)*|[^\W_]")
"""Matches a part of a text to which FunASR gives one timestamp: a word with letters, or one character of Chinese."""

_UP_TO_BLANK = re.compile(r".*\s", re.DOTALL)
_ROUNDED = 1.0
"""The seconds by which `audio_duration` may be too small."""
_MIN_SHARE = 0.1
"""The share of the audio to which its last word reaches at least, if `audio_duration` is to show the unit of times."""
_MAX = 1e300  # a larger integer of JSON does not fit a double


class _Unit(NamedTuple):
    """The name of a value for messages, and the number of its units of time in a second."""

    place: str
    per_second: float = 1.0

    def at(self, index: int | str) -> "_Unit":
        return self._replace(place=f"{self.place}[{index}]")


def timed_of(document: object, name: str = "") -> list[Timed]:
    """The lines of parsed JSON, or its words if it has no lines.

    Args:
        document: an object with `segments`, `utterances`, `sentence_info` or `timestamp` (FunASR, in ms), `words` or
            `word_segments`, or `alignment`; or a list of segments, of words, or of objects of FunASR. Times are in ms
            if the `audio_duration` of the object, in seconds, shows it (AssemblyAI).
        name: what the messages begin with, such as the name of the file.

    A word without times keeps its text, which is joined to the word before it, or at the start to the one after.

    Raises:
        RecordRejected: BAD_FIELD if times are damaged, or there are none, or their unit is not clear.
    """
    unit = _Unit(f"{name}: " if name else "")
    if isinstance(document, list):
        if any(isinstance(item, dict) and ("sentence_info" in item or _is_of_funasr(item)) for item in document):
            keys = {item.get("key") for item in document if isinstance(item, dict)}
            if len(keys) > 1:
                raise damaged(
                    name, "it has several recordings, and their `key` is not the first of each object in UTF-8"
                )
            return [timed for index, item in enumerate(document) for timed in timed_of(item, f"{name}[{index}]")]
        is_words = bool(document) and all(isinstance(item, dict) and "word" in item for item in document)
        return _words(document, unit, None) if is_words else _segments(document, unit)
    if not isinstance(document, dict):
        raise damaged(name or "the field", _NOTHING)
    lines = _lines(document, unit)
    return _lines(document, unit._replace(per_second=1000.0)) if _is_in_ms(document, lines, name) else lines


_NOTHING = "it has no segments, words, sentence_info or timestamp"


def _lines(document: Mapping[str, Any], unit: _Unit) -> list[Timed]:
    for key, reader in (("segments", _segments), ("utterances", _segments), ("sentence_info", _sentences)):
        if isinstance(items := document.get(key), list):
            return reader(items, unit._replace(place=f"{unit.place}{key}"))
    if _is_of_funasr(document):
        return [_stamped(document, _Unit(f"{unit.place}timestamp", 1000.0))]
    for key in ("words", "word_segments", "alignment"):
        items = document.get(key)
        if isinstance(items, dict):  # lhotse: the kind of the alignment
            items = next((items[kind] for kind in ("word", "words") if kind in items), None)
        if isinstance(items, list):
            return _words(items, unit._replace(place=f"{unit.place}{key}"), None)
    raise damaged(unit.place.rstrip(": ") or "the field", _NOTHING)


def _is_in_ms(document: Mapping[str, Any], lines: Sequence[Timed], name: str) -> bool:
    """Whether the times are in milliseconds, as those of AssemblyAI; `audio_duration` is in seconds, often rounded.

    Raises:
        RecordRejected: BAD_FIELD if they may be in seconds as well.
    """
    seconds, last = document.get("audio_duration"), last_whole(lines)
    if last is None or not _are_numbers([seconds]) or not seconds or last <= seconds + _ROUNDED:
        return False
    if not _MIN_SHARE * seconds <= last / 1000 <= seconds + _ROUNDED:
        raise unclear_unit(name or "the field", last, f"`audio_duration` is {seconds:.10g}")
    return True


def _is_of_funasr(item: Mapping[str, Any]) -> bool:
    return isinstance(item.get("timestamp"), list) and "text" in item and "start" not in item


def _segments(items: Sequence[Any], unit: _Unit) -> list[Timed]:
    return [line for index, item in enumerate(items) if (line := _segment(item, unit.at(index))) is not None]


def _segment(item: Any, unit: _Unit) -> Timed | None:
    """A segment of Whisper, or None if it has no text. Without times of its own, it lies where its words lie."""
    if not isinstance(item, dict):
        raise damaged(unit.place, "it is not an object with start, end and text")
    text = _text(item.get("text"), unit)
    listed = item.get("words") or []
    if not isinstance(listed, list):
        raise damaged(unit.place, "its words are not a list")
    its_own = _times(item, unit)
    words = _words(listed, unit.at("words"), text, its_own[1] if its_own else -inf) if listed else []
    if text is None and words:
        text = text_of(words)
    times = its_own or ((words[0].start, max(word.end for word in words)) if words else None)
    if times is None:
        raise damaged(unit.place, "it has no start and end")
    return None if text == "" else Timed(*times, text, _speaker(item, unit), tuple(words))


def _words(items: Sequence[Any], unit: _Unit, text: str | None, end_of_line: float = -inf) -> list[Timed]:
    """The words with times; the text of each other word is joined to one of them. None if no word has times.

    A word to which another is joined extends to the next word, or to the end of the line: the other is said there.
    """
    raw = [_word(item, unit.at(index)) for index, item in enumerate(items)]
    words, before, is_joined = list[Timed](), "", False
    for index, (item, word) in enumerate(zip(items, _spaced(raw, text), strict=True)):
        times = _times(item, unit.at(index))
        if times is not None:
            if is_joined:
                words[-1] = words[-1]._replace(end=max(words[-1].end, times[0]))
            speaker = _speaker(item, unit.at(index)) if isinstance(item, dict) else None
            words.append(Timed(*times, before + word, speaker, is_word=True))
            before, is_joined = "", False
        elif words:
            words[-1] = words[-1]._replace(text=f"{words[-1].text}{word}")
            is_joined = True
        else:
            before += word
    if is_joined:
        words[-1] = words[-1]._replace(end=max(words[-1].end, end_of_line))
    if text is None and before:
        raise damaged(unit.place, "no word has times")
    return words


def _word(item: Any, unit: _Unit) -> str:
    """The text of a word: an object with `word` or `text`, or a list of lhotse, symbol, start and duration."""
    if isinstance(item, list) and len(item) >= 3 and isinstance(item[0], str):
        return item[0]
    word = item.get("word", item.get("text")) if isinstance(item, dict) else None
    if not isinstance(word, str):
        raise damaged(unit.place, "it is not an object with word, start and end")
    return word


def _spaced(words: Sequence[str], text: str | None) -> list[str]:
    """The words, each with a blank before it if one separates it from the word before.

    The words of Whisper have their blanks. Others are as the text of their line has them, if it has all of them and no
    other: with its blanks, punctuation and capitals.
    """
    if any(word[:1].isspace() for word in words):
        return list(words)
    if text is not None and (starts := _starts(words, text)):
        return _parts(text, starts)
    blank = "" if text and not any(map(str.isspace, text)) else " "
    return [blank + word.strip() for word in words]


def _starts(words: Sequence[str], text: str) -> list[int]:
    """The places in a text at which its words begin; empty if the text has other words."""
    folded = _folded(text)
    starts, position = list[int](), 0
    for word in map(str.strip, words):
        at = folded.find(_folded(word), position)
        between = text[position : max(at, position)]
        if at < 0 or any(map(str.isalnum, between)):
            return []
        starts.append(position + max(map(len, _UP_TO_BLANK.findall(between)), default=len(between)))
        position = at + len(word)
    return [] if any(map(str.isalnum, text[position:])) else starts


def _folded(text: str) -> str:
    """The text in small letters, with as many characters: that of Turkish İ has two."""
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)


def _parts(text: str, starts: Sequence[int]) -> list[str]:
    """The parts of a text that begin at `starts`, each with a blank before it if the part before ends with one."""
    parts = [text[start:end] for start, end in pairwise([0, *starts[1:], len(text)])]
    blanks = ["", *(" " if part[-1:].isspace() else "" for part in parts[:-1])]
    return [blank + part.strip() for blank, part in zip(blanks, parts, strict=True)]


def _sentences(items: Sequence[Any], unit: _Unit) -> list[Timed]:
    """The sentences of FunASR, in milliseconds."""
    lines = []
    for index, item in enumerate(items):
        at = _Unit(unit.at(index).place, 1000.0)
        if not isinstance(item, dict) or (times := _times(item, at)) is None:
            raise damaged(at.place, "it has no start and end")
        item = {"text": item.get("sentence")} | item  # as sentences are called that end where speech does
        text = _text(item["text"], at)
        words = _stamped(item, at).words if text and isinstance(item.get("timestamp") or None, list) else ()
        if text != "":
            lines.append(Timed(*times, text, _speaker(item, at), words))
    return lines


def _stamped(item: Mapping[str, Any], unit: _Unit) -> Timed:
    """A text of FunASR with a list of timestamps; it has words if there are as many as timestamps."""
    text, stamps = _text(item["text"], unit) or "", item["timestamp"]
    times = [_pair(stamp, unit.at(index)) for index, stamp in enumerate(stamps)]
    if not times:
        raise damaged(unit.place, "the list of timestamps is empty")
    starts = [match.start() for match in _TIMESTAMPED.finditer(text)]
    parts = _parts(text, starts) if len(starts) == len(times) else []
    words = tuple(Timed(*stamp, part, is_word=True) for stamp, part in zip(times, parts, strict=False))
    return Timed(times[0][0], max(end for _, end in times), text, _speaker(item, unit), words)


def _times(item: Any, unit: _Unit) -> tuple[float, float] | None:
    """The start and end in seconds; None if one of them is missing or null."""
    if isinstance(item, list):  # lhotse: symbol, start, duration
        return _pair([item[1], round(item[1] + item[2], 9)], unit) if _are_numbers(item[1:3]) else None
    start, end = item.get("start"), item.get("end")
    return None if start is None or end is None else _pair([start, end], unit)


def _pair(pair: Any, unit: _Unit) -> tuple[float, float]:
    if not (isinstance(pair, list) and len(pair) == 2 and _are_numbers(pair)):
        raise damaged(unit.place, f"its times are {str(pair)[:40]}, not two numbers")
    return checked(pair[0] / unit.per_second, pair[1] / unit.per_second, unit.place)


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX for value in values)


def _text(value: Any, unit: _Unit) -> str | None:
    if isinstance(value, list) and all(isinstance(word, str) for word in value):  # FunASR, without punctuation
        value = " ".join(value)
    if value is not None and not isinstance(value, str):
        raise damaged(unit.place, f"its text is {str(value)[:40]}, not a string")
    return None if value is None else " ".join(value.split())


def _speaker(item: Mapping[str, Any], unit: _Unit) -> str | None:
    speaker = item.get("speaker", item.get("spk"))
    if speaker is not None and (not isinstance(speaker, str | int) or isinstance(speaker, bool)):
        raise damaged(unit.place, f"its speaker is {str(speaker)[:40]}, not a string or an integer")
    return None if speaker is None else str(speaker)
