"""`scripts/count_calls.py`: what a run enters, and what each record of it enters in a worker."""

import re
import sys
from pathlib import Path

import pytest

from tests.conftest import SHORT_CORPUS
from tests.support.running import Outcome, run_process

pytestmark = pytest.mark.slow  # the functions of all modules are looked for
SCRIPT = Path(__file__).parents[1] / "scripts/count_calls.py"
FIGURES = r"(?m)^(the whole run|each record): (\d+) files, (\d+) functions$"


def count(*arguments: object) -> Outcome:
    return run_process([sys.executable, SCRIPT, *arguments])


def test_functions_of_a_run_and_of_each_record(tmp_path: Path) -> None:
    command = ("fix-durations", SHORT_CORPUS / "manifest.json", tmp_path / "out.json")
    done = count("--list", "--", *command)
    assert done.code == 0, done.err
    run, record = [(int(files), int(functions)) for _, files, functions in re.findall(FIGURES, done.out)]
    assert run > record > (1, 1)
    of_run, of_record = done.out.partition("\neach record")[::2]
    assert "cli/app.py" in of_run and "cli/app.py" not in of_record
    times = [int(line.split()[-1]) for line in of_record.splitlines() if line.startswith("  prepcli/")]
    assert len(times) == record[1] and min(times) >= 48


def test_the_exit_code_is_that_of_the_command(tmp_path: Path) -> None:
    done = count("--", "fix-durations", tmp_path / "none.json", tmp_path / "out.json")
    assert done.code == 2
    assert "each record: 0 files, 0 functions" in done.out
