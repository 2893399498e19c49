"""Rank and world size, from the command line or from the launcher's environment."""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from prepcli.errors import UsageError, option
from prepcli.processes.workers import JOB_ID, LIFELINE, RESTARTS

MAX_WORLD_SIZE = 100_000
"""Maximum number of ranks. It is limited because each rank computes the shares of all ranks."""
_MAX_ID = 100
"""Maximum characters of a launch id, which is a part of file names."""

Environ = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rank:
    """One of `world_size` processes that share a job without communication.

    `local_rank` is the number of the rank among the ranks of its machine; None if it is unknown. `launch_id` names the
    ranks that were started together; ranks without a launch id divide *all* units and skip units that are done (see
    `prepcli.engine.ranks.launch`). `restarts` is the number of times that the job was requeued; `job_id` is the same in
    all starts of the job, and None if it is unknown.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int | None = 0
    launcher: str = "none"
    launch_id: str | None = None
    restarts: int = 0
    job_id: str | None = None


def _of_step(environ: Environ, rank: Rank) -> Rank:
    restarts = _integer(environ, "SLURM_RESTART_COUNT") or 0
    name = f"slurm-{environ.get('SLURM_JOB_ID', '0')}.{environ.get('SLURM_STEP_ID', '0')}"
    return replace(rank, launch_id=f"{name}.{restarts}", restarts=restarts, job_id=name)


def _of_torchrun(environ: Environ, rank: Rank) -> Rank:
    run_id = environ.get("TORCHELASTIC_RUN_ID", "none")
    restarts = _integer(environ, "TORCHELASTIC_RESTART_COUNT") or 0
    known = replace(rank, restarts=restarts)
    if run_id != "none":  # a static rendezvous has this id in every run
        name = f"torchrun-{_as_file_name(run_id)}"
        known = replace(known, launch_id=f"{name}.{restarts}", job_id=name)
    if LIFELINE in environ:
        known = replace(known, restarts=_integer(environ, RESTARTS) or 0, job_id=environ.get(JOB_ID))
    return known


def _of_skypilot(environ: Environ, rank: Rank) -> Rank:
    task = environ.get("SKYPILOT_TASK_ID")  # equal on all nodes
    return replace(rank, launch_id=f"skypilot-{_as_file_name(task)}" if task else None)


class Launcher(NamedTuple):
    """The environment variables that a launcher sets for its ranks.

    Attributes:
        name: the launcher's name in messages.
        rank, world_size: the variables with the rank and the number of ranks; if one of them is missing, this launcher
            has not started the process.
        local_rank: the variables that may hold the number of the rank on its machine.
        ranks_of_node: the variable with the number of ranks per machine, if `rank` and `world_size` count machines.
        takes_world_size: whether `--world-size` may replace the variable `world_size`.
        is_within_step: returns whether this launcher, and not the Slurm step around it, has started the ranks.
        launch: returns a rank completed with its launch id, its job id, and the number of restarts.
    """

    name: str
    rank: str
    world_size: str
    local_rank: tuple[str, ...] = ()
    ranks_of_node: str = ""
    takes_world_size: bool = False
    is_within_step: Callable[[Environ], bool] = lambda _: False
    launch: Callable[[Environ, Rank], Rank] = lambda _, rank: rank

    def is_set(self, environ: Environ, world_size: int | None) -> bool:
        """Whether this launcher's variables give the rank and the world size.

        The variable of the world size is not needed if `takes_world_size` is true and the argument `world_size` is
        given.
        """
        has_size = environ.get(self.world_size) or (self.takes_world_size and world_size is not None)
        return bool(environ.get(self.rank) and has_size)

    def numbers(self, environ: Environ, world_size: int | None) -> tuple[int, int]:
        """The rank and the world size, in this order; called only if `is_set` is true.

        Raises:
            UsageError: a variable is not a number, or the rank's number on its machine is not below the number of
                ranks per machine.
        """
        rank, size = _integer(environ, self.rank) or 0, _integer(environ, self.world_size) or 0
        if self.takes_world_size and world_size is not None:
            size = world_size
        if not self.ranks_of_node:
            return rank, size
        ranks, local = _integer(environ, self.ranks_of_node) or 1, self.number_on_machine(environ) or 0
        if not 0 <= local < ranks:
            raise UsageError(
                f"{self.local_rank[0]} is {local}, and {self.ranks_of_node}, the number of ranks of a machine, is "
                f"{ranks}; set both"
            )
        return rank * ranks + local, size * ranks

    def number_on_machine(self, environ: Environ) -> int | None:
        """The number of the rank on its machine; None if the variables do not give it."""
        numbers = (_integer(environ, name) for name in self.local_rank)
        return next((number for number in numbers if number is not None), None)


def _differs_from_step(environ: Environ) -> bool:
    """Whether the PMI variables give another rank or world size than the Slurm step.

    They are equal if `srun --mpi=pmi2` has set the variables of both.
    """
    return any(
        _integer(environ, own) != _integer(environ, of_step)
        for own, of_step in (("PMI_RANK", "SLURM_PROCID"), ("PMI_SIZE", "SLURM_STEP_NUM_TASKS"))
    )


# `SLURM_STEP_NUM_TASKS` exists only in a step. `SLURM_PROCID` and `SLURM_NTASKS` are also set in a batch script outside
# `srun`, where trusting them would silently do a part of the work.
_STEP = Launcher("Slurm step", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ("SLURM_LOCALID",), launch=_of_step)
LAUNCHERS = (
    _STEP,
    Launcher(
        "torchrun",
        "RANK",
        "WORLD_SIZE",
        ("LOCAL_RANK",),
        is_within_step=lambda environ: "TORCHELASTIC_RUN_ID" in environ,
        launch=_of_torchrun,
    ),
    # `mpirun` starts a daemon on each machine with srun: its processes also have the variables of the daemons' step.
    Launcher(
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        ("OMPI_COMM_WORLD_LOCAL_RANK",),
        is_within_step=lambda _: True,
    ),
    Launcher("MPI", "PMI_RANK", "PMI_SIZE", ("MPI_LOCALRANKID", "PMI_LOCAL_RANK"), is_within_step=_differs_from_step),
    Launcher("Kubernetes", "JOB_COMPLETION_INDEX", "PREPCLI_WORLD_SIZE", takes_world_size=True),
    Launcher(
        "SkyPilot", "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES", ("LOCAL_RANK",), "LOCAL_WORLD_SIZE", launch=_of_skypilot
    ),
    # The tasks of an array may be resubmitted individually (`--array=1,3`). Each must get the same share again, so the
    # world size is given, and there is no launch.
    Launcher(
        "Slurm array",
        "SLURM_ARRAY_TASK_ID",
        "",
        takes_world_size=True,
        is_within_step=lambda environ: _integer(environ, _STEP.world_size) == 1,
    ),
)
"""The launchers by precedence: the first one whose rank and world size are set has started this process.

The exception is a Slurm step in which another launcher runs: then that launcher has started this process.
"""
_MAY_BE_ALONE = ("Open MPI", "MPI", "Kubernetes", "SkyPilot")
"""Launchers that may have started only one rank: that rank may start one rank per GPU, as without a launcher."""


def detect_rank(
    environ: Environ,
    rank: int | None = None,
    world_size: int | None = None,
    launch_id: str | None = None,
) -> Rank:
    """Find the rank of this process: from the arguments `rank` and `world_size`, else from its launcher (`LAUNCHERS`).

    A process without a launcher is rank 0 of one rank.

    Raises:
        UsageError: the numbers contradict each other; a batch script has several tasks but no `srun`; the launch id is
            too long or has a character that is not allowed; or `rank` is given without `world_size`.
    """
    if launch_id is not None and not re.fullmatch(rf"[A-Za-z0-9._-]{{1,{_MAX_ID}}}", launch_id):
        shown = launch_id if len(launch_id) <= _MAX_ID else f"{launch_id[:20]}... ({len(launch_id)} characters)"
        raise UsageError(f"{option('--launch-id', shown)}: give up to {_MAX_ID} letters, digits, '.', '_' and '-'")
    if rank is not None:
        if world_size is None:
            raise UsageError(f"{option('--rank')} needs {option('--world-size')}: how many ranks share the work?")
        return _checked(Rank(rank, world_size, _local_rank_of_any(environ), "command line", launch_id))
    detected = _from_environment(environ, world_size)
    if world_size is not None and detected.world_size != world_size:
        raise UsageError(
            f"{option('--world-size', world_size)} was given, but {detected.launcher} says {detected.world_size}; "
            f"leave {option('--world-size')} out, or give {option('--rank')} as well"
        )
    if launch_id is not None:
        detected = replace(detected, launch_id=launch_id)
    return _checked(detected)


def _from_environment(environ: Environ, world_size: int | None) -> Rank:
    present = [launcher for launcher in LAUNCHERS if launcher.is_set(environ, world_size)]
    if not present:
        return _alone(environ, world_size)
    launcher = present[0]
    if launcher is _STEP:
        launcher = next((launcher for launcher in present if launcher.is_within_step(environ)), _STEP)
    rank, size = launcher.numbers(environ, world_size)
    if (rank, size) == (0, 1) and launcher.name in _MAY_BE_ALONE:
        return Rank()
    return launcher.launch(environ, Rank(rank, size, launcher.number_on_machine(environ), launcher.name))


def _alone(environ: Environ, world_size: int | None) -> Rank:
    """The `Rank` of a process that no launcher has started: rank 0 of one rank.

    Raises:
        UsageError: a Slurm job with several tasks runs the command without `srun`, or `world_size` asks for more ranks.
    """
    num_tasks = _integer(environ, "SLURM_NTASKS") or 1
    if "SLURM_JOB_ID" in environ and num_tasks > 1:
        raise UsageError(
            f"this Slurm job has {num_tasks} tasks, but the command was started without srun and would run only "
            "once; write 'srun prepcli ...' in the batch script (or ask for one task)"
        )
    if world_size not in (None, 1):
        raise UsageError(
            f"{option('--world-size', world_size)} needs {option('--rank')}: which of them is this process?"
        )
    if "SLURM_JOB_ID" not in environ:
        return Rank()
    job_id = f"slurm-{environ['SLURM_JOB_ID']}.batch"
    return Rank(restarts=_integer(environ, "SLURM_RESTART_COUNT") or 0, job_id=job_id)


def _local_rank_of_any(environ: Environ) -> int | None:
    """The number of this rank on its machine, from the variables of any launcher; None if none of them has a number.

    Used if `--rank` is given: then it is unknown which launcher has started the rank.
    """
    texts = (environ.get(name, "") for launcher in reversed(LAUNCHERS) for name in launcher.local_rank)
    return next((int(text) for text in texts if text.isdecimal()), None)


def _as_file_name(id: str) -> str:
    """Convert a launcher's id to a part of a file name.

    Characters other than ASCII letters, digits and `._-` become `_`. An id with more than `_MAX_ID` characters is
    cut to half of them, and a hash of the whole id is appended.
    """
    name = re.sub(r"[^A-Za-z0-9._-]", "_", id)
    if len(name) <= _MAX_ID:
        return name
    return f"{name[: _MAX_ID // 2]}-{hashlib.sha256(id.encode(errors='surrogateescape')).hexdigest()[:16]}"


def _integer(environ: Environ, name: str) -> int | None:
    text = environ.get(name)
    if text is None or text == "":
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"the environment variable {name} is {text!r}, not a number") from None


def _checked(rank: Rank) -> Rank:
    if rank.world_size < 1:
        raise UsageError(f"{option('--world-size')} must be at least 1, not {rank.world_size}")
    if rank.world_size > MAX_WORLD_SIZE:
        raise UsageError(f"{option('--world-size')} must be at most {MAX_WORLD_SIZE:,}, not {rank.world_size:,}")
    if not 0 <= rank.rank < rank.world_size:
        raise UsageError(
            f"rank {rank.rank} does not exist among {rank.world_size} ranks (they count from 0; "
            f"launcher: {rank.launcher})"
        )
    return rank
