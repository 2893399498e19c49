"""Predicts the largest batch of a bucket from the memory of earlier steps: close to a line over the batch size."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prepcli.commands.estimate_batch_sizes.buckets import Bound, duration_of, tokens_of
from prepcli.commands.estimate_batch_sizes.probes import Record
from prepcli.commands.estimate_batch_sizes.search import MAX_BATCH_SIZE

_CLOSE_BUCKETS = 3
"""How many measured buckets of close lengths give the calibration of the limit."""


@dataclass(frozen=True)
class Line:
    """Bytes of memory: `base + slope * size`."""

    base: float
    slope: float

    def at(self, size: int) -> float:
        """Bytes for a batch of `size` examples."""
        return self.base + self.slope * size


class Predictor:
    """Predicts from the probes so far, of this and of other buckets.

    Args:
        bounds: of all buckets.
        record: the probes.
        limit: bytes that a step may use.
        static: bytes of the model, its gradients and the optimizer's state: what a batch of 0 would use.
    """

    def __init__(self, bounds: Sequence[Bound], record: Record, limit: int, static: int) -> None:
        self._features = np.array([_features(bound) for bound in bounds])
        self._record = record
        self._limit = limit
        self._static = static

    def size(self, bucket: int) -> int | None:
        """The largest size that will fit, as far as can be told; None if nothing can be told yet."""
        line = self.line(bucket)
        if line is None or line.slope <= 0:
            return None
        size = int((self._effective_limit(bucket) - line.base) / line.slope)
        known = self._record.bracket(bucket)
        highest = MAX_BATCH_SIZE if known.fails is None else known.fails - 1
        return max(known.fits, min(size, highest))

    def line(self, bucket: int) -> Line | None:
        """Its memory, measured if there are probes of it, else by those of other buckets."""
        return self._own_line(bucket) or self._line_of_others(bucket)

    def _own_line(self, bucket: int) -> Line | None:
        points = [(probe.size, probe.peak) for probe in self._record.of(bucket) if probe.does_fit and probe.peak]
        if not points:
            return None
        (size, peak) = points[-1]
        if len(points) == 1:
            return Line(self._static, (peak - self._static) / size)
        # The two largest: small batches may have their maximum elsewhere, such as in the optimizer.
        (before, peak_before) = points[-2]
        slope = (peak - peak_before) / (size - before)
        return Line(peak - slope * size, slope)

    def _line_of_others(self, bucket: int) -> Line | None:
        """Bytes per example as a polynomial of the lengths, fitted to the measured buckets."""
        lines = {one: self._own_line(one) for one in {probe.bucket for probe in self._record.fitting()}}
        slopes = {one: line.slope for one, line in lines.items() if line is not None and line.slope > 0}
        if not slopes:
            return None
        nearest = min(slopes, key=lambda one: (abs(one - bucket), one))
        base = next(line.base for one, line in lines.items() if one == nearest and line is not None)
        ratio = self._features[bucket][0] / self._features[nearest][0]
        return Line(base, self._fitted(bucket, slopes) or slopes[nearest] * ratio)

    def _fitted(self, bucket: int, slopes: dict[int, float]) -> float | None:
        if len(slopes) < 2:
            return None
        measured = np.array(list(slopes.values()))
        # Close buckets count most; each equation is divided by its slope, so that errors are relative.
        distance = np.array([1.0 + abs(one - bucket) for one in slopes])
        weights = 1 / measured / distance
        terms = self._features[list(slopes)][:, : len(slopes)]
        solution, *_ = np.linalg.lstsq(terms * weights[:, None], measured * weights, rcond=None)
        fitted = float(self._features[bucket][: len(slopes)] @ solution)
        return fitted if measured.min() / 4 < fitted < measured.max() * 4 else None

    def _effective_limit(self, bucket: int) -> float:
        """The bytes at which steps really fail: between the last that fits and the first that fails, where known."""
        found = []
        for other in sorted({probe.bucket for probe in self._record.fitting()}, key=lambda one: abs(one - bucket)):
            known, line = self._record.bracket(other), self._own_line(other)
            if other != bucket and line is not None and known.fits and known.fails is not None:
                low, high = line.at(known.fits), line.at(known.fails)
                found.append(min(max(self._limit, low), high))
        return float(np.median(found[:_CLOSE_BUCKETS])) if found else self._limit


def _features(bound: Bound) -> list[float]:
    """The lengths, and the products that attention and joint networks need memory for."""
    duration, tokens = duration_of(bound), tokens_of(bound)
    if tokens is None:
        return [duration, duration**2, 1.0]
    return [duration, float(tokens), duration * tokens, duration**2, float(tokens) ** 2, 1.0]
