"""Duration bins for bucketed training, and the resulting share of padding."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from prepcli.audio.seconds import seconds_of
from prepcli.commands.estimate_bins.padding import evenly, padding
from prepcli.commands.estimate_bins.settings import DurationSettings, lower_limit, upper_limit, with_keys_of
from prepcli.commands.estimate_bins.text import BinsText, percentiles_text, plain_list
from prepcli.errors import UsageError, option
from prepcli.interface.calls import tell
from prepcli.interface.printing import number_of
from prepcli.interface.reports import brief, percentiles
from prepcli.jobs.inputs.data import data_of
from prepcli.manifest.datasets import DataSet, Mix
from prepcli.manifest.durations import Durations, read_input
from prepcli.manifest.inputs import notes_on_input
from prepcli.manifest.seconds import notes_on_limit, notes_on_seconds, typical_seconds
from prepcli.planning.cut_points import duration_bins

Floats = npt.NDArray[np.float64]

OTHER_NUM_BUCKETS = (5, 10, 20, 30, 50, 100)
"""Numbers of buckets for which the report compares padding."""


@dataclass
class DurationBucket:
    """The examples that are longer than `above` and not longer than `up_to` (seconds)."""

    above: float
    up_to: float
    num_examples: int
    hours: float


@dataclass
class BinsReport(BinsText):
    """Bins, their buckets, and the padding that results: a share of the frames, from 0 to 1. Durations in seconds."""

    num_buckets: int
    """Number of buckets that the bins make; if it is smaller than the requested number, `notes` say why."""
    bucket_duration_bins: list[float]
    max_duration: float
    num_examples: int
    hours: float
    num_discarded: int
    num_skipped: int
    num_rejected: int
    first_rejected: str | None
    percentiles: dict[str, float]
    buckets: list[DurationBucket]
    batch_duration: float
    padding: float
    padding_without_buckets: float
    padding_by_num_buckets: dict[int, float]
    """Share of padding by the requested number of buckets."""
    notes: list[str]
    durations: Floats = field(repr=False)
    """The durations of the examples in ascending order, of shape (num_examples,)."""

    def __repr__(self) -> str:
        return brief(self, "num_buckets", "bucket_duration_bins", "max_duration", "num_examples", "hours", "padding")

    def lines(self) -> list[str]:
        """The lines that the command prints; those to paste into a config are worded as in NeMo's script."""
        padding = ", ".join(f"{count}: {share:.1%}" for count, share in self.padding_by_num_buckets.items())
        return [
            *self.first_lines("min/max duration"),
            f"\tnum_buckets={self.num_buckets}",
            f"\tbucket_duration_bins={plain_list(self.bucket_duration_bins)}",
            f"\tmax_duration={self.max_duration}",
            "",
            f"{self.hours:,.2f} hours; seconds at percentiles: {percentiles_text(self.percentiles)}",
            f"Padding in batches of {self.batch_duration:g} s: {self.padding:.1%} with these bins, "
            f"{self.padding_without_buckets:.1%} without bucketing.",
            f"Padding by number of buckets: {padding}",
            "",
            "bucket   longer than    up to (s)     examples        hours",
            *(
                f"{number:6d} {bucket.above:13.3f} {bucket.up_to:12.3f} {bucket.num_examples:12,} {bucket.hours:12,.2f}"
                for number, bucket in enumerate(self.buckets)
            ),
        ]

    def bins_alone(self) -> str:
        """The bins as NeMo's script prints them: `[1.74,3.26]`."""
        return plain_list(self.bucket_duration_bins)


def bins_of_durations(settings: DurationSettings, keep: Sequence[str]) -> BinsReport:
    """Estimate the bins of the examples for which all expressions of `keep` are true.

    Unusable lines are counted, and their number is not limited; else the errors are those of `prepcli.estimate_bins`.
    """
    data = data_of(settings.data, "leave out")
    settings = with_keys_of(settings, data)
    check_limits(settings.min_duration, settings.max_duration)
    keeping = None
    if keep:
        from prepcli.commands.filter.keeping import Keeping  # with the whole of the engine

        keeping = Keeping(keep)
    examples = read_within(data, settings, selection=keeping)
    if keeping is not None:
        tell(f"note: {keeping.note()}")
    if not len(examples.seconds):
        raise UsageError(f"{settings.data} holds no example that can be used{explain_empty(examples)}")
    durations = np.sort(examples.seconds)
    typical = typical_seconds(durations)
    bins = [round(edge, 5) for edge in duration_bins(durations, settings.num_buckets)]
    sample = evenly(durations)
    others = {count: bins if count == settings.num_buckets else None for count in OTHER_NUM_BUCKETS}
    others[settings.num_buckets] = bins
    paddings = {
        count: padding(durations, edges or duration_bins(sample, count), settings.batch_duration)
        for count, edges in sorted(others.items())
        if count <= len(sample)
    }
    buckets = _buckets(durations, bins)
    num_empty = sum(not bucket.num_examples for bucket in buckets)
    return BinsReport(
        num_buckets=len(buckets),
        bucket_duration_bins=bins,
        # Rounded up, because a limit that is rounded down would exclude the longest example.
        max_duration=math.ceil(durations[-1] * 1e5) / 1e5,
        num_examples=len(durations),
        hours=float(durations.sum()) / 3600,
        num_discarded=examples.num_discarded,
        num_skipped=examples.num_skipped,
        num_rejected=examples.num_rejected,
        first_rejected=examples.first_rejected,
        percentiles=percentiles(durations),
        buckets=buckets,
        batch_duration=settings.batch_duration,
        padding=paddings[settings.num_buckets],
        padding_without_buckets=padding(durations, [], settings.batch_duration),
        padding_by_num_buckets=paddings,
        notes=[
            *notes_on_input(data),
            *notes_on_seconds(typical),
            *notes_on_limit(settings.max_duration, typical),
            *notes_on_fewer_buckets(settings.num_buckets, len(buckets), num_empty, "seconds"),
        ],
        durations=durations,
    )


def read_within(data: DataSet | Mix, settings: DurationSettings, **more: Any) -> Durations:
    """Read the examples within the limits of the settings; `more` are further arguments of `read_input`."""
    return read_input(
        data,
        num_workers=settings.num_workers,
        min_duration=lower_limit(settings.min_duration),
        max_duration=upper_limit(settings.max_duration),
        num_examples=settings.num_examples,
        seconds_of=seconds_of,
        **more,
    )


def notes_on_fewer_buckets(asked: int, count: int, num_empty: int, unit: str) -> list[str]:
    """A note on why there are fewer buckets than requested; empty if all of them exist and have examples.

    `asked` buckets were requested; the bins make `count` buckets, of which `num_empty` have no example. `unit` is the
    unit of the lengths, in the plural.
    """
    if count == asked and not num_empty:
        return []
    filled = f", of which {count - num_empty:,} hold examples" if num_empty else ""
    return [
        f"{asked:,} buckets were asked for, the bins make {count:,}{filled}: a bucket ends with the example that "
        f"exceeds 1/{asked} of all {unit}, so that less is left for the last ones, and examples of equal length stay "
        "together"
    ]


def _buckets(durations: Floats, bins: list[float]) -> list[DurationBucket]:
    edges = [0, *np.searchsorted(durations, bins, side="right").tolist(), len(durations)]
    bounds = [0.0, *bins, float(durations[-1])]
    return [
        DurationBucket(above, up_to, end - start, float(durations[start:end].sum()) / 3600)
        for above, up_to, start, end in zip(bounds, bounds[1:], edges, edges[1:], strict=False)
    ]


def check_limits(low: float | None, high: float | None) -> None:
    """Raise `UsageError` if a limit (seconds) is not a number, or if the limits allow no value."""
    if any(limit is not None and math.isnan(limit) for limit in (low, high)):
        raise UsageError(
            f"{option('--min-duration')} and {option('--max-duration')} must be numbers of seconds, not nan"
        )
    if low is not None and high is not None and low > high:
        raise UsageError(
            f"{option('--min-duration', f'{low:g}')} leaves nothing up to {option('--max-duration', f'{high:g}')}"
        )


def explain_empty(durations: Durations) -> str:
    """The reason why no example was found, in parentheses, for a message."""
    reasons = [] if durations.num_discarded + durations.num_skipped + durations.num_rejected else ["it has no lines"]
    if durations.num_discarded:
        reasons.append(f"{durations.num_discarded} outside the duration limits")
    if durations.num_skipped:
        reasons.append(f"{durations.num_skipped} skipped by _skipme")
    if durations.first_rejected:
        reasons.append(f"{number_of(durations.num_rejected, 'unusable line')}, the first is {durations.first_rejected}")
    return f" ({'; '.join(reasons)})" if reasons else ""
