"""What the README says can be typed: its commands run, and its files exist."""

import re
import shlex
from pathlib import Path

import pytest

from tests.commands import COMMANDS
from tests.conftest import prepcli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^\$ (prepcli .+)\n((?:.+\n)+?)```", README, flags=re.MULTILINE)


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command.split()[1] for command, _ in SHOWN])
def test_shown_commands_give_the_shown_output(command: str, output: str, tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    done = prepcli(*shlex.split(command)[1:], cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.out.startswith(output)


def test_options_that_the_readme_names_exist() -> None:
    helps = "".join(prepcli(*command.split(), "--help").out for command in COMMANDS)
    helps += prepcli("--help").out
    without_pip = re.sub(r"pip install [^`]*", "", README)
    without_pip = re.sub(r"scripts/slurm/\S+ .* -- ", "", without_pip)  # options of sbatch
    for option in set(re.findall(r"(--[a-z][a-z-]+)", without_pip)):
        assert option in helps, option


def test_links_and_scripts_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README) + re.findall(r"^bash (\S+)", README, flags=re.MULTILINE):
        assert (ROOT / target).exists(), target
