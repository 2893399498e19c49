"""The recipe in which training is killed in the middle of an epoch: no example twice, none missing."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.lhotse2 import lhotse2_folder
from tests.support.running import clean_environment, run_process

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_training_continues_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    environment = clean_environment(
        PREPCLI_PYTHON=sys.executable,
        WORK=str(tmp_path),
        LHOTSE_2=str(lhotse2_folder()),
        PYTHONPATH=str(ROOT),
    )
    done = run_process(["bash", ROOT / "recipes/resume/run.sh"], env=environment, cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.out.count("(killed)") == 2
    assert re.findall(r"continues in epoch (\d) after (\d+) batches", done.out) == [("0", "5"), ("0", "14")]
    assert "48 cuts, each seen 2 times in 32 batches" in done.out
    # The same model, to the last bit, as of a run that nobody disturbed.
    whole = [sys.executable, ROOT / "recipes/resume/train.py", tmp_path / "shar", tmp_path / "undisturbed"]
    undisturbed = run_process(whole, env=environment)
    assert undisturbed.code == 0, undisturbed.err
    assert undisturbed.out.splitlines()[-2:] == done.out.splitlines()[-2:]
