"""`scripts/test.sh`: what a check returns is what the script returns."""

import os
from pathlib import Path

import pytest

from tests.support.running import Outcome, clean_environment, run_process

SCRIPT = Path(__file__).parents[1] / "scripts/test.sh"


@pytest.mark.parametrize(
    ("fails", "returned", "code", "last"),
    [
        ("nothing", 3, 0, "test: all green"),
        ("--kind light", 3, 1, "test: FAILED: pytest"),
        ("--kind torch", 3, 1, "test: FAILED: pytest"),
        ("mypy", 3, 1, "test: FAILED: mypy"),
        ("--kind light", 5, 0, "test: all green"),
        ("--kind store", 5, 0, "test: all green"),
        ("--kind", 5, 1, "test: FAILED: pytest"),
    ],
)
def test_exit_codes(tmp_path: Path, fails: str, returned: int, code: int, last: str) -> None:
    """Pytest returns 5 if it finds no test."""
    done = checks(tmp_path, fails, returned, PREPCLI_EXTRAS="all,dev")
    assert (done.code, done.out.splitlines()[-1]) == (code, last), done
    assert not list((tmp_path / "tmp").iterdir())


def test_types_are_not_checked_without_all_extras(tmp_path: Path) -> None:
    done = checks(tmp_path, "mypy", 3, PREPCLI_EXTRAS="dev")
    assert (done.code, "test: mypy: skipped" in done.out) == (0, True), done
    assert checks(tmp_path, "ruff", 3, PREPCLI_EXTRAS="dev").code == 1


def checks(tmp_path: Path, fails: str, returned: int, **environ: str) -> Outcome:
    """Run the script with stand-ins for Python and shellcheck; a call of Python with `fails` returns `returned`."""
    for name, body in {"python": f'case "$*" in *"{fails}"*) exit {returned};; esac', "shellcheck": "exit 0"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "tmp").mkdir(exist_ok=True)
    known = clean_environment(
        PREPCLI_PYTHON=str(tmp_path / "python"),
        PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        TMPDIR=str(tmp_path / "tmp"),
        **environ,
    )
    return run_process(["bash", SCRIPT, "tests/no_such_test.py"], env=known)
