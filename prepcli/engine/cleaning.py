"""Removes the folders of unfinished runs that an output does not need: `status --clean`."""

import contextlib
import os
import shutil
from copy import copy
from pathlib import Path

from prepcli.engine.commits import REPLACED, committing, discard
from prepcli.engine.ranks.progress import progress_file, read_progress
from prepcli.engine.state.plan import StoredPlan
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.processes.owner import DELETE_SECONDS, has_ended, last_change


def remove_unfinished(workspace: Workspace) -> tuple[int, int]:
    """Remove the folders of unfinished runs; returns their number and their bytes.

    If the output has no finished run, its newest unfinished one stays, for the command that continues it. A run on
    which a rank is at work stays too, with the earlier run of which it keeps units.
    """
    if not _unneeded(workspace):
        return 0, 0
    with committing(workspace) as lock:  # it completes what is pending, which then does not count as unfinished
        unneeded = _unneeded(workspace)
        num_bytes = sum(map(bytes_of, unneeded))
        for run in unneeded:
            lock.check()
            discard(workspace, run)
    shutil.rmtree(workspace.ledger_file.with_name(REPLACED), ignore_errors=True)
    return len(unneeded), num_bytes


def _unneeded(workspace: Workspace) -> list[Path]:
    runs = workspace.unfinished_runs()
    needed = {run.name for run in runs if _is_at_work(workspace, run)}
    if not workspace.is_committed:
        needed.update(run.name for run in runs[:1])
    plans = {run.name: read_document(run / "plan.json", StoredPlan) for run in runs}
    for run in runs:  # the newest first, so that the base of a base is found
        if run.name in needed and (plan := plans[run.name]) is not None:
            needed.add(plan.base)
    return [run for run in runs if run.name not in needed]


def _is_at_work(workspace: Workspace, run: Path) -> bool:
    """Whether a process may still be at work on a run; one that has done its share may be about to commit."""
    found = copy(workspace)
    found.enter(run)
    signs = ((rank.process, last_change(progress_file(found, rank.rank))) for rank in read_progress(found))
    return any(not has_ended(process, DELETE_SECONDS, sign, workspace.clock()) for process, sign in signs)


def bytes_of(folder: Path) -> int:
    """The size in bytes of all files below a folder."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # a rank has just removed it
                total += os.path.getsize(os.path.join(root, name))
    return total
