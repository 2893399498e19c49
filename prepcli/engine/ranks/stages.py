"""The stages before a run has a plan: the common work of its ranks, for `status`."""

from pathlib import Path

import msgspec

from prepcli.engine.state.workspace import write_json
from prepcli.interface.calls import command_line

STAGE_FILE = "stage.json"
"""The file with the stage, in the folder of an index."""


class Stage(msgspec.Struct):
    """The content of `stage.json`: the common work of the ranks, and the command.

    `results` is a pattern of files next to it, which all exist when `total` tasks are done.
    """

    doing: str
    total: int
    results: str
    run_with: str
    run_in: str


def begin_stage(folder: Path, doing: str, total: int, results: str) -> None:
    """Record the work that ranks with claims in `folder` begin now; nothing if there are no tasks."""
    if total:
        stage = Stage(doing, total, results, command_line(of_rank=False), str(Path.cwd()))
        write_json(folder / STAGE_FILE, stage, durable=False)
