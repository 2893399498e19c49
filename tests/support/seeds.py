"""The seed of this run's random tests: printed at the start and with each failure, and given to replay one.

PREPCLI_TEST_SEED=1234 scripts/test.sh --all tests/commands/manifest_to_tarred -k kill
"""

import os
import random

VARIABLE = "PREPCLI_TEST_SEED"


def seed() -> int:
    """The seed of this run; one is drawn, and kept for the processes of pytest-xdist, where none was given."""
    return int(os.environ.setdefault(VARIABLE, str(random.randrange(1 << 32))))


def draw_for(name: str) -> random.Random:
    """Random numbers for the test `name`, which do not depend on what other tests draw."""
    print(f"{VARIABLE}={seed()} replays {name}")
    return random.Random(f"{seed()} {name}")
