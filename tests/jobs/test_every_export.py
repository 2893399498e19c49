"""What is true of all exports is tried with each: a table that lacks one would leave it out in silence."""

from pathlib import Path

import pytest

from prepcli.interface.commands import TASKS

TESTS = Path(__file__).parents[1]
TABLES = (
    "jobs/kill_cases.py",  # of which `soak/cases.py` is made
    "faults/cases.py",
    "fuzz/test_exports.py",
    "golden/calls.py",
    "cli/test_nonsense.py",
    "jobs/test_wrong_calls.py",
    "storage/test_store.py",
)
EXPORTS = tuple(
    command.name
    for source in ("manifests", "conversations and texts")
    for command in TASKS[f"Prepare training data from {source}"]
)


@pytest.mark.parametrize("table", TABLES)
def test_each_export_has_a_row(table: str) -> None:
    text = (TESTS / table).read_text(encoding="utf-8")
    assert [name for name in EXPORTS if name not in text] == []
