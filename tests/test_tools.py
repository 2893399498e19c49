"""A program that a machine lacks: its tests skip, or fail with CI=true, and the end of the run says what to install."""

import re
import sys
from pathlib import Path

from tests.support.running import Outcome, clean_environment, run_process

TESTS = """
import pytest
from tests.support.tools import need, tool

@pytest.mark.parametrize("number", range(3))
def test_sox(number):
    tool("sox", "--version")

@pytest.fixture(scope="module")
def flac():
    return need("flac")

def test_flac(flac): pass
def test_flac_again(flac): pass
def test_unknown(): need("no-such-program", "nor-this-one")
def test_other(): pytest.skip("for a reason (of its own)")
def test_passes(): pass
"""


def run(folder: Path, *options: str, ci: bool) -> Outcome:
    """These tests on a machine without programs."""
    (folder / "conftest.py").write_text(
        "from tests.support.tools import pytest_terminal_summary as pytest_terminal_summary\n"
    )
    (folder / "test_it.py").write_text(TESTS)
    environ = clean_environment(
        PATH=str(folder),
        PYTHONPATH=str(Path(__file__).parents[1]),
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
        CI="true" if ci else "",
    )
    return run_process([sys.executable, "-m", "pytest", *options, folder], cwd=folder, env=environ)


def listed(done: Outcome) -> list[str]:
    """The lines of the summary of skips, which stands there once."""
    (section,) = re.findall(r"^=+ skipped tests, by reason =+\n((?:[^=].*\n)*)", done.out, re.MULTILINE)
    return [line.strip() for line in section.splitlines()]


def test_skips_are_listed_with_what_to_install(tmp_path: Path) -> None:
    done = run(tmp_path, "-p", "xdist", "-n", "2", ci=False)
    assert done.code == 0, done.out
    assert listed(done) == [
        "3  needs sox (Debian: sox libsox-fmt-all)",
        "2  needs flac (Debian: flac)",
        "1  for a reason (of its own)",
        "1  needs no-such-program (not in Debian)",
        "for the programs: sudo apt-get install flac libsox-fmt-all sox",
    ]


def test_with_ci_a_missing_program_fails(tmp_path: Path) -> None:
    done = run(tmp_path, ci=True)
    assert (done.code, "3 failed, 1 passed, 2 skipped, 2 errors" in done.out) == (1, True), done.out
    assert "needs sox (Debian: sox libsox-fmt-all)" in done.out
    assert listed(done) == ["1  for a reason (of its own)", "1  needs no-such-program (not in Debian)"]
