"""How many examples a fuzz test tries: few and always the same, or as many as the environment asks for."""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings

from tests import seeds

WANTED = "PREPCLI_FUZZ_EXAMPLES"
"""Environment variable: examples for each test, drawn anew in each run (`tests.seeds` has the seed)."""
SHRINK = "PREPCLI_FUZZ_SHRINK"
"""Environment variable: take the time to make a failing example smaller."""


def examples(count: int) -> Callable[[Any], Any]:
    """Decorator: `count` examples where the environment asks for no other number."""
    wanted = os.environ.get(WANTED)
    phases = [Phase.explicit, Phase.generate] + [Phase.shrink] * (SHRINK in os.environ)
    configured = settings(
        max_examples=int(wanted or count),
        derandomize=wanted is None,
        database=None,
        phases=phases,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=wanted is not None,
    )
    return configured if wanted is None else lambda test: seed(seeds.seed())(configured(test))
