"""The options of `status`."""

from dataclasses import dataclass
from typing import Annotated

from prepcli.interface.options import Option
from prepcli.interface.shared_options import Json, WorkDir
from prepcli.storage.paths import AnyPath


@dataclass(frozen=True, kw_only=True)
class ShowStatus:
    """Show the progress of runs: done, missing, rejects, rate, time left, slowest rank, and how to continue.

    Several outputs are shown as one table, followed by those that have stopped. Reads only the files in OUT.prepcli/,
    so it works while ranks run, also on other machines. With --watch, the exit code is 4 if a run has stopped before
    its end; if the output is not a terminal, a line is printed only when something has changed.

    Example: prepcli status clean/ context/ shar/ --watch
    """

    out: Annotated[
        tuple[AnyPath, ...],
        Option("Output directories of other commands.", metavar="OUT...", is_argument=True),
    ]
    work_dir: WorkDir = None
    clean: Annotated[
        bool,
        Option(
            "Remove the folders of unfinished runs that the output does not need: all, or all but the newest if no run "
            "has finished. A run that is at work stays."
        ),
    ] = False
    as_json: Json = False
    watch: Annotated[
        bool,
        Option("Repeat until no run is active or waits for its start.", only="command line"),
    ] = False
    every: Annotated[
        float, Option("Interval of --watch in seconds.", minimum=0.1, only="command line", needs="watch")
    ] = 5.0
