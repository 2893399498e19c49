"""The units of recordings, and the parts of long ones: each part is a unit, so that workers and ranks share them.

A part ends in the longest pause of the minute after its hour. Both neighbours find this pause by themselves, in the
same way, so that the result depends neither on the number of workers nor on who made the other part.
"""

from dataclasses import dataclass

import numpy as np

from prepcli.audio.segments import Segment, mono_blocks
from prepcli.errors import RecordRejected
from prepcli.jobs.record_job import RecordUnit
from prepcli.jobs.records import Records
from prepcli.models.silero import END_THRESHOLD, FRAME, SAMPLING_RATE, speech_probabilities

PART_SECONDS = 3600.0
"""Recordings of at least two such lengths are divided by speech, into parts of this length or somewhat longer."""
_BEFORE, _AFTER = 5.0, 60.0
"""Seconds before and after the end of a part's hour that are looked at; in the first, the detector gets going."""
_UNIT_SECONDS, _UNIT_RECORDS = 7200.0, 250


@dataclass(frozen=True, slots=True)
class PartUnit(RecordUnit):
    """Some records; or part `part` of `num_parts` of one record, which the first of these units counts."""

    part: int = 0
    num_parts: int = 1


def units_of_recordings(records: Records, *, by_parts: bool) -> list[PartUnit]:
    """Divide records into units of about two hours or 250 records; `by_parts`: long ones into several units."""
    durations = records.index.duration
    bounds: list[tuple[int, int, int]] = []
    first, seconds = 0, 0.0
    for number, duration in enumerate(durations.tolist()):
        num_parts = int(duration // PART_SECONDS) if by_parts and duration >= 2 * PART_SECONDS else 1
        if num_parts > 1 or seconds + duration > _UNIT_SECONDS or number - first == _UNIT_RECORDS:
            bounds += [(first, number, 1)] if number > first else []
            first, seconds = number, 0.0
        seconds += duration
        if num_parts > 1:
            bounds.append((number, number + 1, num_parts))
            first, seconds = number + 1, 0.0
    bounds += [(first, len(durations), 1)] if len(durations) > first else []
    units: list[PartUnit] = []
    for lo, hi, num_parts in bounds:
        cost = float(durations[lo:hi].sum()) / num_parts
        for part in range(num_parts):
            name, count = f"records_{len(units):06d}", 0 if part else hi - lo
            units.append(PartUnit(name, cost, count, len(units), lo, hi, part, num_parts))
    return units


def part_of(segment: Segment, part: int, num_parts: int) -> Segment:
    """Part `part` of a recording, from 0; the whole if it has one part."""
    start, end = (_bound(segment, number, num_parts) for number in (part, part + 1))
    return segment._replace(start=segment.start + start, num_samples=end - start)


def _bound(segment: Segment, number: int, num_parts: int) -> int:
    """The sample at which a part begins: in the middle of the longest pause near, else where speech is least likely."""
    if number in (0, num_parts):
        return segment.num_samples if number else 0
    rate = segment.info.sampling_rate
    place, following = (segment.num_samples * one // num_parts for one in (number, number + 1))
    first, last = max(place - round(_BEFORE * rate), 0), min(place + round(_AFTER * rate), (place + following) // 2)
    near = segment._replace(start=segment.start + first, num_samples=last - first)
    try:
        probabilities = speech_probabilities(mono_blocks(near), rate)
    except RecordRejected:
        return place  # the parts report the damage
    skipped = (place - first) * SAMPLING_RATE // (rate * FRAME)
    inside = probabilities[skipped:]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside < END_THRESHOLD, [False]]).astype(np.int8)))
    pauses = edges.reshape(-1, 2)
    if len(pauses):
        lo, hi = (int(place) for place in pauses[np.argmax(pauses[:, 1] - pauses[:, 0])])
        middle = (skipped + (lo + hi) / 2) * FRAME
    else:
        middle = (skipped + int(np.argmin(inside)) + 0.5) * FRAME
    return int(min(first + round(middle * rate / SAMPLING_RATE), last))
