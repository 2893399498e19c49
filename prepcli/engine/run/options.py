"""The options of every job."""

import contextlib
import os
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from prepcli.errors import UsageError, option
from prepcli.interface.options import Option
from prepcli.interface.shared_options import (
    Engine,
    Executor,
    InputArguments,
    Json,
    MaxRejects,
    NumWorkers,
    Progress,
    SetArguments,
)
from prepcli.processes.workers import available_processors

if TYPE_CHECKING:
    from prepcli.engine.run.job import OpenEngine, RunOptions
    from prepcli.interface.shared_options import UnitExecutor
    from prepcli.processes.ranks import Rank

Devices = Annotated[
    str,
    Option(
        "auto (all GPUs, else CPU), cpu, or a number of GPUs.",
        shapes_output=False,
    ),
]
DryRun = Annotated[
    bool,
    Option(
        "Print the plan and write nothing.",
        shapes_output=False,
        help_in_python="Write nothing; the report has the status 'dry_run' and the plan in its details.",
        default=False,
    ),
]
Overwrite = Annotated[
    bool,
    Option(
        "Start again instead of continuing; only files that the earlier run has written are removed.",
        shapes_output=False,
        default=False,
    ),
]
RetryRejects = Annotated[
    bool,
    Option(
        "Try records again whose audio was missing or unreadable, or whose transcript file was missing, after it "
        "was repaired, or for which there was too little memory.",
        shapes_output=False,
        default=False,
    ),
]
Verbose = Annotated[
    bool,
    Option(
        "Also print how the run went: units, time in the model, time spent waiting.",
        only="command line",
        shapes_output=False,
        default=False,
    ),
]
RankOption = Annotated[
    int | None,
    Option("Rank of this process, from 0.", shown_default="from the launcher", shapes_output=False),
]
WorldSize = Annotated[
    int | None,
    Option("Number of ranks.", shown_default="from the launcher", shapes_output=False),
]
LaunchId = Annotated[
    str | None,
    Option("A common name for ranks that are started together by hand.", shapes_output=False, order=1),
]
NoSteal = Annotated[
    bool,
    Option(
        "Do only this rank's share: make no missing units of other ranks of the launch as well.",
        shapes_output=False,
        order=1,
        default=False,
    ),
]
VerifyInputs = Annotated[
    bool,
    Option(
        "Compare the content of manifests with the index of an earlier start, even if their size and times are "
        "the same.",
        shapes_output=False,
        order=1,
        default=False,
    ),
]


class JobArguments(TypedDict, total=False):
    """The options that every job has. A run may be continued with other values of these options."""

    dry_run: DryRun
    num_workers: NumWorkers
    max_rejects: MaxRejects
    overwrite: Overwrite
    retry_rejects: RetryRejects
    as_json: Json
    verbose: Verbose
    rank: RankOption
    world_size: WorldSize
    launch_id: LaunchId
    no_steal: NoSteal
    verify_inputs: VerifyInputs
    engine: Engine
    executor: Executor
    progress: Progress


class InputJobArguments(InputArguments, JobArguments, total=False):
    """The options of jobs that read a data set, and have their own option `audio_base_dir`."""


class RecordArguments(SetArguments, JobArguments, total=False):
    """The options of jobs over the records of manifests or of a data set."""


def run_options(asked: Any) -> "RunOptions":
    """The options of every job in the form in which the engine takes them; `asked` has them as attributes.

    A command without records or without workers may lack those options.

    Raises:
        UsageError: the options contradict each other or the launcher's environment.
    """
    from prepcli.engine.publishing.rejects import Budget
    from prepcli.engine.run.job import RunOptions
    from prepcli.processes.ranks import detect_rank

    values: dict[str, Any] = {"num_workers": None, "retry_rejects": False, "verify_inputs": False, "no_steal": False}
    values |= {"max_rejects": Budget().limit} | vars(asked)
    return RunOptions(
        rank=(rank := detect_rank(os.environ, asked.rank, asked.world_size, asked.launch_id)),
        num_workers=values["num_workers"] or available_processors(),
        overwrite=asked.overwrite,
        retry_rejects=values["retry_rejects"],
        dry_run=asked.dry_run,
        verify_inputs=values["verify_inputs"],
        steal=not values["no_steal"],
        budget=Budget(values["max_rejects"]),
        engine=_engine(asked, rank, values["num_workers"]),
    )


def _engine(asked: Any, rank: "Rank", num_workers: int | None) -> "OpenEngine | None":
    """How to open the engine that the options name; None if units are made in processes of this command."""
    executor: UnitExecutor | None = getattr(asked, "executor", None)
    engine: str | None = getattr(asked, "engine", None)
    if executor is not None and engine is not None:
        raise UsageError("executor and engine are two ways to say the same: leave one of them out")
    if executor is None and engine is None:
        return None
    if rank.world_size > 1 or asked.rank is not None:
        given = "executor" if engine is None else option("--engine", engine)
        raise UsageError(f"{given}: an engine has workers and no ranks; leave out {option('--rank')} and the like")
    if executor is not None:
        return lambda: contextlib.nullcontext(executor)
    from prepcli.engine.run.engines import engine_named

    return engine_named(str(engine), num_workers)
