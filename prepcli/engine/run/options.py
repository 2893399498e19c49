"""The options of every job."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from prepcli.interface.options import Option
from prepcli.interface.shared_options import Json, MaxRejects, NumWorkers, Progress
from prepcli.processes.workers import available_processors

if TYPE_CHECKING:
    from prepcli.engine.run.job import RunOptions

Devices = Annotated[
    str,
    Option(
        "auto (all GPUs, else CPU), cpu, or a number of GPUs.",
        shapes_output=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """The options that every job has. A run may be continued with other values of these options."""

    dry_run: Annotated[
        bool,
        Option(
            "Print the plan and write nothing.",
            shapes_output=False,
            help_in_python="Write nothing; the report has the status 'dry_run' and the plan in its details.",
        ),
    ] = False
    num_workers: NumWorkers = None
    max_rejects: MaxRejects = 0.05
    overwrite: Annotated[
        bool,
        Option(
            "Start again instead of continuing; only files that the earlier run has written are removed.",
            shapes_output=False,
        ),
    ] = False
    retry_rejects: Annotated[
        bool,
        Option(
            "Try records again whose audio was missing or unreadable, or whose transcript file was missing, after it "
            "was repaired, or for which there was too little memory.",
            shapes_output=False,
        ),
    ] = False
    as_json: Json = False
    verbose: Annotated[
        bool,
        Option(
            "Also print how the run went: units, time in the model, time spent waiting.",
            only="command line",
            shapes_output=False,
        ),
    ] = False
    rank: Annotated[
        int | None,
        Option("Rank of this process, from 0.", shown_default="from the launcher", shapes_output=False),
    ] = None
    world_size: Annotated[
        int | None,
        Option("Number of ranks.", shown_default="from the launcher", shapes_output=False),
    ] = None
    launch_id: Annotated[
        str | None,
        Option("A common name for ranks that are started together by hand.", shapes_output=False, order=1),
    ] = None
    no_steal: Annotated[
        bool,
        Option(
            "Do only this rank's share: make no missing units of other ranks of the launch as well.",
            shapes_output=False,
            order=1,
        ),
    ] = False
    verify_inputs: Annotated[
        bool,
        Option(
            "Compare the content of manifests with the index of an earlier start, even if their size and times are "
            "the same.",
            shapes_output=False,
            order=1,
        ),
    ] = False
    progress: Progress = False

    def engine(self) -> "RunOptions":
        """The options as `RunOptions`, the form in which the engine takes them.

        Raises:
            UsageError: the options contradict each other or the launcher's environment.
        """
        from prepcli.engine.publishing.rejects import Budget
        from prepcli.engine.run.job import RunOptions
        from prepcli.processes.ranks import detect_rank

        return RunOptions(
            rank=detect_rank(os.environ, self.rank, self.world_size, self.launch_id),
            num_workers=self.num_workers or available_processors(),
            overwrite=self.overwrite,
            retry_rejects=self.retry_rejects,
            dry_run=self.dry_run,
            verify_inputs=self.verify_inputs,
            steal=not self.no_steal,
            budget=Budget(self.max_rejects),
        )
