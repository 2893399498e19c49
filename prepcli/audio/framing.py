"""Frames of audio that comes in blocks."""

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray


class Framing:
    """Cuts samples that come in blocks (n,), of any length, into frames of `size` samples, one every `hop` samples.

    Frames come in groups of `at_once`, the last of which may have fewer: the blocks do not change the groups.
    """

    def __init__(self, size: int, hop: int, at_once: int, zeros_before: int = 0) -> None:
        """`zeros_before`: number of zeros before the first sample."""
        self.size, self.hop = size, hop
        self._group = at_once * hop
        self._needed = (at_once - 1) * hop + max(size, hop)
        self._rest = np.zeros(zeros_before, np.float32)

    def add(self, block: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
        """Yield the samples of each group of frames that is complete with `block`; see `frames`."""
        at = -len(self._rest)  # the place of the next frame in the block
        while len(block) - at >= self._needed:
            yield self._part(block, at, at + self._needed)
            at += self._group
        self._rest = self._part(block, at, len(block))

    def _part(self, block: NDArray[np.float32], start: int, end: int) -> NDArray[np.float32]:
        if start >= 0:
            return block[start:end]
        return np.concatenate((self._rest[start:], block[: max(end, 0)]))[: end - start]

    def end(self, zeros: int = 0) -> Iterator[NDArray[np.float32]]:
        """Yield the samples of the frames that are left, after `zeros` zeros at the end."""
        yield from self.add(np.zeros(zeros, np.float32))
        if len(self._rest) >= self.size:
            yield self._rest

    def frames(self, group: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return a view of the frames in the samples of a group, of shape (frames, size)."""
        return sliding_window_view(group, self.size)[:: self.hop]
