"""64-bit hashes that are the same on every machine and in every process: plans and names of files depend on them."""

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio, the increment of SplitMix64: numbers times this differ in their upper bits."""


def mix64(keys: Hashes) -> Hashes:
    """SplitMix64's output function: a bijection on 64-bit numbers; each bit of a key changes half of the others.

    Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014; Stafford's variant 13.
    """
    with np.errstate(over="ignore"):
        keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        keys ^= keys >> np.uint64(31)
    return keys


def hash_segments(files: Hashes, offset: NDArray[np.float64], duration: NDArray[np.float64]) -> Hashes:
    """A number for each segment of audio: the hash of its file, its offset and its duration, in any unit."""
    with np.errstate(over="ignore"):
        return mix64(files ^ mix64(offset.view(np.uint64)) ^ duration.view(np.uint64) * GOLDEN)
