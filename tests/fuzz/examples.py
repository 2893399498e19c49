"""How many examples a fuzz test tries: few and always the same, or as many as the environment asks for."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings

from tests.support import seeds

WANTED = "PREPCLI_FUZZ_EXAMPLES"
"""Environment variable: examples for each test, new ones in each run (`tests.support.seeds` has the seed)."""
SHRINK = "PREPCLI_FUZZ_SHRINK"
"""Environment variable: take the time to make a failing example smaller."""


examples_only = False
"""Whether nothing is generated: then only tests with an `@example` run, and those with nothing else."""


def rounds(count: int, fast: int) -> int:
    """How often a test with random draws tries something: `fast` times where the slow tests are left out."""
    return fast if examples_only else count


def examples(count: int, slow: bool = True) -> Callable[[Any], Any]:
    """Decorator, above `@given` and `@example`: `count` inputs are generated, or as many as the environment asks for.

    Without slow tests only a test's `@example`s run; a slow one that has none is marked `slow`.
    """

    def decorate(test: Any) -> Any:
        has_examples = bool(getattr(test, "hypothesis_explicit_examples", ()))
        configured = _settings(count, generate=not (slow and has_examples and examples_only))(test)
        return pytest.mark.slow(configured) if slow and not has_examples else configured

    return decorate


def _settings(count: int, generate: bool) -> Callable[[Any], Any]:
    wanted = os.environ.get(WANTED)
    phases = [Phase.explicit] + [Phase.generate] * generate + [Phase.shrink] * (generate and SHRINK in os.environ)
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
