"""What the README says can be typed: all its commands run in their order, and its options and files exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import COMMANDS
from tests.conftest import prepcli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = README + (ROOT / "docs/commands.md").read_text(encoding="utf-8")


def shown(text: str) -> list[tuple[str, str]]:
    """The commands of the `console` blocks, each with the beginning of what it prints."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [
        (command, output.strip("\n"))
        for block in blocks
        for command, output in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE)
    ]


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As typed in a shell with the virtual environment; the repository's folders are linked in `folder`."""
    for name in ("tests", "recipes", "scripts"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    python = f'"{sys.executable}"'
    typed = re.sub(r"^prepcli ", f"{python} -m prepcli ", re.sub(r"^python ", f"{python} ", command))
    search = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        typed, shell=True, cwd=folder, env=os.environ | search, capture_output=True, text=True, timeout=600
    )


@pytest.mark.nemo
def test_all_commands_of_the_readme_in_their_order(tmp_path: Path) -> None:
    pytest.importorskip("nemo", reason="the tour ends with a codec of NeMo's")
    pytest.importorskip("resemblyzer")
    commands = shown(README)
    assert len(commands) > 10
    for command, output in commands:
        done = run(command, tmp_path)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout.startswith(output), (command, done.stdout)


@pytest.mark.parametrize("command", [command for command, _ in shown(PAGES) if command not in dict(shown(README))])
def test_commands_shown_elsewhere(command: str, tmp_path: Path) -> None:
    output = dict(shown(PAGES))[command]
    done = run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(output)


def test_options_that_the_pages_name_exist() -> None:
    helps = "".join(prepcli(*command.split(), "--help").out for command in COMMANDS)
    helps += prepcli("--help").out
    without_others = re.sub(r"pip install [^`]*", "", PAGES)
    # NeMo's own options stand in the first column of the table of what was and what is.
    without_others = re.sub(r"^\| [`…][^|]*\|", "|", without_others, flags=re.MULTILINE)
    for option in set(re.findall(r"(--[a-z][a-z-]+)", without_others)):
        assert option in helps, option


def test_links_and_scripts_exist() -> None:
    for page in ("README.md", "docs/commands.md", "CONTRIBUTING.md", "scripts/slurm/README.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert ((ROOT / page).parent / target).exists(), (page, target)
    for target in re.findall(r"^bash (\S+)", README, flags=re.MULTILINE):
        assert (ROOT / target).exists(), target


def test_the_readme_is_short() -> None:
    assert README.count("\n") <= 300
