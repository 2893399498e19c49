"""Rank and world size, from the command line or from the launcher's environment."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from prepcli.errors import UsageError, option
from prepcli.processes.workers import JOB_ID, LIFELINE, RESTARTS

MAX_WORLD_SIZE = 100_000
"""Maximum number of ranks: each rank divides the work among all ranks."""
_MAX_ID = 100
"""Maximum characters of a launch id, which is a part of file names."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One of `world_size` processes that share a job without communication.

    `launch_id` names the set of ranks that were started together, if the launcher gives one; ranks without one divide
    *all* units and skip units that are done (see `prepcli.engine.ranks.launch`). `restarts` counts requeues of the job;
    `job_id` is the same in all its starts.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    launcher: str = "none"
    launch_id: str | None = None
    restarts: int = 0
    job_id: str | None = None

    def __str__(self) -> str:
        launch = f", launch {self.launch_id}" if self.launch_id else ""
        return f"rank {self.rank} of {self.world_size} (launcher: {self.launcher}{launch})"


def detect_rank(
    environ: Mapping[str, str],
    rank: int | None = None,
    world_size: int | None = None,
    launch_id: str | None = None,
) -> Rank:
    """Find the rank of this process; the first rule that applies wins.

    1. `rank` and `world_size` from the command line.
    2. torchrun *inside* a Slurm step (the inner launcher started this process).
    3. A Slurm step: `SLURM_STEP_NUM_TASKS` exists only there, while `SLURM_PROCID` and `SLURM_NTASKS` are also set
       in a batch script outside `srun`, where trusting them would silently do a part of the work.
    4. torchrun: `RANK`, `WORLD_SIZE`.
    5. A Slurm array task, with `world_size` given: the array's own count is wrong as soon as holes are resubmitted.
    6. One rank.

    Raises:
        UsageError: the numbers contradict each other, or a batch script has several tasks but no `srun`.
    """
    if launch_id is not None and not re.fullmatch(rf"[A-Za-z0-9._-]{{1,{_MAX_ID}}}", launch_id):
        shown = launch_id if len(launch_id) <= _MAX_ID else f"{launch_id[:20]}... ({len(launch_id)} characters)"
        raise UsageError(f"{option('--launch-id', shown)}: give up to {_MAX_ID} letters, digits, '.', '_' and '-'")
    if rank is not None:
        if world_size is None:
            raise UsageError(f"{option('--rank')} needs {option('--world-size')}: how many ranks share the work?")
        return _checked(Rank(rank, world_size, 0, "command line", launch_id))
    found = _from_environment(environ, world_size)
    if world_size is not None and found.world_size != world_size:
        raise UsageError(
            f"{option('--world-size', world_size)} was given, but {found.launcher} says {found.world_size}; "
            f"leave {option('--world-size')} out, or give {option('--rank')} as well"
        )
    if launch_id is not None:
        found = replace(found, launch_id=launch_id)
    return _checked(found)


def _from_environment(environ: Mapping[str, str], world_size: int | None) -> Rank:
    step_tasks = _integer(environ, "SLURM_STEP_NUM_TASKS")
    array_task = _integer(environ, "SLURM_ARRAY_TASK_ID")
    torchrun = "RANK" in environ and "WORLD_SIZE" in environ
    if torchrun and (step_tasks is None or "TORCHELASTIC_RUN_ID" in environ):
        return _torchrun(environ)
    if array_task is not None and world_size is not None and step_tasks in (None, 1):
        # Tasks of an array may be resubmitted individually (`--array=1,3`): each must get the same share again,
        # so there is no launch id, and all units are shared.
        return Rank(array_task, world_size, 0, "Slurm array")
    if step_tasks is not None:
        restarts = _integer(environ, "SLURM_RESTART_COUNT") or 0
        job, step = environ.get("SLURM_JOB_ID", "0"), environ.get("SLURM_STEP_ID", "0")
        return Rank(
            rank=_integer(environ, "SLURM_PROCID") or 0,
            world_size=step_tasks,
            local_rank=_integer(environ, "SLURM_LOCALID") or 0,
            launcher="Slurm step",
            launch_id=f"slurm-{job}.{step}.{restarts}",
            restarts=restarts,
            job_id=f"slurm-{job}.{step}",
        )
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


def _torchrun(environ: Mapping[str, str]) -> Rank:
    run_id = environ.get("TORCHELASTIC_RUN_ID", "none")
    restarts = _integer(environ, "TORCHELASTIC_RESTART_COUNT") or 0
    # A static rendezvous has the id "none" in every run, so there is no launch id.
    name = re.sub(r"[^A-Za-z0-9._-]", "_", run_id)
    if len(name) > _MAX_ID:
        name = f"{name[: _MAX_ID // 2]}-{hashlib.sha256(run_id.encode(errors='surrogateescape')).hexdigest()[:16]}"
    return Rank(
        rank=_integer(environ, "RANK") or 0,
        world_size=_integer(environ, "WORLD_SIZE") or 1,
        local_rank=_integer(environ, "LOCAL_RANK") or 0,
        launcher="torchrun",
        launch_id=None if run_id == "none" else f"torchrun-{name}.{restarts}",
        restarts=_integer(environ, RESTARTS) or 0 if LIFELINE in environ else restarts,
        job_id=environ.get(JOB_ID) if LIFELINE in environ else None if run_id == "none" else f"torchrun-{name}",
    )


def _integer(environ: Mapping[str, str], name: str) -> int | None:
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
