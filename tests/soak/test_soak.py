"""Some random kills in each run of the tests; `python -m tests.soak --kills 200` is the long one."""

import random
from pathlib import Path

import pytest

from tests.soak.__main__ import run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("job", ["tarred", "wenet", "score", "codes"])
def test_twenty_kills_of_jobs_with_unit_folders(job: str, draw: random.Random, tmp_path: Path) -> None:
    found = run(20, [job], draw.randrange(1 << 32), tmp_path)
    assert {job: one.faults for job, one in found.items()} == {job: []}
