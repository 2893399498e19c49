"""Checks that durations are seconds: some manifests have milliseconds or samples, which makes all numbers wrong."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.errors import option

_LONG = 600.0
_MIN_SPEED, _SPEECH = 0.1, 1.0
"""Characters per second. Below `_MIN_SPEED`, every duration is doubtful; from `_SPEECH` on, even a long duration is
plausible."""
_UNITS = ((1e3, "milliseconds"), (16e3, "samples"), (1e6, "microseconds"))
_SAMPLED = 100_000


def typical_seconds(durations: NDArray[Any]) -> float:
    """Return the median of durations, shape (n,), or of a sample of them; 0.0 if there are no durations."""
    if not len(durations):
        return 0.0
    sample = durations[:: max(1, len(durations) // _SAMPLED)]
    # Not np.median, whose first call imports numpy.ma, a tenth of a short run.
    return float(np.partition(sample, len(sample) // 2)[len(sample) // 2])


def notes_on_seconds(typical: float, chars_per_second: float | None = None) -> list[str]:
    """Return a note with the probable unit if durations are probably not in seconds; else an empty list.

    Args:
        typical: the median or mean duration, expected in seconds.
        chars_per_second: the median over the records with a text; None: unknown.
    """
    is_long = typical > _LONG and (chars_per_second is None or chars_per_second < _SPEECH)
    if not is_long and (chars_per_second is None or chars_per_second >= _MIN_SPEED):
        return []
    guess = next((name for factor, name in _UNITS if 0.05 <= typical / factor <= 60), "another unit")
    texts = "" if chars_per_second is None else f" with {chars_per_second:.2g} characters per second"
    return [
        f"a typical duration is {typical:,.4g} s{texts}: is it in {guess}? Durations must be seconds; "
        "prepcli fix-durations measures them again"
    ]


def notes_on_limit(max_duration: float | None, typical: float) -> list[str]:
    """Return a note if `--max-duration` is so far above a typical duration (seconds) that it is a mistake; else []."""
    if max_duration is None or not max(_LONG, 100 * typical) < max_duration < float("inf"):
        return []
    return [
        f"{option('--max-duration', f'{max_duration:g}')} is in seconds, and leaves nothing out: {typical:,.4g} s is "
        "typical"
    ]
