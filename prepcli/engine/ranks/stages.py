"""Stages of the work that one rank does for all before there is a plan: `prepcli status` reads them in `stage.json`."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec

from prepcli.engine.state.workspace import Workspace, write_json
from prepcli.interface.calls import command_line
from prepcli.processes.owner import last_change, touching

LOCK_FILE = "lock"
"""The lock (`prepcli.engine.lock`) of the rank that reads the manifests or plans, in the folder of the index."""
STAGE_FILE = "stage.json"
"""The name of a file next to the lock; it describes what the holder does."""


class Stage(msgspec.Struct):
    """The content of `stage.json`: the work of the rank that holds the lock, for example reading manifests.

    `doing` is the work in words, and `total` the number of its tasks. `results` is a glob, relative to the folder of
    `stage.json`, that matches one file per finished task. `run_with` is the command, and `run_in` the folder in which
    it was started. `rank` does the work, on the machine `host`; `owner` is its process
    (`prepcli.processes.owner.Owner`).
    """

    doing: str
    total: int
    results: str
    run_with: str
    run_in: str
    rank: int = 0
    host: str = ""
    owner: str = ""


def begin_stage(folder: Path, workspace: Workspace, doing: str, total: int, results: str) -> None:
    """Write `stage.json` in `folder`: the rank of `workspace`, which holds the lock, begins a stage now.

    The other arguments are the fields of `Stage`. Does nothing if `total`, the number of tasks, is 0.
    """
    if total:
        run_with = command_line(of_rank=False)
        rank, owner = workspace.rank.rank, str(workspace.owner)
        stage = Stage(doing, total, results, run_with, str(Path.cwd()), rank, socket.gethostname(), owner)
        write_json(folder / STAGE_FILE, stage, durable=False)


@contextlib.contextmanager
def preparing(workspace: Workspace, doing: str) -> Iterator[None]:
    """Within the context, the newest `stage.json` says that this rank, which has a plan, prepares for the units.

    Without an index, that file is written for the time of the context; if there are several ranks, it stays, because
    another one may need its folder. Does nothing if `doing`, the words for the work, is empty.
    """
    if not doing:
        yield
        return
    newest = max(workspace.index.glob(f"*/{STAGE_FILE}"), key=last_change, default=None)
    path = newest or workspace.index / "none" / STAGE_FILE
    try:
        with contextlib.suppress(OSError):  # it is only for `status`
            path.parent.mkdir(parents=True, exist_ok=True)
            begin_stage(path.parent, workspace, doing, 1, "units")
        with touching(path):
            yield
    finally:
        if newest is None and workspace.rank.world_size == 1:
            with contextlib.suppress(OSError):
                path.unlink()
                for folder in (path.parent, workspace.index, workspace.root):
                    folder.rmdir()
