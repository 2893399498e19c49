"""Mutated data may crash a decoder: `verify` reads it in a worker."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def verify_with_a_worker(forking: None) -> None:
    """What `forking` does, for all tests here."""
