"""Audio of several channels that is stored as it is: units count it, and the summary of the run says so."""

from collections.abc import Iterable, Mapping

SEVERAL_CHANNELS = "several_channels"
"""The name of the count."""


def channels_note(counts_of_units: Iterable[Mapping[str, float]], what: str, advice: str) -> dict[str, str]:
    """A line for the summary, if there is any such audio.

    Args:
        counts_of_units: what the units have counted.
        what: what is counted, such as records.
        advice: what to do if only one channel is meant.
    """
    count = sum(counts.get(SEVERAL_CHANNELS, 0) for counts in counts_of_units)
    if not count:
        return {}
    return {"channels": f"{count:,.0f} {what} have several channels, all of which are kept; for mono {advice}"}
