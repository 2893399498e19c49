"""Programs that some tests need and a machine may lack: the tests skip, with CI=true they fail."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.slurm.cluster import PROGRAMS as SLURM_PROGRAMS

PACKAGES = {
    "sox": "sox libsox-fmt-all",
    "flac": "flac",
    "ffmpeg": "ffmpeg",
    "chromium": "chromium",
    "tar": "tar",
    "memcached": "memcached",
    "jq": "jq",
    "espeak-ng": "espeak-ng",
    "zip": "zip",
    "gcc": "gcc libc6-dev",
    **dict.fromkeys(SLURM_PROGRAMS, "slurm-wlm munge"),
}
"""Program -> the Debian packages that bring it."""

DISTURBANCES = ("faults", "power losses", "requests", "schedules")
"""What the tests in `tests/faults` count (`record_property`)."""


def need(program: str, *other_names: str) -> str:
    """Path of a program; the test is skipped where it is missing."""
    found = next(filter(None, map(shutil.which, (program, *other_names))), None)
    return lack(program) if found is None else found


def lack(program: str) -> NoReturn:
    """Skip the test, which needs a program that is missing; with CI=true a program that Debian has is a failure."""
    packages = PACKAGES.get(program)
    if packages is None:
        pytest.skip(f"needs {program} (not in Debian)")
    reason = f"needs {program} (Debian: {packages})"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def need_package(name: str) -> None:
    """Skip the test where a Python package is not installed; unlike `pytest.importorskip` this imports nothing."""
    if find_spec(name) is None:
        pytest.skip(f"needs the Python package {name}")


def import_pyav(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `import av` find the package that scripts/setup.sh has put aside; skips the test without it."""
    folder = Path(sys.prefix) / "pyav"
    if not (folder / "av").is_dir():
        lack("PyAV: run scripts/setup.sh")
    from prepcli.audio import pyav

    pyav.is_installed()  # keeps its answer, which other tests of this process need
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr("prepcli.audio.pyav.is_installed", lambda: True)


def without(name: str) -> pytest.MarkDecorator:
    """For `pytestmark`: skips the tests of a file where a Python package is not installed, and imports nothing."""
    return pytest.mark.skipif(find_spec(name) is None, reason=f"needs the Python package {name}")


def tool(program: str, *arguments: str | Path) -> bytes:
    """Run a program to its end and return what it printed; the test is skipped where it is missing."""
    command = [need(program), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True).stdout


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many runs were disturbed; `tests/conftest.py` has the hook."""
    counts: Counter[str] = Counter()
    for report in (one for reports in terminalreporter.stats.values() for one in reports):
        if getattr(report, "when", "") == "call":
            counts.update({name: value for name, value in report.user_properties if name in DISTURBANCES})
    if counts:
        terminalreporter.line("disturbed runs: " + ", ".join(f"{value:,} {name}" for name, value in counts.items()))


def slow(*values: object) -> Any:
    """Parameters of a test that are `slow`: others of the same test are in the fast tier."""
    return pytest.param(*values, marks=pytest.mark.slow)
