"""Batches of items of equal padded length, so that no item is padded because of the others in its batch."""

from itertools import pairwise

import numpy as np

from prepcli.manifest.parts import Ints


def equal_length_batches(padded_lengths: Ints, max_samples: int) -> list[Ints]:
    """Divide items into batches of equal padded length, the longest items first.

    The items of one length are divided evenly among as few batches as possible, in their order.

    Args:
        padded_lengths: samples of each item after padding.
        max_samples: maximum number of samples per batch; a longer item is a batch by itself.

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
