"""Mutated data may crash a decoder: `verify` reads it in a worker."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def verify_with_a_worker(forking_verify: None) -> None:
    """What `forking_verify` does, for all tests here."""
