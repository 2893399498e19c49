"""The launchers' environments, as they were seen on real machines, and the rank that follows."""

import pytest

from prepcli.errors import UsageError
from prepcli.processes.ranks import detect_rank

STEP = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_NTASKS": "4",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
}
BATCH = {"SLURM_JOB_ID": "77", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
ARRAY = {"SLURM_JOB_ID": "80", "SLURM_ARRAY_JOB_ID": "78", "SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_COUNT": "2"}


def test_alone_without_a_launcher() -> None:
    rank = detect_rank({})
    assert (rank.rank, rank.world_size, rank.launch_id) == (0, 1, None)


def test_command_line_beats_every_launcher() -> None:
    rank = detect_rank(STEP | TORCHRUN | ARRAY, rank=6, world_size=7, launch_id="monday")
    assert (rank.rank, rank.world_size, rank.launch_id) == (6, 7, "monday")


def test_slurm_step_counts_its_own_tasks_not_the_jobs() -> None:
    rank = detect_rank(STEP)
    assert (rank.rank, rank.world_size, rank.local_rank) == (1, 2, 1)
    assert rank.launch_id == "slurm-77.0.0"


def test_requeued_step_is_another_launch() -> None:
    rank = detect_rank(STEP | {"SLURM_RESTART_COUNT": "2"})
    assert rank.launch_id == "slurm-77.0.2"
    assert rank.restarts == 2


def test_a_long_run_id_of_torchrun_is_shortened() -> None:
    """The launch id is part of the names of files, and different run ids stay different."""
    ids = ["a" * 300, "a" * 300 + "b", "ö" * 101]
    ranks = [detect_rank(TORCHRUN | {"TORCHELASTIC_RUN_ID": run_id}) for run_id in ids]
    assert len({rank.launch_id for rank in ranks}) == 3
    assert all(len(f"{rank.launch_id}{rank.job_id}") < 200 for rank in ranks)


def test_stray_rank_variables_do_not_beat_a_step() -> None:
    assert detect_rank(STEP | TORCHRUN).world_size == 2


def test_torchrun_inside_a_step_is_the_inner_launcher() -> None:
    rank = detect_rank(STEP | TORCHRUN | {"TORCHELASTIC_RUN_ID": "77"})
    assert (rank.rank, rank.world_size, rank.local_rank) == (3, 8, 1)
    assert rank.launch_id == "torchrun-77.0"


def test_torchrun_without_a_run_id_has_no_launch_id() -> None:
    rank = detect_rank(TORCHRUN | {"TORCHELASTIC_RUN_ID": "none"})
    assert (rank.rank, rank.world_size, rank.launch_id) == (3, 8, None)


def test_batch_script_with_tasks_but_without_srun_is_refused() -> None:
    with pytest.raises(UsageError, match="without srun"):
        detect_rank(BATCH)


def test_batch_script_with_one_task_is_one_rank() -> None:
    assert detect_rank(BATCH | {"SLURM_NTASKS": "1"}).world_size == 1


def test_array_task_needs_an_explicit_world_size() -> None:
    assert detect_rank(ARRAY).world_size == 1  # every task does a job of its own
    rank = detect_rank(ARRAY, world_size=16)
    assert (rank.rank, rank.world_size) == (5, 16)
    assert rank.launch_id is None  # a resubmitted hole must find the share it had


def test_array_task_under_srun() -> None:
    one_task = ARRAY | STEP | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}
    assert detect_rank(one_task, world_size=16).rank == 5


@pytest.mark.parametrize(
    ("environ", "arguments", "words"),
    [
        ({}, {"rank": 1}, "--world-size"),
        ({}, {"rank": 2, "world_size": 2}, "does not exist"),
        ({}, {"rank": -1, "world_size": 2}, "does not exist"),
        ({}, {"world_size": 4}, "needs --rank"),
        ({}, {"rank": 0, "world_size": 0}, "at least 1"),
        (STEP, {"world_size": 16}, "says 2"),
        (ARRAY, {"world_size": 4}, "rank 5 does not exist"),
        ({"SLURM_STEP_NUM_TASKS": "many"}, {}, "not a number"),
        ({}, {"launch_id": "a/b"}, "--launch-id a/b: give up to 100 letters"),
        ({}, {"launch_id": "a" * 300}, "a... .300 characters.: give up to 100 letters"),
        ({}, {"rank": 0, "world_size": 10**20}, "--world-size must be at most 100,000, not 100,000,000,000"),
        (TORCHRUN | {"WORLD_SIZE": "100001"}, {}, "--world-size must be at most 100,000, not 100,001"),
    ],
)
def test_what_does_not_fit_is_said(environ: dict[str, str], arguments: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        detect_rank(environ, **arguments)
