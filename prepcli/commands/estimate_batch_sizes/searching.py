"""The search over all buckets: which step to try next, and what NeMo's answers are when enough is known."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prepcli.commands.estimate_batch_sizes.buckets import Bound, duration_of, shown, tokens_of
from prepcli.commands.estimate_batch_sizes.child import Trainer
from prepcli.commands.estimate_batch_sizes.lines import envelope, peak_of
from prepcli.commands.estimate_batch_sizes.prediction import Predictor
from prepcli.commands.estimate_batch_sizes.probes import Found, Lines, Probe, Record
from prepcli.commands.estimate_batch_sizes.search import MAX_MISSES, follow, next_size, next_start
from prepcli.errors import PrepcliError

PRECISION = 0.01
"""The longest duration that fits is found to this share of it, and to a tenth of a second at best."""


@dataclass(frozen=True)
class Settings:
    """What decides the answers, beside the steps: `limit` is in bytes."""

    bounds: Sequence[Bound]
    start: int
    threshold: float
    is_estimate: bool
    limit: int
    static: int


class Search:
    """Finds the batch size of each bucket.

    Args:
        settings: the buckets, and how to search.
        record: the steps that were made already, also by other ranks.
        child: makes further ones.
    """

    def __init__(self, settings: Settings, record: Record, child: Trainer) -> None:
        self._settings = settings
        self._record = record
        self._child = child
        self.threshold = settings.threshold
        self._predictor = Predictor(settings.bounds, record, settings.limit, settings.static)

    def settle(self, bucket: int, start: int) -> int:
        """Make the steps that are missing for NeMo's answer.

        Args:
            bucket: its number.
            start: the size where NeMo's search would begin.

        Returns:
            The largest batch size that fits; 0 where not one example does.
        """
        if self._settings.is_estimate:
            if self._record.lines_of(bucket) is None:
                self._count(bucket)
            return self._result(bucket, start)
        misses = 0
        while True:
            predicted = self._predictor.size(bucket) if misses < MAX_MISSES else None
            size = self._next(bucket, start, predicted)
            if size is None:
                return self._result(bucket, start)
            probe = self._try(bucket, size)
            misses += predicted is not None and probe.does_fit != (size <= predicted)

    def results(self, finish: bool = False) -> list[int]:
        """NeMo's answer for every bucket, from the largest to the smallest, which begins where the one before ended.

        Args:
            finish: make the steps that are missing; otherwise missing answers are predicted.
        """
        sizes, start = [], self._settings.start
        for bucket in reversed(range(len(self._settings.bounds))):
            size = self.settle(bucket, start) if finish else self._result(bucket, start)
            sizes.append(size)
            start = next_start(size, start)
        return sizes[::-1]

    def start_of(self, bucket: int) -> int:
        """Where NeMo's search of a bucket begins, as far as the larger buckets are known or can be predicted."""
        start = self._settings.start
        for larger in reversed(range(bucket + 1, len(self._settings.bounds))):
            start = next_start(self._result(larger, start), start)
        return start

    def answer(self, bucket: int) -> Callable[[int], bool]:
        """Whether sizes fit: known, estimated, or predicted."""
        lines = self._record.lines_of(bucket)
        if lines is not None:
            return lambda size: lines.peak(size) <= self._settings.limit
        known, predicted = self._record.bracket(bucket), self._predictor.size(bucket) or 0

        def measured(size: int) -> bool:
            does_fit = known.answer(size)
            return size <= predicted if does_fit is None else does_fit

        return measured

    def lines(self, bucket: int) -> list[tuple[float, float]]:
        """The line of a bucket's memory, (base, slope) in bytes, as measured; empty where nothing is known."""
        line = self._predictor.line(bucket)
        return [] if line is None else [(round(line.base), round(line.slope, 1))]

    def longest(self, sizes: Sequence[int]) -> Found | None:
        """The longest duration of which one example fits, where that is not so for all buckets of one dimension."""
        first = next((bucket for bucket, size in enumerate(sizes) if not size), None)
        if first is None or isinstance(self._settings.bounds[first], tuple):
            return None
        found = self._record.longest(first)
        if found is None:
            found = self._bisect_duration(first)
            self._record.add_longest(found)
        return found

    def _bisect_duration(self, first: int) -> Found:
        low = duration_of(self._settings.bounds[first - 1]) if first else 0.0
        high = duration_of(self._settings.bounds[first])
        for count in itertools.count():
            middle = round((low + high) / 2, 1)
            if not low < middle < high or high - low <= PRECISION * high:
                return Found(self._record.digest, first, low, count)
            if self._settings.is_estimate:
                counted = self._child.count(middle, None)
                fits = peak_of(envelope(counted.timelines), 1) <= self._settings.limit
            else:
                fits = self._child.step(middle, None, 1).outcome == "fits"
            low, high = (middle, high) if fits else (low, middle)
        raise AssertionError

    def _result(self, bucket: int, start: int) -> int:
        return follow(start, self._settings.threshold, self.answer(bucket)).fits

    def _next(self, bucket: int, start: int, predicted: int | None) -> int | None:
        known = self._record.bracket(bucket)
        size = next_size(start, self._settings.threshold, known, predicted)
        if size is None or predicted is None or not 0 < 2 * known.fits < size:
            return size
        points = list(self._record.fitting())
        # The line through one small batch, where no other bucket was measured, is rough: a step halfway makes it exact.
        return max(2 * known.fits, predicted // 2) if len(points) == 1 else size

    def _try(self, bucket: int, size: int) -> Probe:
        bound = self._settings.bounds[bucket]
        step = self._child.step(duration_of(bound), tokens_of(bound), size)
        if step.outcome == "cuda_error" and size == 1:
            raise PrepcliError(f"a step with one example of bucket {shown(bound)} fails: {step.detail}")
        probe = Probe(
            self._record.digest, bucket, size, step.outcome, step.peak, step.reserved, step.seconds, step.detail
        )
        self._record.add(probe)
        return probe

    def _count(self, bucket: int) -> None:
        bound = self._settings.bounds[bucket]
        timelines = self._child.count(duration_of(bound), tokens_of(bound)).timelines
        measured = [(size, max(line)) for size, line in timelines]
        self._record.add_lines(Lines(self._record.digest, bucket, envelope(timelines), measured))
