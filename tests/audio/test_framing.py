"""Frames: the same, in the same groups, however the audio is divided into blocks."""

import numpy as np
import pytest

from prepcli.audio.framing import Framing


@pytest.mark.slow
@pytest.mark.parametrize(("size", "hop", "at_once"), [(400, 160, 7), (512, 960, 3), (5, 5, 1), (1, 3, 4)])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (256, 256)])
def test_frames_do_not_depend_on_the_blocks(size: int, hop: int, at_once: int, before: int, after: int) -> None:
    rng = np.random.default_rng(size)
    for count in (0, 1, size, 2000, *rng.integers(1, 9000, 10)):
        samples = rng.standard_normal(count).astype(np.float32)
        padded = np.pad(samples, (before, after))
        starts = range(0, len(padded) - size + 1, hop)
        expected = [padded[start : start + size] for start in starts]
        for block in (1000, 37, 10_000):
            framing = Framing(size, hop, at_once, before)
            groups = [
                framing.frames(group).copy()
                for start in range(0, count, block)
                for group in framing.add(samples[start : start + block])
            ]
            groups += [framing.frames(group).copy() for group in framing.end(after)]
            assert all(len(group) == at_once for group in groups[:-1])
            assert not groups or 1 <= len(groups[-1]) <= at_once
            found = np.concatenate(groups) if groups else np.empty((0, size))
            assert np.array_equal(found, np.array(expected).reshape(-1, size))
