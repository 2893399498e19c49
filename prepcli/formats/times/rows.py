"""Forms with a row for each line or word: CTM, RTTM, Audacity's labels, and Kaldi's segments."""

import math
import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.times.timed import PAUSES, Timed, checked, damaged, number
from prepcli.interface.printing import number_of

SPACE = "<space>"
"""Stands for a blank in CTM files of the NeMo Forced Aligner, whose lines may be words or segments."""
RTTM_TYPES = re.compile(
    "SPEAKER|SEGMENT|NOSCORE|NO_RT_METADATA|LEXEME|NON-LEX|NON-SPEECH|FILLER|EDIT|IP|SU|CB|A/P|SPKR-INFO"
)
"""Matches the types of the rows of an RTTM, which are in the first column."""

_LABEL = re.compile(r"(?:\[\[([^\[\]]+)\]\])?(.*)", re.DOTALL)
"""Matches a label; whisperX puts the speaker before the text, in double brackets."""


_MAX_DIGITS = 9
"""Python reads no number with thousands of digits."""


class Row(NamedTuple):
    """A row of a file with its recording; `channel` is empty if it names none, and a number if it counts from 0."""

    recording: str
    timed: Timed
    channel: str | int = ""


def ctm_row(line: str, place: str) -> Row | None:
    """A word of a CTM: `recording channel start duration word [confidence ...]`; None for a pause or a comment.

    Raises:
        RecordRejected: BAD_FIELD if the line has fewer columns, or times that are not numbers.
    """
    columns = line.split()
    if not columns or columns[0].startswith(";;"):
        return None
    if len(columns) < 5:
        raise damaged(
            place, f"it has {number_of(len(columns), 'column')}; a CTM has: recording channel start duration word"
        )
    start, end = _lasting(columns[2], columns[3], place)
    word = columns[4].replace(SPACE, " ").strip()
    if not word or word in PAUSES:
        return None
    return Row(columns[0], Timed(start, end, f" {word}", is_word=True), columns[1])


def rttm_row(line: str, place: str) -> Row | None:
    """A turn of an RTTM: `SPEAKER recording channel start duration <NA> <NA> speaker ...`; None for other types.

    Raises:
        RecordRejected: as `ctm_row`.
    """
    columns = line.split()
    if not columns or columns[0].startswith(";;"):
        return None
    if not RTTM_TYPES.fullmatch(columns[0]):
        raise damaged(place, f"{columns[0][:40]!r} is not a type of an RTTM, such as SPEAKER")
    if columns[0] != "SPEAKER":
        return None
    if len(columns) < 8:
        raise damaged(place, f"it has {number_of(len(columns), 'column')}; the speaker is in the eighth of an RTTM")
    start, end = _lasting(columns[3], columns[4], place)
    return Row(columns[1], Timed(start, end, speaker=None if columns[7] == "<NA>" else columns[7]), columns[2])


def _lasting(start: str, duration: str, place: str) -> tuple[float, float]:
    begin = number(start, place)
    return checked(begin, round(begin + number(duration, place), 9), place)  # 1.1 + 1.2 is 2.3


def segments_row(line: str, place: str, value: Callable[[str, str], str | None] = lambda *_: None) -> Row | None:
    """A segment of Kaldi: `utterance recording start end [channel]`; None for a blank line, or an empty text.

    `value(file, utterance)` finds the value in `text` or `utt2spk`. An end of -1 is the end of the recording.

    Raises:
        RecordRejected: as `ctm_row`.
    """
    columns = line.split()
    if not columns:
        return None
    if len(columns) not in (4, 5):
        raise damaged(
            place, f"it has {number_of(len(columns), 'column')}; segments has: utterance recording start end [channel]"
        )
    channel = columns[4] if len(columns) == 5 else "-1"
    if not (_is_number(channel) or channel == "-1"):
        raise damaged(place, f"{channel[:40]!r} is not a channel, which count from 0")
    start, end = number(columns[2], place), number(columns[3], place)
    if end == -1 and math.isfinite(start):
        end = math.inf
    else:
        checked(start, end, place)
    text = value("text", columns[0])
    if text == "":
        return None
    its_own = None if channel == "-1" else int(channel)
    timed = Timed(start, end, text, value("utt2spk", columns[0]), channel=its_own)
    return Row(columns[1], timed, "" if its_own is None else its_own)


def by_channel(
    rows: list[Row], taken: int | None = None, name: str = "", channels: Collection[str | int] = ()
) -> Iterator[Timed]:
    """The items of rows of a recording. If it has several channels, each is a speaker: their words must not mix.

    If the file names another channel than the first, each item has its own.

    Args:
        rows: the rows.
        taken: the channel of the audio, from 0, if it is one of several: then only its rows.
        name: the file, for messages.
        channels: those that the file names, also for other recordings: whether they count from 0 is the same for all.

    Raises:
        RecordRejected: BAD_FIELD if it is not known which rows are of the channel `taken`; MISSING_FIELD if the file
            has one other channel alone, as each CTM of a program that knows no channels.
    """
    own = {row.channel for row in rows}
    several, channels = len(own) > 1, own.union(channels)
    if taken is not None and len(channels) == 1 and not any(_is_of(taken, only, channels, name) for only in channels):
        (only,) = channels
        number = only if isinstance(only, int) else _number_of(only, channels, name)
        which = f"{name} has times of one channel, {only}, which counted from 0 is {number}"
        why = f"{which}, and the channel of the record is {taken}: leave it out, or give it the channel {number}"
        raise RecordRejected(RejectReason.MISSING_FIELD, why)
    named = [_number_of(text, channels, name) for text in channels if isinstance(text, str) and _names_channel(text)]
    has_channels = len(named) == len(channels) and any(named)
    is_line = any(" " in (row.timed.text or "").strip() for row in rows)  # segments of the NeMo Forced Aligner
    for row in rows:
        if taken is not None and not _is_of(taken, row.channel, channels, name):
            continue
        timed = row.timed
        if is_line and timed.is_word:
            timed = timed._replace(text=(timed.text or "").strip(), is_word=False)
        if has_channels:
            timed = timed._replace(channel=_number_of(str(row.channel), channels, name))
        yield timed._replace(speaker=timed.speaker or str(row.channel)) if several else timed


def _is_of(taken: int, channel: str | int, channels: Collection[str | int], name: str) -> bool:
    if isinstance(channel, int):
        return channel == taken
    if len(channels) == 1 and not _names_channel(channel):
        return True  # such as <NA>: nothing is known of channels
    return _number_of(channel, channels, name) == taken


def _names_channel(channel: str) -> bool:
    return _is_number(channel) or (len(channel) == 1 and "A" <= channel.upper() <= "Z")


def _is_number(channel: str) -> bool:
    return channel.isdecimal() and len(channel) <= _MAX_DIGITS


def _number_of(channel: str, channels: Collection[str | int], name: str) -> int:
    """The number from 0 of a channel, which are 1, 2, ... or A, B, ... in a CTM; some programs write 0, 1, ..."""
    if not _names_channel(channel):
        why = f"the channel {channel[:40]!r} is neither a number nor a letter, and one channel is asked for"
        raise damaged(name, why)
    return int(channel) - ("0" not in channels) if _is_number(channel) else ord(channel.upper()) - ord("A")


def read_audacity(text: str, name: str) -> list[Timed]:
    """The labels of a track of Audacity, `start TAB end TAB text`; points and labels without a text are left out.

    Lines that begin with a backslash have the frequencies of the label before. Decimals may have a comma.

    Raises:
        RecordRejected: BAD_FIELD if times cannot be read.
    """
    labels = []
    for line_number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("\\"):
            continue
        place = f"{name}:{line_number}"
        columns = line.split("\t", 2)
        if len(columns) < 2:
            raise damaged(place, "it has no tab; a label of Audacity has: start TAB end TAB text")
        begin, stop = (number(column.replace(",", "."), place) for column in columns[:2])
        start, end = checked(begin, stop, place)
        label = _LABEL.match("".join(columns[2:]))
        words = " ".join(label[2].split()) if label else ""
        if label and words and end > start:
            labels.append(Timed(start, end, words, label[1]))
    return labels
