"""Subtitles: SubRip (SRT) and WebVTT, as the standards have them and as people's files are."""

import html
import re
from collections.abc import Iterator

from prepcli.formats.times.timed import Timed, checked, damaged

ARROW = "-->"
_TIME = r"(?:(\d+):)?([0-5]?\d):([0-5]?\d)(?:[.,](\d{3,}))?"
_CUE_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
"""Matches the line with the times of a cue, and its settings."""
_BLOCK = re.compile(r"NOTE(\s.*)?|(STYLE|REGION)\s*")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
_TAG = re.compile(r"</?(?:[biuscv]|font|lang|ruby|rt)(?:[\s.][^<>]*)?>|<\d[\d:.]*>|\{\\[^{}]*\}", re.IGNORECASE)
"""Matches tags of both forms; others, such as <unk>, are text. In braces: the styles of SubStation."""


def read_cues(text: str, name: str, *, is_vtt: bool) -> list[Timed]:
    """The cues of an SRT or WebVTT file that have a text, without tags. `name` is the file, for messages.

    Comments, styles and regions of WebVTT are left out; lines of a text are joined by blanks. A text goes on after a
    blank line until the next cue. The voice of a cue is its speaker, if it has one.

    Raises:
        RecordRejected: BAD_FIELD if the times of a cue cannot be read.
    """
    cues, body = [], list[str]()
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
        last = _take_identifier(body, is_vtt, last)
        if times is not None:
            cues += _cue(times, body, is_vtt)
        elif any(map(str.strip, body)):
            raise damaged(f"{name}:{number}", "there is a text before the first cue")
        times, body = checked(_seconds(match.groups()[:4]), _seconds(match.groups()[4:]), f"{name}:{number}"), []
    if times is None and any(map(str.strip, body)):
        raise damaged(name, "it has no cue")
    return cues + ([] if times is None else _cue(times, body, is_vtt))


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


def _take_identifier(body: list[str], is_vtt: bool, last: str) -> str:
    """Take the number or the name of the next cue from the end of the lines before its times; empty if it has none.

    A number without a blank line before it is that of the cue if it follows `last`, the number of the cue before.
    """
    line = body[-1].strip() if body else ""
    is_number = line.isdecimal()
    is_apart = (len(body) == 1 and not last) or (len(body) > 1 and not body[-2].strip())
    is_next = is_number and last.isdecimal() and int(line) == int(last) + 1
    return body.pop().strip() if line and ((is_apart and (is_vtt or is_number)) or is_next) else ""


def _cue(times: tuple[float, float], body: list[str], is_vtt: bool) -> list[Timed]:
    text = "\n".join(body)
    voices = {" ".join(voice.split()) for voice in _VOICE.findall(text)} if is_vtt else set()
    text = _TAG.sub("", text)
    words = " ".join((html.unescape(text) if is_vtt else text).split())
    speaker = html.unescape(voices.pop()) if len(voices) == 1 else None
    return [Timed(*times, words, speaker)] if words else []


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, decimals = parts
    whole = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return float(f"{whole}.{decimals or 0}")  # the nearest number to the decimals, which a sum may miss
