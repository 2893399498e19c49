"""Forks in the place of new interpreters do what those would do."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from tests.support.forks import ForkedPython
from tests.support.running import HANG_SECONDS

HERE: ContextVar[str] = ContextVar("here")
ECHO = """
import os, sys
found = [name for name in ("X", "PYTEST_CURRENT_TEST") if name in os.environ]
print(sys.argv, os.environ["PYTHONPATH"] in sys.path, found)
print(sys.stdin.readline().strip(), file=sys.stderr)
os.write(int(sys.argv[1]), b"kept")
sys.exit(3)
"""
CONTEXT = "from tests.test_forks import HERE; print(HERE.get('a new context')); raise KeyError('x')"


@pytest.mark.parametrize("start", [ForkedPython, subprocess.Popen])
def test_arguments_streams_environment_and_exit_code(start: Callable[..., Any], tmp_path: Path) -> None:
    told, tells = os.pipe()
    command = [sys.executable, "-c", ECHO, str(tells)]
    environ = {"X": "1", "PYTHONPATH": str(tmp_path)}
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        process = start(command, stdin=subprocess.PIPE, stdout=out, stderr=err, env=environ, pass_fds=[tells])
    os.close(tells)
    process.stdin.write(b"a line\n")
    process.stdin.close()
    assert process.wait(timeout=HANG_SECONDS) == process.poll() == 3
    with os.fdopen(told, "rb") as kept:
        assert kept.read() == b"kept"  # and nobody else holds the other end
    assert (tmp_path / "out").read_text() == f"['-c', '{tells}'] True ['X']\n"
    assert (tmp_path / "err").read_text() == "a line\n"


def test_an_error_ends_it_with_a_traceback(tmp_path: Path) -> None:
    """And it has none of the variables that a call has set here."""
    before = HERE.set("this process")
    with (tmp_path / "out").open("wb") as out:
        process = ForkedPython([sys.executable, "-c", CONTEXT], stdout=out, stderr=out, env={})
    HERE.reset(before)
    assert process.wait() == 1
    text = (tmp_path / "out").read_text()
    assert "a new context" in text
    assert "KeyError: 'x'" in text.splitlines()


def test_a_limit_and_signals() -> None:
    process = ForkedPython([sys.executable, "-c", "import time; time.sleep(900)"], env={})
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait() == -signal.SIGTERM
    process.kill()  # does nothing more
    assert process.poll() == -signal.SIGTERM
