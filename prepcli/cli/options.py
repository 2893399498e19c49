"""Options that every command has, written once."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prepcli.processes import LIFELINE

if TYPE_CHECKING:
    from prepcli.engine.run import RunOptions


def available_processors() -> int:
    """The processors that this process may use (a Slurm step or a container often has fewer than the machine).

    Slurm does not always bind a task to its processors, but it says how many a task has. Ranks that the command itself
    has started, one a GPU, share them.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    of_task = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if "SLURM_STEP_NUM_TASKS" in os.environ and of_task.isdecimal():
        count = min(count, int(of_task))
    return max(1, count // int(os.environ.get("WORLD_SIZE", 1))) if is_own_rank() else count


def is_own_rank() -> bool:
    """Whether the command itself has started this process as one of its ranks (`prepcli.engine.launch.spawn_ranks`)."""
    return LIFELINE in os.environ


DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and write nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object on stdout.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Start again instead of continuing.")]
NumWorkers = Annotated[
    int | None,
    typer.Option(
        "--num-workers", min=1, help="Local worker processes.", show_default="the processors this process may use"
    ),
]
MaxRejects = Annotated[
    float,
    typer.Option("--max-rejects", help="Rejects to tolerate: a share (below 1) or a count. More: exit code 3."),
]
RankNumber = Annotated[
    int | None, typer.Option("--rank", help="This process's part, from 0.", show_default="from Slurm or torchrun")
]
WorldSize = Annotated[
    int | None,
    typer.Option("--world-size", help="How many ranks there are.", show_default="from Slurm or torchrun"),
]
LaunchId = Annotated[
    str | None, typer.Option("--launch-id", help="A name for the ranks that are started together by hand.")
]
AudioBaseDir = Annotated[
    Path | None,
    typer.Option(
        "--audio-base-dir",
        help="Folder that relative audio paths start from.",
        show_default="the manifest's folder",
        exists=True,
        file_okay=False,
    ),
]
Devices = Annotated[
    str,
    typer.Option(
        "--devices",
        help="auto: all GPUs of this machine, a rank process each, or else the processors; cpu; or so many GPUs.",
    ),
]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What every job may be told."""

    dry_run: DryRun = False
    as_json: Json = False
    overwrite: Overwrite = False
    max_rejects: MaxRejects = 0.05
    num_workers: NumWorkers = None
    rank: RankNumber = None
    world_size: WorldSize = None
    launch_id: LaunchId = None

    def engine(self) -> "RunOptions":
        """The engine's options; raises `UsageError` for those that fit neither each other nor the launcher."""
        from prepcli.engine.ranks import detect_rank
        from prepcli.engine.rejects import Budget
        from prepcli.engine.run import RunOptions

        return RunOptions(
            rank=detect_rank(os.environ, self.rank, self.world_size, self.launch_id),
            num_workers=self.num_workers or available_processors(),
            overwrite=self.overwrite,
            budget=Budget(self.max_rejects),
        )
