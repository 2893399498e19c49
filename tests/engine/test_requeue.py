"""A job that Slurm starts again: `--overwrite` and `--retry-rejects` count once, but for a start that began them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import IncompleteError
from prepcli.processes.ranks import detect_rank
from tests.conftest import tree
from tests.engine.state_files import markers
from tests.engine.toy import ToyJob, damage

STEP = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "1",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
}
BATCH = {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "1", "SLURM_PROCID": "0"}


@pytest.fixture(params=[STEP, BATCH], ids=["step", "batch script"])
def environ(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Of a step, and of a batch script with one task and without srun."""
    yield request.param


class StopsEarly(ToyJob):
    """Planning is interrupted."""

    def plan(self, workspace: Workspace) -> Any:
        raise IncompleteError("stopped while it planned")


class StopsLate(ToyJob):
    """All units but the last are done."""

    def __init__(self, out: Path, **more: Any) -> None:
        def stop(unit: Any) -> None:
            if unit.number == 0:  # the longest ones come first
                raise IncompleteError("stopped")

        super().__init__(out, before_unit=stop, **more)


def start(job: ToyJob, environ: dict[str, str], restarts: int, **options: Any) -> Report:
    rank = detect_rank(environ | ({"SLURM_RESTART_COUNT": str(restarts)} if restarts else {}))
    return run_job(job, Workspace(job.out), RunOptions(rank=rank, budget=Budget(24), steal=False, **options))


def test_a_start_that_only_planned_has_not_overwritten(tmp_path: Path, environ: dict[str, str]) -> None:
    out = tmp_path / "out"
    run_job(ToyJob(out), Workspace(out), RunOptions())
    damage(out / "unit_001.txt")
    with pytest.raises(IncompleteError):
        start(StopsEarly(out), environ, 0, overwrite=True)
    report = start(ToyJob(out), environ, 1, overwrite=True)
    assert (report.status, report.units_done) == ("done", 6)
    assert b"damaged" not in (out / "unit_001.txt").read_bytes()


def test_a_start_that_has_begun_is_continued(tmp_path: Path, environ: dict[str, str]) -> None:
    out = tmp_path / "out"
    with pytest.raises(IncompleteError):
        start(StopsLate(out), environ, 0, overwrite=True)
    done = markers(out)
    assert len(done) == 5
    assert start(ToyJob(out), environ, 1, overwrite=True).status == "done"
    assert done.items() <= markers(out).items()


def test_a_start_that_only_planned_has_not_retried(tmp_path: Path, environ: dict[str, str]) -> None:
    out = tmp_path / "out"
    bad = run_job(ToyJob(out, bad=frozenset({4, 9})), Workspace(out), RunOptions(budget=Budget(24)))
    assert bad.rejects_by_reason == {"broken_json": 1, "unreadable_audio": 2}
    with pytest.raises(IncompleteError):
        start(StopsEarly(out), environ, 0, retry_rejects=True)
    again = start(ToyJob(out), environ, 1, retry_rejects=True)
    assert again.rejects_by_reason == {"broken_json": 1}
    whole = tmp_path / "whole"
    run_job(ToyJob(whole), Workspace(whole), RunOptions())
    assert tree(out) == tree(whole)


def test_rejects_that_remain_are_not_tried_by_every_start(tmp_path: Path, environ: dict[str, str]) -> None:
    out = tmp_path / "out"
    job = ToyJob(out, bad=frozenset({4}))
    run_job(job, Workspace(out), RunOptions(budget=Budget(24)))
    start(job, environ, 0, retry_rejects=True)
    before = (out / "unit_001.txt").stat().st_mtime_ns
    assert start(job, environ, 1, retry_rejects=True).status == "nothing_to_do"
    assert (out / "unit_001.txt").stat().st_mtime_ns == before
