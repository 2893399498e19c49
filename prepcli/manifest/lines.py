"""The definition of a usable line, for all readers of NeMo manifests and lhotse cuts.

`read_line` decides about one line. `decode_lines` and `check_usable` decide about a block of lines in a fraction of the
time; if they find anything unusual, `read_line` decides about each line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from prepcli.errors import RecordRejected, RejectReason
from prepcli.gate import MAX_SECONDS, Name
from prepcli.manifest.fields import (
    MAX_DIGITS,
    check_fields,
    decode_value,
    is_skipped,
    may_hold_long_number,
    parse_fields,
    with_audio_filepath,
)
from prepcli.manifest.record import Record


def cut_duration(fields: Mapping[str, msgspec.Raw]) -> float:
    """Seconds of one cut: its `duration`; for a MixedCut, the end of its last track.

    The rule for mixed cuts is lhotse's (lhotse/cut/mixed.py, `MixedCut.duration`: rounded to 8 decimals). Raises
    `RecordRejected` with BAD_DURATION.
    """
    try:
        if "duration" in fields:
            duration = msgspec.json.decode(fields["duration"], type=float)
        else:
            tracks: Any = decode_value(fields["tracks"])
            ends = [float(track.get("offset") or 0.0) + float(track["cut"]["duration"]) for track in tracks]
            duration = round(max(ends), ndigits=8)
    except (KeyError, TypeError, AttributeError, ValueError, msgspec.DecodeError):
        duration = 0.0
    if not duration > 0:
        raise RecordRejected(RejectReason.BAD_DURATION, "the cut has no duration above 0")
    if duration > MAX_SECONDS:
        raise RecordRejected(RejectReason.BAD_DURATION, f"the cut claims to last {duration:g} s")
    return duration


Chars = npt.NDArray[np.uint8]
Ends = npt.NDArray[np.int64]

_NEWLINE, _CARRIAGE_RETURN, _OPEN, _CLOSE = b"\n\r{}"


class NemoLine(msgspec.Struct, gc=False):
    """The fields that determine whether a line is usable; msgspec checks the syntax of other fields and drops them.

    The types of `text` to `id` are `prepcli.gate.FIELD_TYPES`.
    """

    audio_filepath: Annotated[str, msgspec.Meta(min_length=1)]
    duration: Annotated[float, msgspec.Meta(gt=0, le=MAX_SECONDS)]
    offset: Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)] | None = 0.0
    skipme: Any = msgspec.field(default=None, name="_skipme")
    text: str | None = None
    normalized_text: str | None = None
    speaker: Name = None
    lang: Name = None
    id: Name = None


class CutDurationLine(msgspec.Struct, gc=False):
    """A line with a cut that has the field `duration`: no other field determines whether the cut is usable.

    A cut without this field (a MixedCut) is read by `cut_duration`.
    """

    duration: Annotated[float, msgspec.Meta(gt=0, le=MAX_SECONDS)]


@dataclass(slots=True)
class UsableLine:
    """A usable line: its fields, its duration in seconds, and, unless it is a cut, its record."""

    fields: dict[str, msgspec.Raw]
    duration: float
    record: Record | None


def read_line(line: bytes, cuts: bool) -> UsableLine | None:
    """Read one line of a manifest or, with `cuts`, of a file of cuts; None if it is blank or has a true `_skipme`.

    Raises:
        RecordRejected: the line is not usable.
    """
    if not line.strip():
        return None
    fields = parse_fields(line)
    if cuts:
        return UsableLine(fields, cut_duration(fields), None)
    if is_skipped(fields):
        return None
    record = Record(fields)
    check_fields(fields)
    return UsableLine(fields, record.duration, record)


def line_ends(data: bytes) -> tuple[Chars, Ends]:
    """The bytes of whole lines as an array, and the position of each line's end: its newline or the end of the data."""
    chars = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(chars == _NEWLINE)
    if chars[-1] != _NEWLINE:
        ends = np.append(ends, len(data))
    return chars, ends


def decode_lines(data: bytes, chars: Chars, ends: Ends, decoder: msgspec.json.Decoder[Any]) -> list[Any] | None:
    """The objects in whole lines (see `line_ends`), one per line; None if a line is blank or could be unusable.

    After None, `read_line` must decide about each line.
    """
    modern = with_audio_filepath(data)
    if modern is not data:
        data, (chars, ends) = modern, line_ends(modern)
    if int(np.diff(ends, prepend=-1).max()) > MAX_DIGITS and may_hold_long_number(data):
        return None
    if b"\r" in data and data.count(b"\r") != int(np.count_nonzero(chars[ends - 1] == _CARRIAGE_RETURN)):
        return None
    try:
        if not data.isascii():
            data.decode("utf-8")
        if not _one_object_per_line(chars, ends):
            return [decoder.decode(line) for line in data.removesuffix(b"\n").split(b"\n")]
        # Twice as fast as decoding line by line. Equal numbers of objects and lines mean one object per line, and no
        # empty line.
        objects = decoder.decode_lines(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return objects if len(objects) == len(ends) else None


def check_usable(lines: Sequence[NemoLine], data: bytes) -> bool:
    """Whether each of some lines, decoded from `data`, can be used: no path has a NUL, and no `_skipme` is true.

    The decoder has checked all else.
    """
    skips = [line.skipme for line in lines]
    if skips.count(None) < len(skips) and any(skips):
        return False
    return b"\\" not in data or "\0" not in "".join([line.audio_filepath for line in lines])  # NUL must be escaped


def _one_object_per_line(chars: Chars, ends: Ends) -> bool:
    """Whether every line begins with an opening brace and ends with a closing brace.

    If such lines can also be decoded as JSON, each line is one object. An object over several lines would need a comma
    between the closing brace at the end of a line and the opening brace of the next line.
    """
    last = chars[ends - 1]
    if (last == _CARRIAGE_RETURN).any():
        last = np.where(last == _CARRIAGE_RETURN, chars[ends - 2], last)
    opened = chars[0] == _OPEN and bool((chars[ends[:-1] + 1] == _OPEN).all())
    return opened and bool((last == _CLOSE).all())
