"""Tests are found: a module with logic has its test file in the same place under `tests`."""

from tests.support import mirror


def test_each_module_with_logic_has_a_test_file() -> None:
    found = mirror.test_files()
    assert len(found) > 150
    assert [module for module, tests in found.items() if tests is None] == []


def test_exceptions_are_needed() -> None:
    """An entry goes when its module has a test file of its own, or no logic any more."""
    found = mirror.test_files()
    assert {module: str(found.get(module)) for module in mirror.ELSEWHERE} == mirror.ELSEWHERE
