"""A few kills show that the soak works; the kill matrix has all jobs, `python -m tests.soak --kills 200` many kills."""

import random
from pathlib import Path

import pytest

from tests.soak.__main__ import run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("job", ["tarred", "codes"])
def test_kills_of_jobs_with_unit_folders(job: str, draw: random.Random, tmp_path: Path) -> None:
    found = run(8, [job], draw.randrange(1 << 32), tmp_path)
    assert {job: one.faults for job, one in found.items()} == {job: []}
