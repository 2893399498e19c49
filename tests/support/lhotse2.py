"""lhotse 2, the judge of indexes. It lies aside in `.venv/lhotse2`, because NeMo 3.0 needs lhotse 1."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.running import clean_environment, run_process


def lhotse2_folder() -> Path:
    """The folder to import lhotse 2 from; skips the test without it."""
    folder = Path(sys.prefix) / "lhotse2"
    if not (folder / "lhotse").is_dir():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{folder} is missing: run scripts/setup.sh")
        pytest.skip(f"{folder} is missing: run scripts/setup.sh")
    return folder


def with_lhotse2(code: str, *arguments: object) -> Any:
    """Run Python code in a process that imports lhotse 2; it prints one JSON document as its last line."""
    root = str(Path(__file__).parents[2])
    environment = clean_environment(PYTHONPATH=os.pathsep.join([str(lhotse2_folder()), root]))
    done = run_process([sys.executable, "-c", code, *arguments], env=environment)
    assert done.code == 0, done.err
    return json.loads(done.out.splitlines()[-1])
