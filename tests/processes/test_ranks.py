"""The launchers' environments, as they were seen on real machines, and the rank that follows."""

import pytest

from prepcli.errors import UsageError
from prepcli.processes.ranks import LAUNCHERS, detect_rank

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
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
PMI = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"}
INDEXED_JOB = {"JOB_COMPLETION_INDEX": "2", "PREPCLI_WORLD_SIZE": "6"}
SKYPILOT = {"SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "3", "SKYPILOT_TASK_ID": "sky-2026-11-25_tts_1"}
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


def test_each_launcher() -> None:
    launchers = (TORCHRUN, OPEN_MPI, PMI, INDEXED_JOB, SKYPILOT)
    found = [(one.launcher, one.rank, one.world_size, one.local_rank) for one in map(detect_rank, launchers)]
    assert found == [
        ("torchrun", 3, 8, 1),
        ("Open MPI", 3, 4, 1),
        ("MPI", 3, 4, 1),
        ("Kubernetes", 2, 6, None),
        ("SkyPilot", 1, 3, None),
    ]


def test_the_first_launcher_of_the_table_wins() -> None:
    every = {"Slurm step": STEP, "torchrun": TORCHRUN, "Open MPI": {}, "MPI": PMI, "Kubernetes": INDEXED_JOB}
    every |= {"SkyPilot": SKYPILOT, "Slurm array": ARRAY}
    every["MPI"] = {"PMI_RANK": "1", "PMI_SIZE": "2"}  # as `srun --mpi=pmi2` sets them in this step
    assert list(every) == [one.name for one in LAUNCHERS]
    while every:
        environ = {name: value for one in every.values() for name, value in one.items()}
        wanted = next(iter(every))
        every.pop(wanted)
        if wanted != "Open MPI":  # never set by srun: see below
            assert detect_rank(environ, world_size=16 if wanted == "Slurm array" else None).launcher == wanted
    assert detect_rank(OPEN_MPI | PMI | INDEXED_JOB | SKYPILOT).launcher == "Open MPI"
    assert detect_rank(TORCHRUN | OPEN_MPI).launcher == "torchrun"


def test_mpirun_in_a_slurm_allocation() -> None:
    """Seen with Slurm 22.05, Open MPI 5.0 and MPICH 5.0: their daemons are a step of one task per machine."""
    daemons = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}
    for of_mpi in (OPEN_MPI, PMI):
        for around in (BATCH, STEP | daemons):  # the batch script's machine has no step with Open MPI
            rank = detect_rank(around | of_mpi)
            assert (rank.rank, rank.world_size, rank.local_rank) == (3, 4, 1)
    one_per_machine = {"PMI_RANK": "1", "PMI_SIZE": "2"}
    rank = detect_rank(STEP | {"SLURM_PROCID": "1"} | one_per_machine)
    assert (rank.rank, rank.world_size) == (1, 2)  # the same numbers, whoever is asked


def test_srun_sets_the_variables_of_pmi_too() -> None:
    rank = detect_rank(STEP | {"PMI_RANK": "1", "PMI_SIZE": "2"})
    assert (rank.launcher, rank.launch_id) == ("Slurm step", "slurm-77.0.0")
    rank = detect_rank(STEP | {"PMI_RANK": "0", "PMI_SIZE": "2"})  # another rank of two: not those of srun
    assert (rank.launcher, rank.rank) == ("MPI", 0)


def test_an_indexed_job_needs_a_world_size() -> None:
    index = {"JOB_COMPLETION_INDEX": "2"}
    assert detect_rank(index).world_size == 1  # every pod does a job of its own
    rank = detect_rank(index, world_size=3, launch_id="6f1c-uid")
    assert (rank.rank, rank.world_size, rank.launch_id) == (2, 3, "6f1c-uid")
    assert detect_rank(INDEXED_JOB, world_size=3).world_size == 3  # options come first


def test_ranks_of_a_node_of_skypilot() -> None:
    rank = detect_rank(SKYPILOT | {"LOCAL_RANK": "5", "LOCAL_WORLD_SIZE": "8"})
    assert (rank.rank, rank.world_size, rank.local_rank) == (13, 24, 5)
    assert rank.launch_id == "skypilot-sky-2026-11-25_tts_1"


@pytest.mark.parametrize(
    "environ",
    [
        {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
        {"PMI_RANK": "0", "PMI_SIZE": "1"},
        {"JOB_COMPLETION_INDEX": "0", "PREPCLI_WORLD_SIZE": "1"},
        {"SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "1"},
    ],
)
def test_one_rank_alone_may_start_one_per_gpu(environ: dict[str, str]) -> None:
    assert detect_rank(environ) == detect_rank({})


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
        (STEP | {"SLURM_STEP_NUM_TASKS": "many"}, {}, "not a number"),
        (OPEN_MPI | {"OMPI_COMM_WORLD_RANK": "x"}, {}, "OMPI_COMM_WORLD_RANK is 'x', not a number"),
        (OPEN_MPI, {"world_size": 16}, "--world-size 16 was given, but Open MPI says 4"),
        (INDEXED_JOB | {"PREPCLI_WORLD_SIZE": "2"}, {}, "rank 2 does not exist among 2 ranks .*launcher: Kubernetes"),
        (SKYPILOT | {"LOCAL_RANK": "1"}, {}, "LOCAL_RANK is 1, and LOCAL_WORLD_SIZE, .* is 1; set both"),
        ({}, {"launch_id": "a/b"}, "--launch-id a/b: give up to 100 letters"),
        ({}, {"launch_id": "a" * 300}, "a... .300 characters.: give up to 100 letters"),
        ({}, {"rank": 0, "world_size": 10**20}, "--world-size must be at most 100,000, not 100,000,000,000"),
        (TORCHRUN | {"WORLD_SIZE": "100001"}, {}, "--world-size must be at most 100,000, not 100,001"),
    ],
)
def test_what_does_not_fit_is_said(environ: dict[str, str], arguments: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        detect_rank(environ, **arguments)
