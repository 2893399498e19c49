"""Copies of a segment among candidates, against comparing every pair."""

import numpy as np
import pytest

from prepcli.commands.extend_context_audio.bundle import Segments, copies_of


def brute_force(segments: Segments, candidates: list[int]) -> set[tuple[int, int]]:
    def near(a: float, b: float) -> bool:
        return abs(a - b) <= 0.020001

    rows = range(len(segments.files))
    files, start, end = (column.tolist() for column in segments)
    return {
        (row, position)
        for row in rows
        for position, other in enumerate(candidates)
        if files[row] == files[other] and near(start[row], start[other]) and near(end[row], end[other])
    }


@pytest.mark.parametrize("num_files", [1, 5, 10_000])
def test_random_segments(num_files: int) -> None:
    rng = np.random.default_rng(num_files)
    files = rng.integers(0, num_files, 300).astype(np.uint64)
    start = np.asarray(rng.integers(0, 30, 300) * 0.01, np.float64)
    segments = Segments(files, start, start + np.asarray(1 + rng.integers(0, 6, 300) * 0.01, np.float64))
    candidates = np.flatnonzero(rng.random(300) < 0.6)
    rows, positions = copies_of(segments, candidates)
    assert (np.diff(rows) >= 0).all()
    found = list(zip(rows.tolist(), positions.tolist(), strict=True))
    expected = brute_force(segments, candidates.tolist())
    assert len(found) == len(expected)
    assert set(found) == expected


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ((0.0, 4.0), (0.0, 3.9999), True),
        ((0.0, 4.0), (0.0, 3.98), True),
        ((0.0, 4.0), (0.0, 3.97), False),
        ((1.0, 5.0), (1.02, 5.02), True),
        ((1.0, 5.0), (1.03, 5.0), False),
        ((1.0, 5.0), (0.98, 5.02), True),
    ],
)
def test_the_rounding_of_manifests(first: tuple[float, float], second: tuple[float, float], same: bool) -> None:
    start, end = (np.array(pair) for pair in zip(first, second, strict=True))
    rows, positions = copies_of(Segments(np.ones(2, np.uint64), start, end), np.array([1]))
    assert list(zip(rows.tolist(), positions.tolist(), strict=True)) == ([(0, 0), (1, 0)] if same else [(1, 0)])
