"""Counts the bytes of tensors during a training step.

The pieces of memory that an allocator takes for them are a little larger.
"""

import math
import weakref
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class MemoryCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within the context, each new tensor adds the bytes of its storage, until the storage is freed.

    Args:
        known: tensors that are there already: the model, the optimizer's state.
        limit: bytes at which the next tensor raises `torch.cuda.OutOfMemoryError`, as on a GPU; None: no limit.
        extra: bytes to count beside them.

    Attributes:
        static: bytes of the known tensors, and the extra.
        timeline: bytes in use after each new storage.
    """

    def __init__(self, known: Iterable[torch.Tensor], limit: int | None = None, extra: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._limit = limit
        self._tracked: dict[int, weakref.ref[Any]] = {}
        self.in_use = extra
        for tensor in known:
            self._track(tensor)
        self.static = self.in_use
        self.timeline: list[int] = []

    @property
    def peak(self) -> int:
        """The maximum of bytes in use."""
        return max(self.timeline, default=self.static)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the operation, and count what it has made."""
        made = func(*args, **(kwargs or {}))
        for one in tree_leaves(made):
            if isinstance(one, torch.Tensor) and self._track(one):
                self.timeline.append(self.in_use)
                if self._limit is not None and self.in_use > self._limit:
                    raise torch.cuda.OutOfMemoryError(
                        f"counted out of memory: {self.in_use} bytes in use, above the limit of {self._limit}"
                    )
        return made

    def _track(self, tensor: torch.Tensor) -> bool:
        """Count the storage unless it is counted already."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._tracked:
            return False
        size = storage.nbytes()
        self._tracked[key] = weakref.ref(storage, partial(self._freed, key, size))
        self.in_use += size
        return size > 0

    def _freed(self, key: int, size: int, _: object) -> None:
        if self._tracked.pop(key, None) is not None:
            self.in_use -= size


def envelope(timelines: Sequence[tuple[int, Sequence[int]]]) -> list[tuple[int, int]]:
    """The lines (base, slope) whose maximum is the peak for any batch size, from the timelines of two batch sizes.

    A step makes the same tensors in the same order for every batch size, and each grows linearly with it. So each
    event gives a line of its own, and where the maximum lies may change with the batch size. Where the timelines have
    different lengths, their peaks give one line.

    Args:
        timelines: (batch size, bytes in use at each event), the smaller size first.
    """
    (small, first), (large, second) = timelines
    if len(first) == len(second):
        pairs = {(before, after) for before, after in zip(first, second, strict=True)}
    else:
        pairs = {(max(first), max(second))}
    lines = set()
    for before, after in pairs:
        slope = max(0, math.ceil((after - before) / (large - small)))
        lines.add((max(before - slope * small, 0), slope))
    return _upper(lines)


def _upper(lines: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those of the lines that are the highest for some size from 1 on, by ascending slope."""
    best: dict[int, int] = {}
    for base, slope in lines:
        best[slope] = max(base, best.get(slope, 0))
    kept: list[tuple[int, int]] = []
    for slope, base in sorted(best.items()):
        while kept and kept[-1][0] + kept[-1][1] <= base + slope:
            kept.pop()  # below the new one at size 1, and less steep
        while len(kept) > 1 and _crossing(kept[-2], (base, slope)) <= _crossing(kept[-2], kept[-1]):
            kept.pop()
        kept.append((base, slope))
    return kept


def _crossing(flat: tuple[int, int], steep: tuple[int, int]) -> float:
    """The size from which on the steeper line is higher."""
    return (flat[0] - steep[0]) / (steep[1] - flat[1])
