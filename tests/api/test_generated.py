"""What is written from the declarations of options is current."""

import re
import runpy
import shutil
from pathlib import Path

import pytest

from prepcli.interface.commands import COMMANDS

ROOT = Path(__file__).parents[2]


def test_the_functions_and_the_tables_are_current() -> None:
    wanted = runpy.run_path(str(ROOT / "scripts/update_generated.py"))["wanted"]
    for path, text in wanted().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run python scripts/update_generated.py"


@pytest.mark.parametrize(
    ("pattern", "new", "message"),
    [
        (
            "<!-- options: verify.*?end of options -->",
            "",
            "no table for verify: add the lines '<!-- options: ver",
        ),
        ("options: verify -->", "options: verfy -->", "checking.md: '<!-- options: verfy -->' names no command of"),
        ("<!-- end of options -->", "", "checking.md: each line '<!-- options: COMMAND -->' needs a line '<!-- end"),
    ],
)
def test_lines_around_tables_that_are_wrong(tmp_path: Path, pattern: str, new: str, message: str) -> None:
    docs = Path(shutil.copytree(ROOT / "docs", tmp_path / "docs"))
    page = next(page for page in docs.glob("*.md") if "<!-- options: verify -->" in page.read_text())
    page.write_text(re.sub(pattern, new, page.read_text(), count=1, flags=re.DOTALL))
    script = runpy.run_path(str(ROOT / "scripts/update_generated.py"))
    script["main"].__globals__["DOCS"] = docs
    with pytest.raises(SystemExit) as raised:
        script["main"]()
    text = str(raised.value)
    assert message in text and "\n" not in text


def test_every_command_has_its_table() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    tables = re.findall(r"<!-- options: (.*?) -->", text)
    assert sorted(tables) == sorted([*(command.name for command in COMMANDS), "every job"])
