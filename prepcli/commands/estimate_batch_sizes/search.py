"""The search of NeMo's OOMptimizer for one bucket, and how few of its questions must be put to the model.

NeMo tries sizes one after the other: it doubles or halves, then bisects. Its answer follows from a few facts: the
largest size that is known to fit and the smallest that is known to fail answer every size below and above. So a
prediction is followed through NeMo's search first, and only the last two sizes of that path are tried.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass

MAX_BATCH_SIZE = 1 << 30
"""No search goes beyond it: something that never fails would be tried forever."""
MAX_MISSES = 2
"""Wrong predictions for a bucket after which its search is NeMo's own, without predictions."""


@dataclass(frozen=True)
class Bracket:
    """What is known of a bucket: the largest size that fits (0: none), and the smallest that fails (None: none)."""

    fits: int = 0
    fails: int | None = None

    def with_answer(self, size: int, does_fit: bool) -> "Bracket":
        """The same with one more fact."""
        if does_fit:
            return Bracket(max(self.fits, size), self.fails)
        return Bracket(self.fits, size if self.fails is None else min(self.fails, size))

    def answer(self, size: int) -> bool | None:
        """Whether the size fits; None if that is not known."""
        if size <= self.fits:
            return True
        return False if self.fails is not None and size >= self.fails else None


def nemo_search(start: int, threshold: float) -> Generator[int, bool, Bracket]:
    """The sizes that NeMo tries, in its order; it is sent whether each fits, and returns where it ends.

    Args:
        start: the first size.
        threshold: it stops when (fails - fits) / fails is at most this.

    Returns:
        The largest size that fitted and the smallest that failed. Where not one example fits, `fits` is 0; there NeMo
        would go on with empty batches.
    """
    found = Bracket()
    size = min(start, MAX_BATCH_SIZE)
    while True:
        found = found.with_answer(size, (yield size))
        if found.fails == 1 or found.fits == MAX_BATCH_SIZE:
            return found
        if found.fails is None:
            size = min(2 * size, MAX_BATCH_SIZE)
        elif not found.fits:
            size = max(1, round(size / 2))
        elif (found.fails - found.fits) / found.fails <= threshold or found.fails - found.fits <= 1:
            return found
        else:
            size = round((found.fits + found.fails) / 2)


def follow(start: int, threshold: float, answer: Callable[[int], bool]) -> Bracket:
    """Where NeMo's search ends if these are the answers."""
    search = nemo_search(start, threshold)
    size = next(search)
    while True:
        try:
            size = search.send(answer(size))
        except StopIteration as end:
            found: Bracket = end.value
            return found


def num_nemo_steps(start: int, threshold: float, answer: Callable[[int], bool]) -> int:
    """How many steps NeMo's script makes: those of its search, and one more whose result it does not look at."""
    count = 1

    def counted(size: int) -> bool:
        nonlocal count
        count += 1
        return answer(size)

    follow(start, threshold, counted)
    return count


class _Unknown(Exception):  # noqa: N818 - it ends a search, and is not an error
    def __init__(self, size: int) -> None:
        self.size = size


def next_size(start: int, threshold: float, known: Bracket, predicted: int | None) -> int | None:
    """The size to try next; None if what is known answers all that NeMo's search would ask.

    Args:
        start: where NeMo's search begins.
        threshold: see `nemo_search`.
        known: the facts of the bucket.
        predicted: the largest size that will fit, as far as can be told; None: try what NeMo would try.
    """

    def answer(size: int) -> bool:
        does_fit = known.answer(size)
        if does_fit is None and predicted is None:
            raise _Unknown(size)
        return size <= (predicted or 0) if does_fit is None else does_fit

    try:
        end = follow(start, threshold, answer)
    except _Unknown as unknown:
        return unknown.size
    if known.answer(max(1, end.fits)) is None:
        return max(1, end.fits)
    if end.fails is not None and known.answer(end.fails) is None:
        return end.fails
    return None


def result(start: int, threshold: float, known: Bracket) -> int:
    """NeMo's answer, when `next_size` has nothing left to ask; 0 where not one example fits."""
    return follow(start, threshold, lambda size: bool(known.answer(size))).fits


def next_start(size: int, start: int) -> int:
    """Where the search of the next smaller bucket begins, after a bucket with the result `size`."""
    return 2 * size if size else start
