"""Subtitles: SubRip (SRT) and WebVTT, as the standards have them and as people's files are."""

import html
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from prepcli.formats.times.timed import Timed, checked, damaged

ARROW = "-->"
_TIME = r"(?:(\d+):)?([0-5]?\d):([0-5]?\d)(?:[.,](\d{3,}))?"
_CUE_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
"""Matches the line with the times of a cue, and its settings."""
_BLOCK = re.compile(r"NOTE(\s.*)?|(STYLE|REGION)\s*")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
_TAG = re.compile(r"</?(?:[biuscv]|font|lang|ruby|rt)(?:[\s.][^<>]*)?>|<\d[\d:.,]*>|\{\\[^{}]*\}", re.IGNORECASE)
"""Matches tags of both forms; others, such as <unk>, are text. In braces: the styles of SubStation."""
_LABEL = re.compile(r"\[(SPEAKER_\d+)\]:\s")
"""Matches the speaker whom whisperX puts before a text."""
_MIN_REPETITIONS = 3
_MAX_GAP = 0.1
"""Seconds between captions that roll up, of which a line goes on to the next."""
_TOUCHING = 0.001 + 1e-6
"""Seconds between cues that touch: times are rounded to milliseconds."""
_MAX_DIGITS = 18


class _Cue(NamedTuple):
    """The times of a cue in seconds, its lines without tags, and its speaker, if there is one."""

    start: float
    end: float
    lines: list[str]
    speaker: str | None


class Cues(NamedTuple):
    """The cues of a file, and the number of those of which lines are left out, because the cue before shows them."""

    lines: list[Timed]
    num_repeated: int


def read_cues(text: str, name: str, *, is_vtt: bool) -> Cues:
    """The cues of an SRT or WebVTT file that have a text, without tags. `name` is the file, for messages.

    Comments, styles and regions of WebVTT are left out; lines of a text are joined by blanks. A text goes on after a
    blank line until the next cue. The voice of a cue is its speaker, if it has one, and so is the label of whisperX.
    Each line of text is there once (`_without_repetitions`).

    Raises:
        RecordRejected: BAD_FIELD if the times of a cue cannot be read.
    """
    cues, body = list[_Cue](), list[str]()
    times: tuple[float, float] | None = None
    last = ""
    for number, line in _lines(text, is_vtt):
        if ARROW not in line:
            body.append(line)
            continue
        match = _CUE_TIMES.fullmatch(line)
        if match is None:
            shown = line.strip()[:60]
            raise damaged(f"{name}:{number}", f"{shown!r} is not like 00:00:01,000 --> 00:00:02,500")
        last = _take_identifier(body, is_vtt, last, is_first=times is None)
        if times is not None:
            cues += _cue(times, body, is_vtt)
        elif any(map(str.strip, body)):
            raise damaged(f"{name}:{number}", "there is a text before the first cue")
        times, body = checked(_seconds(match.groups()[:4]), _seconds(match.groups()[4:]), f"{name}:{number}"), []
    if times is None and any(map(str.strip, body)):
        raise damaged(name, "it has no cue")
    if any(_is_number_after(last, line) and not before.strip() for before, line in pairwise(body)):
        raise damaged(name, f"it ends within cue {int(last) + 1}")
    cues += [] if times is None else _cue(times, body, is_vtt)
    kept, num_repeated = _without_repetitions(cues)
    return Cues([Timed(cue.start, cue.end, " ".join(cue.lines), cue.speaker) for cue in kept], num_repeated)


def _lines(text: str, is_vtt: bool) -> Iterator[tuple[int, str]]:
    """The lines with their numbers; of WebVTT without the header, and without blocks that are not cues."""
    lines = enumerate(text.split("\n"), start=1)
    if not is_vtt:
        yield from lines
        return
    is_left_out = text.startswith("WEBVTT")
    is_after_blank = True
    for number, line in lines:
        is_blank = not line.strip()
        if is_after_blank and _BLOCK.fullmatch(line):
            is_left_out = True
        is_left_out = is_left_out and not is_blank and ARROW not in line
        is_after_blank = is_blank
        if not is_left_out:
            yield number, line


def _take_identifier(body: list[str], is_vtt: bool, last: str, *, is_first: bool) -> str:
    """Take the number or the name of the next cue from the end of the lines before its times; empty if it has none.

    A line without a blank line before it is of the cue before, if there is one (not `is_first`), but for a number that
    follows `last`, the number of the cue before.
    """
    line = body[-1].strip() if body else ""
    is_number = line.isdecimal()
    is_apart = (len(body) == 1 and is_first) or (len(body) > 1 and not body[-2].strip())
    is_next = _is_number_after(last, line)
    return body.pop().strip() if line and ((is_apart and (is_vtt or is_number)) or is_next) else ""


def _is_number_after(last: str, line: str) -> bool:
    """Whether a line is the number of the cue after the one with the number `last`."""
    numbers = (last, line.strip())
    # Python reads no number with thousands of digits.
    return all(text.isdecimal() and len(text) <= _MAX_DIGITS for text in numbers) and int(line) == int(last) + 1


def _cue(times: tuple[float, float], body: list[str], is_vtt: bool) -> list[_Cue]:
    text = "\n".join(body)
    voices = {" ".join(voice.split()) for voice in _VOICE.findall(text)} if is_vtt else set()
    speaker = html.unescape(voices.pop()) if len(voices) == 1 else None
    text = _TAG.sub("", text)
    if (label := _LABEL.match(text)) is not None:
        speaker, text = label[1], text[label.end() :]
    lines = [" ".join(line.split()) for line in (html.unescape(text) if is_vtt else text).split("\n")]
    return [_Cue(*times, lines, speaker)] if (lines := [line for line in lines if line]) else []


def _without_repetitions(cues: list[_Cue]) -> tuple[list[_Cue], int]:
    """The cues without lines that are shown again, if at least half of the cues begin with lines of the one before.

    The number is that of the cues with such lines.

    Captions of YouTube and of television roll up in this way, and Whisper highlights the words of a line in turn. A cue
    that shows nothing new prolongs the one before.
    """
    counts = [0, *(_num_repeated(before, cue) for before, cue in pairwise(cues))]
    num_repetitions = sum(map(bool, counts))
    if num_repetitions < _MIN_REPETITIONS or 2 * num_repetitions < len(cues):
        return cues, 0
    kept = list[_Cue]()
    for cue, count in zip(cues, counts, strict=False):
        if count == len(cue.lines):
            kept[-1] = kept[-1]._replace(end=max(kept[-1].end, cue.end))
        else:
            kept.append(cue._replace(lines=cue.lines[count:]))
    return kept, num_repetitions


def _num_repeated(before: _Cue, cue: _Cue) -> int:
    """The number of the first lines of a cue that are the last ones of the cue before it, which it follows at once.

    A cue that shows nothing new goes on from the one before only if they touch: after a gap it is said once more.
    """
    gap = cue.start - before.end
    if abs(gap) > _MAX_GAP or (gap > _TOUCHING and before.lines[-len(cue.lines) :] == cue.lines):
        return 0
    sizes = range(min(len(before.lines), len(cue.lines)), 0, -1)
    return next((size for size in sizes if before.lines[-size:] == cue.lines[:size]), 0)


def note_on_repeated(count: int) -> str:
    """The note on `count` cues of which lines were left out."""
    what = "1 cue of subtitles shows" if count == 1 else f"{count:,} cues of subtitles show"
    return f"{what} lines of the cue before, as captions that roll up do: they are read once"


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, decimals = parts
    whole = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return float(f"{whole}.{decimals or 0}")  # the nearest number to the decimals, which a sum may miss
