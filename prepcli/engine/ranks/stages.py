"""The stages before a run has a plan: the common work of its ranks, and its progress for `status`."""

import shlex
from pathlib import Path
from typing import NamedTuple

import msgspec

from prepcli.engine.ranks.claims import CLAIMS, owners
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.interface.calls import command_line
from prepcli.processes.owner import REPEAT_SECONDS, last_change

_FILE = "stage.json"


class Stage(msgspec.Struct):
    """The content of `stage.json`: the common work of the ranks, and the command.

    `results` is a pattern of files next to it, which all exist when `total` tasks are done.
    """

    doing: str
    total: int
    results: str
    run_with: str
    run_in: str


class StageProgress(NamedTuple):
    """The progress of a stage. `in_hand`: for each rank, its current tasks; `is_alive`: whether a rank is at work."""

    doing: str
    done: int
    total: int
    in_hand: dict[int, list[str]]
    is_alive: bool
    command: str
    continue_with: str


def begin_stage(folder: Path, doing: str, total: int, results: str) -> None:
    """Record the work that ranks with claims in `folder` begin now; nothing if there are no tasks."""
    if total:
        stage = Stage(doing, total, results, command_line(of_rank=False), str(Path.cwd()))
        write_json(folder / _FILE, stage, durable=False)


def stage_of(workspace: Workspace) -> StageProgress | None:
    """The newest stage of a run that has no plan yet; None if there is none."""
    newest = max(workspace.index.glob(f"*/{_FILE}"), key=last_change, default=None)
    stage = None if newest is None else read_document(newest, Stage)
    if newest is None or stage is None:
        return None
    results = list(newest.parent.glob(stage.results))
    in_hand: dict[int, list[str]] = {}
    for task, (rank, owner) in sorted(owners(newest.parent / CLAIMS).items()):
        if not workspace.life.has_ended(owner, REPEAT_SECONDS):
            in_hand.setdefault(rank, []).append(task)
    words = shlex.split(stage.run_with)
    return StageProgress(
        doing=stage.doing,
        done=len(results),
        total=stage.total,
        in_hand=in_hand,
        is_alive=workspace.life.others(REPEAT_SECONDS),
        command=words[1] if words[:1] == ["prepcli"] and len(words) > 1 else "-",
        continue_with=f"cd {shlex.quote(stage.run_in)} && {stage.run_with}",
    )
