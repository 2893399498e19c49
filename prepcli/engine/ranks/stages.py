"""The stages before a run has a plan: what its ranks do together, and how far they are; for `status`."""

import contextlib
import os
import shlex
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from prepcli.engine.ranks.claims import BEAT, CLAIMS, owners
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.interface.calls import command_line

QUIET_SECONDS = 60.0
"""Seconds without a sign of life after which the ranks of a stage count as ended."""
BEGINNING_SECONDS = 5.0
"""Maximum seconds from the beginning of a stage until its ranks have given a sign of life."""
LOADING_SECONDS = 600.0
"""Maximum seconds from the end of the last stage until there is a plan: a model may be loaded before."""
_FILE = "stage.json"


class Stage(msgspec.Struct):
    """`stage.json`: what ranks do together, in which command.

    `results` is a pattern of the files beside it that are there when `total` tasks are done; `is_last`: units
    follow.
    """

    doing: str
    total: int
    results: str
    run_with: str
    run_in: str
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class StageProgress:
    """How far a stage is. `in_hand`: for each rank the tasks it works on; `is_alive`: some rank is at work."""

    doing: str
    done: int
    total: int
    in_hand: dict[int, list[str]]
    is_alive: bool
    command: str
    continue_with: str


def begin_stage(folder: Path, doing: str, total: int, results: str, is_last: bool = False) -> None:
    """Note what the ranks whose claims are in `folder` do from now on; nothing where there are no tasks."""
    if total:
        stage = Stage(doing, total, results, command_line(of_rank=False), str(Path.cwd()), is_last)
        write_json(folder / _FILE, stage, durable=False)


def stage_of(workspace: Workspace) -> StageProgress | None:
    """The newest stage of a run that has no plan yet; None if there is none."""
    newest = max(workspace.index.glob(f"*/{_FILE}"), key=_changed, default=None)
    stage = None if newest is None else read_document(newest, Stage)
    if newest is None or stage is None:
        return None
    results = list(newest.parent.glob(stage.results))
    claims = newest.parent / CLAIMS
    held = sorted(owners(claims).items())
    in_hand: dict[int, list[str]] = {}
    for task, (rank, owner) in held:
        if not owner.is_gone:
            in_hand.setdefault(rank, []).append(task)
    is_alive = (
        any(owner.is_gone is False for _, (_, owner) in held)
        or ((bool(in_hand) or not held) and changed_within(QUIET_SECONDS, claims.glob(f"{BEAT}*")))
        or changed_within(BEGINNING_SECONDS, [newest])
        or (stage.is_last and changed_within(LOADING_SECONDS, results))
    )
    words = shlex.split(stage.run_with)
    return StageProgress(
        doing=stage.doing,
        done=len(results),
        total=stage.total,
        in_hand=in_hand,
        is_alive=is_alive,
        command=words[1] if words[:1] == ["prepcli"] and len(words) > 1 else "-",
        continue_with=f"cd {shlex.quote(stage.run_in)} && {stage.run_with}",
    )


def changed_within(seconds: float, paths: Iterable[Path]) -> bool:
    """Whether one of these files was written in the last `seconds`, by the clock of their file system."""
    newest = max(paths, key=_changed, default=None)
    return newest is not None and _time_in(newest.parent) - _changed(newest) < seconds


def _time_in(folder: Path) -> float:
    """The time by the clock of a folder's file system: that of its server, which may differ from ours.

    Where nothing can be written, our own.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()


def _changed(path: Path) -> float:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0
