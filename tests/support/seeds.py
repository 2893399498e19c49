"""The seed of this run's random tests: printed at the start and with each failure, and given to replay one.

PREPCLI_TEST_SEED=1234 scripts/test.sh --all tests/commands/manifest_to_tarred -k kill
"""

import os
import random
from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")
VARIABLE = "PREPCLI_TEST_SEED"


def seed() -> int:
    """The seed of this run; one is drawn, and kept for the processes of pytest-xdist, where none was given."""
    return int(os.environ.setdefault(VARIABLE, str(random.randrange(1 << 32))))


def some_of(items: Iterable[Item], step: int = 2) -> list[Item]:
    """Every `step`-th item, from the one that the seed gives: several runs of the suite try all of them.

    With PREPCLI_FAULTS=all, all items.
    """
    listed = list(items)
    return listed if os.environ.get("PREPCLI_FAULTS") == "all" else listed[seed() % step :: step]


def draw_for(name: str) -> random.Random:
    """Random numbers for the test `name`, which do not depend on what other tests draw."""
    print(f"{VARIABLE}={seed()} replays {name}")
    return random.Random(f"{seed()} {name}")
