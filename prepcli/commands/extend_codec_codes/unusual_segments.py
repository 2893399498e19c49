"""Counts of segments that a codec was not made for, such as long ones, and the lines of the summary with the counts."""

from collections.abc import Iterable, Iterator, Mapping

from prepcli.audio.rates import rate_counts, rates_note
from prepcli.audio.segments import Segment
from prepcli.interface.printing import number_of

LONG_SECONDS = 30.0
"""Segments of more seconds are counted: codecs are trained with pieces of a few seconds, and trainers cut utterances at
about 30 s."""
_CHANNELS, _LONG = "of_several_channels", "long_segments"


def counts_of(segment: Segment, rate: int) -> Iterator[str]:
    """Yield the name of each count in which this segment is counted, for a codec at `rate` (Hz).

    There are counts of all segments, of much lower sampling rates, of several channels, and of segments longer than
    `LONG_SECONDS`.
    """
    yield from rate_counts(segment.info.sampling_rate, rate)
    if segment.info.num_channels > 1:
        yield _CHANNELS
    if segment.duration > LONG_SECONDS:
        yield _LONG


def notes_of(counts_of_units: Iterable[Mapping[str, float]]) -> dict[str, str]:
    """Count the segments with a rate far below the codec's, with several channels, or longer than `LONG_SECONDS`.

    Returns:
        A line of the summary for each of these counts that is not 0, by key.
    """
    counts = list(counts_of_units)
    notes = rates_note(counts, "segments", "the codec's {} Hz")
    if several := sum(unit.get(_CHANNELS, 0) for unit in counts):
        notes["channels"] = (
            f"{number_of(several, 'segment', 'are')} of audio with several channels, of which one is encoded: the "
            "record's channel, or else the first"
        )
    if long := sum(unit.get(_LONG, 0) for unit in counts):
        notes["long_segments"] = (
            f"{number_of(long, 'segment', 'are')} longer than {LONG_SECONDS:g} s, and codecs are trained with pieces "
            "of a few seconds: compare the decoded audio of some, or cut such records"
        )
    return notes
