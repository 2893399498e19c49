"""NeMo's search for the batch size of a bucket, and the known results of a bucket."""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

MAX_BATCH_SIZE = 1 << 30
"""Maximum batch size that is tried: without it, the search would never end for a model that never fails."""
Outcome = Literal["fits", "out_of_memory", "cuda_error", "killed", "hung"]


class DeviceFacts(msgspec.Struct, frozen=True):
    """The model and its device: `memory` of the device, and the `limit` that a step may use, in bytes."""

    device: str
    memory: int
    limit: int
    model: str


class Step(msgspec.Struct, frozen=True):
    """A training step with `size` examples; `peak` is the maximum number of bytes in use, 0 if it does not fit."""

    size: int
    outcome: Outcome
    peak: int = 0
    detail: str = ""


class BucketResults(msgspec.Struct):
    """The known results of a bucket: its `steps`, and in `size` the batch size that the search has found.

    `lines`: for an estimate on the CPU, pairs of a base and a slope in bytes, from which `peak_of` computes the bytes
    of a batch; empty if steps ran on a GPU.
    """

    steps: list[Step] = []
    lines: list[tuple[int, int]] = []
    size: int = 0

    def answer(self, size: int, limit: int) -> bool | None:
        """Whether a batch of `size` examples fits into `limit` bytes; None if that is not known.

        If a size fits, smaller sizes fit too; if a size fails, larger sizes fail too.
        """
        if self.lines:
            return peak_of(self.lines, size) <= limit
        if any(step.outcome == "fits" and size <= step.size for step in self.steps):
            return True
        return False if any(step.outcome != "fits" and size >= step.size for step in self.steps) else None


def peak_of(lines: Sequence[tuple[int, int]], size: int) -> int:
    """The bytes that a batch of `size` examples needs: the maximum of `base + slope * size`.

    `lines`: pairs (base, slope) in bytes.
    """
    return max(base + slope * size for base, slope in lines)


def bisect(start: int, threshold: float, fits: Callable[[int], bool]) -> tuple[int, int]:
    """Find the largest batch size that fits: double or halve, then bisect, as NeMo's OOMptimizer does.

    Args:
        start: the first size.
        threshold: the search stops when `(smallest - largest) / smallest` is at most this number, where `smallest` is
            the smallest size that fails and `largest` the largest size that fits.
        fits: returns whether a size fits; called with the same sizes as in NeMo, in the same order.

    Returns:
        The largest size that fits, and the number of training steps that NeMo makes: one for each call of `fits`, and
        one more, whose result NeMo ignores. If a single example does not fit, the size is 0; NeMo would go on with
        empty batches.
    """
    largest, smallest, size, steps = 0, 0, min(start, MAX_BATCH_SIZE), 1
    while True:
        steps += 1
        if fits(size):
            largest = size
        else:
            smallest = size
        if smallest == 1 or largest == MAX_BATCH_SIZE:
            return largest, steps
        if not smallest:
            size = min(2 * size, MAX_BATCH_SIZE)
        elif not largest:
            size = max(1, round(size / 2))
        elif (smallest - largest) / smallest <= threshold or smallest - largest <= 1:
            return largest, steps
        else:
            size = round((largest + smallest) / 2)
