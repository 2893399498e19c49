"""Divides items into batches: of equal padded length, or full batches of few shapes, the longest items first."""

from itertools import pairwise

import numpy as np

from prepcli.manifest.parts import Ints

GRID_STEP, MIN_GRID_STEP = 0.06, 4
"""The step from one length to the next in `grid_lengths`: 6 % of the length, rounded down, and at least 4 frames."""


def equal_length_batches(padded_lengths: Ints, max_samples: int) -> list[Ints]:
    """Divide items into batches of equal padded length, the longest items first.

    The items of one length are divided evenly among as few batches as possible, in their order.

    Args:
        padded_lengths: samples of each item after padding.
        max_samples: maximum number of samples per batch; a longer item is alone in its batch.

    Returns:
        For each batch the positions of its items in `padded_lengths`.
    """
    order = np.argsort(-padded_lengths, kind="stable")
    sorted_lengths = padded_lengths[order]
    starts = np.flatnonzero(np.diff(sorted_lengths, prepend=-1))
    batches: list[Ints] = []
    for start, end in pairwise([*starts, len(order)]):
        count = end - start
        max_items = max(1, max_samples // max(1, int(sorted_lengths[start])))
        num_batches = -(-count // max_items)
        edges = start + np.arange(num_batches + 1) * count // num_batches
        batches += [order[lo:hi] for lo, hi in pairwise(edges)]
    return batches


def grid_lengths(lengths: Ints) -> Ints:
    """Round lengths in frames up to one of a few lengths: the multiples of 4 up to 84, and then steps of 6 %."""
    grid = [MIN_GRID_STEP]
    while grid[-1] < lengths.max(initial=0):
        grid.append(grid[-1] + max(MIN_GRID_STEP, int(grid[-1] * GRID_STEP)))
    sizes: Ints = np.array(grid, np.int64)[np.searchsorted(grid, lengths)]
    return sizes


def full_batches(lengths: Ints, max_length: int) -> list[tuple[Ints, int, int]]:
    """Divide items of any lengths into batches that are as full as `max_length` allows.

    The items are taken from the longest to the shortest, so the items of a batch have nearly the same length. The first
    item of a batch decides how many rows fit; only the last batch may have fewer rows.

    Args:
        lengths: frames of each item.
        max_length: maximum frames per batch, with padding; a longer item is alone in its batch.

    Returns:
        For each batch the positions of its items in `lengths`, its number of rows when full, and the padded length of
        its rows in frames.
    """
    order = np.argsort(-lengths, kind="stable")
    on_grid = grid_lengths(lengths[order])
    batches: list[tuple[Ints, int, int]] = []
    start = 0
    while start < len(order):
        length = int(on_grid[start])
        num_rows = max(1, max_length // length)
        batches.append((order[start : start + num_rows], num_rows, length))
        start += num_rows
    return batches
