"""The first examples of data sets that are mixed by weights, without random draws.

NeMo interleaves data sets with lhotse's LazyIteratorMultiplexer (lhotse/lazy.py): each step draws one of the data sets
that still have examples, in proportion to their weights; a group counts as one data set of the list that contains it.
If all examples are read, the weights change only their order, and not the bins.

In place of random draws, this module gives each data set its expected share of the first N examples. After t steps, the
share is t times the data set's weight, divided by the sum of all weights. Once a data set is used up, the others are
drawn more often.
Within a data set examples come in order (NeMo also shuffles the shards of Shar data, which is not simulated). An
endless data set, which is read repeatedly, is never used up.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prepcli.manifest.datasets import DataSet, Mix
from prepcli.manifest.parts import Floats, Ints

_ENDLESS = 1 << 40


@dataclass
class LeafDurations:
    """The examples of one data set.

    `seconds`: the duration of each example. `inside`: whether each example passes the filter. `num_lines`: the number
    of lines, which is the weight of the data set if it has none.
    """

    seconds: Floats
    inside: npt.NDArray[np.bool_]
    num_lines: int


def leaves_of(data: DataSet | Mix) -> list[DataSet]:
    """The data sets of a tree, left to right."""
    if isinstance(data, DataSet):
        return [data]
    return [leaf for part in data.parts for leaf in leaves_of(part)]


def draw(data: DataSet | Mix, leaves: list[LeafDurations], wanted: int) -> tuple[list[Ints], int]:
    """Draw the first `wanted` examples that pass the filter, or all of them if there are fewer.

    `leaves` has the order of `leaves_of(data)`.

    Returns:
        For each leaf, the indexes of its examples (in an endless leaf an index may occur several times); and the number
        of draws, including those of examples that do not pass.
    """
    kept_before = [np.concatenate([[0], np.cumsum(leaf.inside)]) for leaf in leaves]
    num_lines = [leaf.num_lines for leaf in leaves]
    sizes = [
        _ENDLESS if data_set.settings.endless and kept[-1] else len(leaf.seconds)
        for leaf, kept, data_set in zip(leaves, kept_before, leaves_of(data), strict=True)
    ]

    def kept_after(num_drawn: int) -> int:
        kept_in = zip(kept_before, allot(data, sizes, num_lines, num_drawn), strict=True)
        return sum(
            share // (len(kept) - 1) * int(kept[-1]) + int(kept[share % (len(kept) - 1)])
            for kept, share in kept_in
            if share
        )

    low, high = 0, sum(sizes)
    while low < high:  # finds the minimum number of draws that gives enough examples
        middle = (low + high) // 2
        low, high = (low, middle) if kept_after(middle) >= wanted else (middle + 1, high)
    shares = allot(data, sizes, num_lines, low)
    places = [_kept_places(leaf.inside, share) for leaf, share in zip(leaves, shares, strict=True)]
    excess = sum(map(len, places)) - wanted  # rounding may give one or two too many
    for i, of_leaf in sorted(enumerate(places), key=lambda item: -len(item[1])):
        if excess > 0:
            cut = min(excess, len(of_leaf))
            places[i] = of_leaf[: len(of_leaf) - cut]
            excess, low = excess - cut, low - cut
    return places, low


def _kept_places(inside: npt.NDArray[np.bool_], num_drawn: int) -> Ints:
    """Draw `num_drawn` examples in order, and begin again after the last example.

    Returns the indexes of the drawn examples that pass the filter. `inside`: whether each example passes it.
    """
    if num_drawn <= len(inside):
        return np.flatnonzero(inside[:num_drawn])
    rounds, rest = divmod(num_drawn, len(inside))
    return np.concatenate([*[np.flatnonzero(inside)] * rounds, np.flatnonzero(inside[:rest])])


def allot(data: DataSet | Mix, sizes: list[int], num_lines: list[int], num_drawn: int) -> list[int]:
    """Divide `num_drawn` draws by weights: the number for each leaf, at most its number of examples (`sizes`).

    `num_lines` has the number of lines of each leaf, which is its weight if none is given.
    """
    if isinstance(data, DataSet):
        return [min(num_drawn, sizes[0])]
    ends = list(itertools.accumulate(len(leaves_of(part)) for part in data.parts))
    spans = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    weights = [
        sum(num_lines[span]) if weight is None else weight for weight, span in zip(data.weights, spans, strict=True)
    ]
    shares = _share(weights, [sum(sizes[span]) for span in spans], num_drawn)
    return [
        count
        for part, span, share in zip(data.parts, spans, shares, strict=True)
        for count in allot(part, sizes[span], num_lines[span], share)
    ]


def _share(weights: list[float], sizes: list[int], total: int) -> list[int]:
    """Split `total` into integers in proportion to `weights`, at most `sizes[i]` for item i.

    The sum of the integers is `total` or, if this is smaller, the sum of `sizes`.
    """
    total = min(total, sum(sizes))
    exact = [0.0] * len(sizes)
    open_ones = [i for i, size in enumerate(sizes) if size]
    left = float(total)
    while open_ones:
        pace = left / sum(weights[i] for i in open_ones)
        full = [i for i in open_ones if weights[i] * pace >= sizes[i]]
        for i in full or open_ones:
            exact[i] = float(sizes[i]) if full else weights[i] * pace
        if not full:
            break
        left = total - sum(exact[i] for i in range(len(sizes)) if exact[i])
        open_ones = [i for i in open_ones if i not in full]
    counts = [min(int(share), size) for share, size in zip(exact, sizes, strict=True)]
    by_remainder = sorted(range(len(sizes)), key=lambda i: (counts[i] >= sizes[i], counts[i] - exact[i], i))
    for i in by_remainder[: total - sum(counts)]:
        counts[i] += 1
    return counts
