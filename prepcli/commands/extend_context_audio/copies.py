"""Find segments that are the same audio under two names: they must not be the context of each other."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.limits import SAME_SECONDS
from prepcli.planning.hashing import mix64

_TOLERANCE = SAME_SECONDS + 1e-6  # 4.0 - 3.98 is a little more than 0.02
_STEPS = tuple((of_start, of_end) for of_start in (-1, 0, 1) for of_end in (-1, 0, 1))


class Segments(NamedTuple):
    """For each row the number of its file, and start and end of its segment in seconds."""

    files: NDArray[np.uint64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]

    @classmethod
    def whole(cls, files: NDArray[np.uint64]) -> "Segments":
        """Rows whose segments differ by their files alone."""
        return cls(files, np.zeros(len(files)), np.zeros(len(files)))

    def at(self, rows: NDArray[np.int64]) -> "Segments":
        """The segments of some rows."""
        return Segments(self.files[rows], self.start[rows], self.end[rows])

    def are_near(self, rows: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether pairs of rows are the same segment if their files are the same."""
        near: NDArray[np.bool_] = (np.abs(self.start[rows] - self.start[others]) <= _TOLERANCE) & (
            np.abs(self.end[rows] - self.end[others]) <= _TOLERANCE
        )
        return near


class Copies:
    """The pairs (row, position among the candidates) of the same segment: the row itself and its copies."""

    def __init__(self, segments: Segments, candidates: NDArray[np.int64]) -> None:
        files = np.sort(segments.files)
        if (files[1:] != files[:-1]).all():  # nearly all corpora of whole files
            self._rows, self._positions = candidates, np.arange(len(candidates))
            return
        pairs = [_pairs(segments, candidates, steps) for steps in _STEPS]
        rows, positions = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        order = np.argsort(rows, kind="stable")
        self._rows, self._positions = rows[order], positions[order]

    def pairs(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of the rows from `start` to `stop`: rows, counted from `start`, and positions."""
        lo, hi = np.searchsorted(self._rows, (start, stop))
        return self._rows[lo:hi] - start, self._positions[lo:hi]


def _pairs(
    segments: Segments, candidates: NDArray[np.int64], steps: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs whose candidate starts and ends the given numbers of `_TOLERANCE` cells after the row."""
    of_candidates = _cells(segments.at(candidates), (0, 0))
    order = np.argsort(of_candidates, kind="stable")
    in_order, wanted = of_candidates[order], _cells(segments, steps)
    first = np.searchsorted(in_order, wanted, "left")
    count = np.searchsorted(in_order, wanted, "right") - first
    rows = np.repeat(np.arange(len(wanted)), count)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    positions = order[np.repeat(first, count) + within]
    others = candidates[positions]
    same = (segments.files[rows] == segments.files[others]) & segments.are_near(rows, others)
    return rows[same], positions[same]


def _cells(segments: Segments, steps: tuple[int, int]) -> NDArray[np.uint64]:
    """A number for the file of each row and the cells of its start and end."""
    start, end = (
        mix64((np.floor(seconds / _TOLERANCE).astype(np.int64) + step).view(np.uint64))
        for seconds, step in zip((segments.start, segments.end), steps, strict=True)
    )
    return mix64(mix64(segments.files ^ start) ^ end)
