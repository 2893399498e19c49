"""What is written from the declarations of options is current."""

import re
import runpy
from pathlib import Path

from prepcli.interface.commands import COMMANDS

ROOT = Path(__file__).parents[2]


def test_the_stub_and_the_tables_are_current() -> None:
    wanted = runpy.run_path(str(ROOT / "scripts/update_generated.py"))["wanted"]
    for path, text in wanted().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run python scripts/update_generated.py"


def test_every_command_has_its_table() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    tables = re.findall(r"<!-- options: (.*?) -->", text)
    assert sorted(tables) == sorted([*(command.name for command in COMMANDS), "every job"])
