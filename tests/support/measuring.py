"""Measures which lines the tests reach: `PYTEST_PLUGINS=tests.support.measuring` names this to pytest.

It begins before pytest imports any of our modules, in each process that runs tests. Processes that tests start are not
measured: each would take 0.02 (a fork) to 0.14 s (Python) more, and most do what is tested in these processes as well.
"""

import coverage

_measured = coverage.Coverage()  # by [tool.coverage.run] in pyproject.toml
_measured.start()


def pytest_unconfigure() -> None:
    """Write what was measured into a file of this process."""
    _measured.stop()
    _measured.save()
