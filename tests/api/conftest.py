"""What tests of the API share."""

from collections.abc import Iterator

import pytest

from tests.api.callers_state import unchanged


@pytest.fixture
def unchanged_caller() -> Iterator[None]:
    """The state of this process is the same after the test, which calls commands; to be named before other fixtures."""
    with unchanged():
        yield
