"""A plugin of pytest that measures coverage: `pytest -p tests.support.measuring`, and then `coverage combine`.

Loaded before any test file, it sees the modules while they are imported. It measures only tests that are not slow, and
only in the process of the tests: the others would double their time.
"""

from collections.abc import Generator

import coverage
import pytest

_measured = coverage.Coverage(data_suffix=True)
_measured.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Pause while a slow test runs, and while simulated ranks do: greenlets confuse the measurement."""
    if not (item.get_closest_marker("slow") or item.path.name == "test_schedules.py"):
        return (yield)
    _measured.stop()
    try:
        return (yield)
    finally:
        _measured.start()


def pytest_unconfigure() -> None:
    """Write the data of this process."""
    _measured.stop()
    _measured.save()
