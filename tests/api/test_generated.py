"""What is written from the declarations of options is current."""

import re
import sys
from pathlib import Path

import pytest

from prepcli.commands import COMMANDS

ROOT = Path(__file__).parents[2]


def test_the_stub_and_the_tables_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.delitem(sys.modules, "update_generated", raising=False)
    from update_generated import wanted

    for path, text in wanted().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run python scripts/update_generated.py"


def test_every_command_has_its_table() -> None:
    text = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    tables = re.findall(r"<!-- options: (.*?) -->", text)
    assert sorted(tables) == sorted([*(command.name for command in COMMANDS), "every job"])
