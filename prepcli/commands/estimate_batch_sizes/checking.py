"""`--verify`: real steps with the final lists, in one process, in the orders that a training meets."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from prepcli.commands.estimate_batch_sizes.buckets import Bound, duration_of, shown, tokens_of
from prepcli.commands.estimate_batch_sizes.child import Trainer

SEED = 0


@dataclass(frozen=True)
class Checked:
    """How many steps were made, and the problem that ended them; None if there was none."""

    steps: int
    problem: str | None = None


def verify_sizes(bins: Sequence[Bound], sizes: Sequence[int], child: Trainer) -> Checked:
    """Make a step of the largest bucket, one of the smallest, and one of each in mixed order.

    A larger batch after smaller ones is where memory in pieces shows itself.

    Args:
        bins: of the final lists, at least one.
        sizes: batch size of each.
        child: on a GPU not started yet, so that its memory is empty.
    """
    mixed = list(range(len(bins)))
    random.Random(SEED).shuffle(mixed)
    before = "the first step"
    for count, number in enumerate([len(bins) - 1, 0, *mixed]):
        bound, size = bins[number], sizes[number]
        step = child.step(duration_of(bound), tokens_of(bound), size)
        if step.outcome != "fits":
            what = step.outcome.replace("_", " ")
            return Checked(
                count + 1,
                f"a batch of {size} in bucket {shown(bound)} does not fit after {before} ({what}): give a lower "
                "--memory-fraction",
            )
        before = f"one of {size} in bucket {shown(bound)}"
    return Checked(len(bins) + 2)
