"""Audio whose sampling rate is much lower than the rate of the output: units count it, and the summary reports it."""

from collections import Counter
from collections.abc import Iterable, Mapping

_ALL, _LOW = "with_a_rate", "low_rate/"
_MUCH_LOWER = 0.75
"""A rate is much lower than the wanted rate if their ratio is below this number.

22,050 Hz is not much lower than 24,000 Hz, but 16,000 Hz is.
"""


def rate_counts(rate: int, wanted: float) -> list[str]:
    """Return the names under which a unit counts audio that is resampled from `rate` to `wanted` (both Hz).

    One name is for all audio. Audio whose rate is much lower than `wanted` has a second name.
    """
    return [_ALL, f"{_LOW}{rate}/{wanted:g}"] if rate < _MUCH_LOWER * wanted else [_ALL]


def rates_note(counts_of_units: Iterable[Mapping[str, float]], what: str, needed: str) -> dict[str, str]:
    """Return a note for the summary: a dict with one text, or an empty dict if no audio has a much lower rate.

    Args:
        counts_of_units: the counts of each unit, by name; see `rate_counts`.
        what: the noun for the audio, such as "segments".
        needed: a text for the rate of the output, such as "the codec's {} Hz"; the rate replaces the braces.
    """
    counts: Counter[str] = Counter()
    for unit in counts_of_units:
        counts.update({name: int(count) for name, count in unit.items() if name == _ALL or name.startswith(_LOW)})
    total = counts.pop(_ALL, 0)
    if not counts:
        return {}
    low = Counter[int]()
    for name, count in counts.items():
        rate, _, wanted = name.removeprefix(_LOW).partition("/")
        low[int(rate)] += count
    rates = ", ".join(f"{rate} Hz: {count:,}" for rate, count in sorted(low.items()))
    return {
        "low_rates": f"{low.total():,} of {total:,} {what} ({low.total() / total:.0%}) have a much lower sampling rate "
        f"than {needed.format(wanted)} ({rates}): resampling does not add the high frequencies that they lack"
    }
