"""A program that a machine lacks: its tests skip and say what to install, or fail with CI=true."""

import sys
from pathlib import Path

import pytest

from tests.support.running import Outcome, clean_environment, run_process

TESTS = """
import pytest
from tests.support.tools import need, tool

def test_sox(): tool("sox", "--version")
def test_flac(): need("flac")
def test_unknown(): need("no-such-program", "nor-this-one")
def test_passes(): pass
"""


def run(folder: Path, *options: str, ci: bool) -> Outcome:
    """These tests on a machine without programs."""
    (folder / "test_it.py").write_text(TESTS)
    environ = clean_environment(
        PATH=str(folder),
        PYTHONPATH=str(Path(__file__).parents[1]),
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
        CI="true" if ci else "",
    )
    return run_process([sys.executable, "-m", "pytest", *options, folder], cwd=folder, env=environ)


@pytest.mark.slow
def test_skips_say_what_to_install(tmp_path: Path) -> None:
    done = run(tmp_path, "-rs", ci=False)
    assert done.code == 0, done.out
    for reason in ("sox (Debian: sox libsox-fmt-all)", "flac (Debian: flac)", "no-such-program (not in Debian)"):
        assert f"needs {reason}\n" in done.out


@pytest.mark.slow
def test_with_ci_a_missing_program_fails(tmp_path: Path) -> None:
    done = run(tmp_path, ci=True)
    assert (done.code, "2 failed, 1 passed, 1 skipped" in done.out) == (1, True), done.out
    assert "needs sox (Debian: sox libsox-fmt-all)" in done.out
