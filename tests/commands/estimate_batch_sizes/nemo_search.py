"""The search of NeMo's OOMptimizer as its documentation tells it, to compare with; and NeMo's own where it is there.

NeMo's scripts are not in its wheel. `PREPCLI_OOMPTIMIZER` is the path of `scripts/speech_recognition/oomptimizer.py`
in a checkout of NeMo.
"""

import ast
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SCRIPT = "PREPCLI_OOMPTIMIZER"
Fits = Callable[[int, int], bool]
"""Whether a batch of so many examples fits in a bucket: called with the bucket's number and the size."""


class ReadSearch:
    """`ProfilingBatchGenerator` without batches, written from its description."""

    def __init__(self, start_batch_size: int, rel_gap_thresh: float) -> None:
        self.start_batch_size = start_batch_size
        self.threshold = rel_gap_thresh
        self.reset()

    def reset(self) -> None:
        self._current = self.start_batch_size
        self.ok: int | None = None
        self.err: int | None = None

    @property
    def max_batch_size(self) -> int | None:
        if self.ok is None or self.err is None:
            return None
        is_close = (self.err - self.ok) / self.err <= self.threshold or self.err - self.ok <= 1
        return self.ok if is_close else None

    def advance(self, oom: bool) -> bool:
        if self.max_batch_size is not None:
            return True
        if oom:
            self.err = self._current if self.err is None else min(self.err, self._current)
        else:
            self.ok = self._current if self.ok is None else max(self.ok, self._current)
        if self.ok is None:
            self._current = round(self._current / 2)
        elif self.err is None:
            self._current *= 2
        else:
            self._current = round((self.ok + self.err) / 2)
        return False


def own_of_nemo() -> type[Any] | None:
    """NeMo's class, taken alone out of its script: what the script imports is not needed for the search."""
    path = os.environ.get(SCRIPT)
    if path is None:
        return None
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    name = "ProfilingBatchGenerator"
    found = next(one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == name)
    space: dict[str, Any] = {}
    exec(compile(ast.Module([found], []), path, "exec"), space)

    def make(start_batch_size: int, rel_gap_thresh: float) -> Any:
        return space[name]({"inputs": []}, start_batch_size, rel_gap_thresh)

    return make  # type: ignore[return-value]


def nemo_profile(
    num_buckets: int, fits: Fits, start: int, threshold: float, kind: Callable[..., Any] = ReadSearch
) -> tuple[list[int], int]:
    """The batch size of each bucket as the script finds them, from the last bucket to the first; and its steps."""
    search = kind(start_batch_size=start, rel_gap_thresh=threshold)
    sizes, steps = [], 0
    for bucket in reversed(range(num_buckets)):
        search.reset()
        while True:
            steps += 1
            if search.advance(not fits(bucket, search._current)):
                break
        sizes.append(search.max_batch_size)
        search.start_batch_size = search.max_batch_size * 2
    return sizes[::-1], steps


def nemo_merge(bins: Sequence[float], sizes: Sequence[int]) -> tuple[list[float], list[int]]:
    """The final lists in one dimension: a bucket with the size of the one before replaces its bound."""
    final: list[list[Any]] = []
    for bound, size in zip(bins, sizes, strict=True):
        if final and final[-1][1] == size:
            final[-1][0] = bound
        else:
            final.append([bound, size])
    return [bound for bound, _ in final], [size for _, size in final]
