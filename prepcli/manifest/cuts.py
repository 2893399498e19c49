"""Durations of lhotse cuts in the JSON lines of `cuts.jsonl(.gz)`, without lhotse."""

from collections.abc import Mapping
from typing import Any

import msgspec

from prepcli.errors import RecordRejected, RejectReason
from prepcli.manifest.fields import decode_value
from prepcli.manifest.record import MAX_SECONDS


def cut_duration(fields: Mapping[str, msgspec.Raw]) -> float:
    """Seconds of one cut: its own `duration`, or for a MixedCut up to the end of its last track.

    The rule for mixed cuts is lhotse's (lhotse/cut/mixed.py, `MixedCut.duration`: rounded to 8 decimals).
    Raises `RecordRejected` with BAD_DURATION.
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
