"""Lines of memory over batch size, from the bytes in use at each event of counted steps.

A step makes the same tensors in the same order for every batch size, and each grows linearly with it. So two batches
give a line for each event.
"""

import math
from collections.abc import Sequence

Timelines = Sequence[tuple[int, Sequence[int]]]
"""(batch size, bytes in use at each event) of two batches, the smaller first."""


def envelope(timelines: Timelines) -> list[tuple[int, int]]:
    """The lines (base, slope) whose maximum is the peak for any batch size.

    Where the maximum lies may change with the batch size. Where the timelines
    have different lengths, their peaks give one line.
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


def peak_of(lines: Sequence[tuple[int, int]], size: int) -> int:
    """Bytes for a batch of `size` examples."""
    return max(base + slope * size for base, slope in lines)
