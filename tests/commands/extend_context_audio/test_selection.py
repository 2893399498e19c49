"""Selection against a plain reference: all pairs, sorted, the first that fits."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from prepcli.commands.extend_context_audio import bundle
from prepcli.commands.extend_context_audio.bundle import Segments, select_contexts
from tests.support.lazy import lazy

pytestmark = pytest.mark.torch

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")


def unit_rows(count: int, dim: int, seed: int = 0) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def reference(
    embeddings: NDArray[np.float32], is_candidate: NDArray[np.bool_], segments: NDArray[np.uint64]
) -> list[tuple[int, float]]:
    """For each row all others, the most similar first (the earlier of equals): the first that fits, or (-1, nan)."""
    exact = embeddings.astype(np.float64)
    chosen = []
    for row in range(len(exact)):
        similarities = (exact[row] * exact).sum(1)
        for other in np.lexsort((np.arange(len(exact)), -similarities)):
            if other != row and is_candidate[other] and segments[other] != segments[row]:
                chosen.append((int(other), float(similarities[other])))
                break
        else:
            chosen.append((-1, float("nan")))
    return chosen


def whole_files(numbers: NDArray[np.uint64]) -> Segments:
    """The segments are equal if the files are."""
    return Segments(numbers, np.zeros(len(numbers)), np.zeros(len(numbers)))


def check(
    embeddings: NDArray[np.float32],
    is_candidate: NDArray[np.bool_] | None = None,
    segments: NDArray[np.uint64] | None = None,
) -> list[int]:
    count = len(embeddings)
    candidates = np.ones(count, bool) if is_candidate is None else is_candidate
    numbers = np.arange(count, dtype=np.uint64) if segments is None else segments
    chosen = select_contexts(torch.from_numpy(embeddings), candidates, whole_files(numbers))
    wanted = reference(embeddings, candidates, numbers)
    assert chosen.best.tolist() == [best for best, _ in wanted]
    np.testing.assert_allclose(chosen.similarity, [value for _, value in wanted], atol=1e-12)
    return [int(best) for best in chosen.best]


@pytest.mark.parametrize(
    ("count", "dim"), [(1, 8), (2, 192), (3, 192), (700, 16), pytest.param(2500, 192, marks=pytest.mark.slow)]
)
def test_random(count: int, dim: int) -> None:
    check(unit_rows(count, dim))


def test_some_are_not_candidates() -> None:
    rng = np.random.default_rng(1)
    check(unit_rows(600, 32), rng.random(600) < 0.1, rng.integers(0, 300, 600).astype(np.uint64))


def test_nobody_is_a_candidate() -> None:
    assert check(unit_rows(50, 8), np.zeros(50, bool)) == [-1] * 50


def test_only_one_is_a_candidate() -> None:
    is_candidate = np.zeros(20, bool)
    is_candidate[4] = True
    assert check(unit_rows(20, 8), is_candidate) == [4, 4, 4, 4, -1, *[4] * 15]


@pytest.mark.slow
def test_identical_recordings_are_ties_and_the_first_wins() -> None:
    """Copies under other names have equal embeddings; a product of matrices may round each a little differently."""
    rows = unit_rows(450, 192)
    rows[50:] = np.tile(rows[:50], (8, 1))
    assert check(rows) == [*range(50, 100), *list(range(50)) * 8]
    rows[:] = rows[0]
    assert check(rows) == [1, *[0] * 449]


def test_a_copy_of_the_segment_is_not_its_context() -> None:
    rows = unit_rows(4, 64)
    rows[3] = rows[0]
    assert check(rows)[0] == 3
    assert check(rows, segments=np.array([7, 1, 2, 7], np.uint64))[0] in (1, 2)
    assert check(rows[:2], segments=np.array([7, 7], np.uint64)) == [-1, -1]


def test_nearly_equal_similarities() -> None:
    """Differences far below float32 decide as they do in exact arithmetic."""
    rows = np.zeros((400, 4), np.float32)
    rows[:, 0] = 1
    rows[1:, 1] = np.random.default_rng(5).permutation(399) * 1e-9
    check(rows)


def test_rows_without_an_embedding() -> None:
    rows = unit_rows(30, 8)
    rows[3] = np.nan
    is_candidate = np.ones(30, bool)
    is_candidate[3] = False
    chosen = select_contexts(torch.from_numpy(rows), is_candidate, whole_files(np.arange(30, dtype=np.uint64)))
    others = np.delete(np.arange(30), 3)
    wanted = reference(rows[others], is_candidate[others], others.astype(np.uint64))
    assert chosen.best[others].tolist() == [others[best] for best, _ in wanted]
    assert chosen.best[3] == -1


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = unit_rows(500, 48)
    whole = check(rows)
    monkeypatch.setitem(bundle.CHUNK_VALUES, "cpu", 1)
    monkeypatch.setattr(bundle, "_MIN_ROWS", 1)
    assert check(rows) == whole


@pytest.mark.slow
def test_memory_stays_small() -> None:
    """A matrix of all pairs would take 1.6 GB."""
    rows = torch.from_numpy(unit_rows(20_000, 16))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    chosen = select_contexts(rows, np.ones(20_000, bool), whole_files(np.arange(20_000, dtype=np.uint64)))
    assert (chosen.best >= 0).all()
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 300
