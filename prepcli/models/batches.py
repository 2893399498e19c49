"""Batches of items that are equally long, cut by seconds: no padding beyond an item's own place on the grid."""

from itertools import pairwise

import numpy as np

from prepcli.manifest.parts import Ints


def equal_length_batches(padded_lengths: Ints, max_samples: int) -> list[Ints]:
    """Batches of positions in `padded_lengths` (samples), longest items first; each holds items of one place only.

    A batch has `max_samples` samples at most, unless a single item is longer. The items of one place are spread evenly
    over as few batches as that takes. Within a place they keep their order.
    """
    order = np.argsort(-padded_lengths, kind="stable")
    sorted_lengths = padded_lengths[order]
    starts = np.flatnonzero(np.diff(sorted_lengths, prepend=-1))
    batches: list[Ints] = []
    for start, end in pairwise([*starts, len(order)]):
        count = end - start
        most_items = max(1, max_samples // max(1, int(sorted_lengths[start])))
        num_batches = -(-count // most_items)
        edges = start + np.arange(num_batches + 1) * count // num_batches
        batches += [order[lo:hi] for lo, hi in pairwise(edges)]
    return batches
