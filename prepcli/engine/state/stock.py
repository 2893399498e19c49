"""The files in OUT when a set is made again: what is removed, and what stays."""

import contextlib
import shutil
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from prepcli.engine.run.job import AnyJob
from prepcli.engine.run.report import Report
from prepcli.engine.state.plan import StoredPlan
from prepcli.engine.state.workspace import (
    Workspace,
    read_document,
)
from prepcli.errors import UsageError, same_command
from prepcli.interface.calls import tell
from prepcli.interface.printing import number_of
from prepcli.storage.paths import AnyPath

MAX_LISTED = 10_000
"""Maximum number of names in OUT that are read for a message: a folder may hold millions."""
MAX_SHOWN = 10
"""Maximum number of names in a message."""


@dataclass(frozen=True, slots=True)
class Stock:
    """The files in OUT when a job starts again.

    Attributes:
        ours: the names of the unchanged files that earlier runs have written, and of the index files of these files.
        changed: the names of the files that earlier runs have written and that have changed since.
        mistakable: the names of files not in `ours` that readers would take for a part of the new set.
    """

    ours: list[str]
    changed: list[str]
    mistakable: list[str]


def check_stock(stock: Stock, workspace: Workspace, job: AnyJob) -> None:
    """Check that a job may remove the files in `stock.ours` and then begin a new set; called before any removal.

    Raises:
        UsageError: another or an unknown command has written the files, or files remain that readers would take for a
            part of the new set.
    """
    out, command, elsewhere = workspace.named, _command(workspace), job.elsewhere or "another output"
    if stock.ours and command not in ("", job.command):
        raise UsageError(
            f"{out} has {number_of(len(stock.ours), 'file')} that {command or 'an unknown command'} has written; "
            f"{job.command} does not remove them, because they may be its inputs: choose {elsewhere}, or move {out} "
            f"and {workspace.root} away first"
        )
    if not stock.mistakable:
        return
    shown = [
        f"{name} ({'write-protected' if _is_write_protected(workspace.out / name) else 'changed since'})"
        if name in stock.changed
        else name
        for name in stock.mistakable[:MAX_SHOWN]
    ]
    if (rest := len(stock.mistakable) - MAX_SHOWN) > 0:
        shown.append(f"{rest:,} more")
    why = f"but that no run recorded in {workspace.root} has written as they are"
    if command is None:
        why = f"and {workspace.root}, which would tell how they were made, is not there"
    if workspace.named != workspace.out:
        unknown = "is not there" if command is None else "does not tell so"
        # The job may write more files than the one that users name.
        first = out if workspace.named.name in stock.mistakable else workspace.out / stock.mistakable[0]
        raise UsageError(
            f"{first} exists, and may be yours: {workspace.root}, which would tell how it was made, {unknown}. Nothing "
            f"was removed. Choose another file, or move this one away, and run {same_command()} again"
        )
    raise UsageError(
        f"{out} holds {number_of(len(stock.mistakable), 'file')} that readers would take for a part of the new set, "
        f"{why}: {', '.join(shown)}. Nothing was removed. Choose {elsewhere}, or move or remove these files, and run "
        f"{same_command()} again"
    )


def _command(workspace: Workspace) -> str | None:
    """The name of the command that wrote the output, from the state folder; None or "" if it is unknown."""
    document = read_document(workspace.plan_file, StoredPlan) or read_document(workspace.report_file, Report)
    return None if document is None else document.command


def run_in_words(workspace: Workspace) -> str:
    """The run that wrote the output, in words: its command and its time, or `an earlier run` if they are unknown."""
    stored = read_document(workspace.plan_file, StoredPlan)
    if stored is None:
        return "an earlier run"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(workspace.plan_file.stat().st_mtime))
    return f"the run of {stored.command} of {when}"


def tell_removal(stock: Stock, workspace: Workspace, job: AnyJob, run: str) -> None:
    """Print which files are removed, and which stay."""
    if not (stock.ours or stock.changed):
        return
    stay = ""
    if not job.shares_out and workspace.root == workspace.main_root:
        removed = {*stock.ours, *stock.changed}
        left = list(islice((name for name in workspace.found.below() if name not in removed), MAX_LISTED))
        count = f"{MAX_LISTED:,} or more" if len(left) == MAX_LISTED else f"{len(left):,}"
        stay = f"; others there stay ({count}), such as {left[0]}" if left else "; nothing else is there"
    tell(f"note: removing {number_of(len(stock.ours), 'file')} that {run} has written to {workspace.named}{stay}")
    for name in stock.changed[:MAX_SHOWN]:
        why = "is write-protected" if _is_write_protected(workspace.out / name) else "has changed since then"
        tell(f"note: {workspace.out / name} {why}, and stays")
    if (rest := len(stock.changed) - MAX_SHOWN) > 0:
        tell(f"note: {rest:,} other files have changed since then as well, and stay")


def _is_write_protected(path: AnyPath) -> bool:
    """Whether the permissions of a file let no user write it; such a file stays, as one that was changed."""
    try:
        return isinstance(path, Path) and not path.lstat().st_mode & 0o222
    except OSError:
        return False


def clear_refused(workspace: Workspace) -> None:
    """Remove the files that a command wrote into its state folder before it was refused, and folders that are empty.

    If a run has used the state folder (`Workspace.is_unused`), nothing else is removed. Meanwhile another command may
    have begun in the folder: only files that this other command can make again are removed.
    """
    if workspace.has_unit_folders and not workspace.plan_file.exists():
        _remove_empty(workspace.tmp, workspace.progress, workspace.run / "units", workspace.run)
    if not workspace.is_unused:
        return
    for name in ("index", "spool"):
        shutil.rmtree(workspace.root / name, ignore_errors=True)
    with contextlib.suppress(OSError):  # the cause of the refusal may be that files cannot be removed
        workspace.claim_file.unlink(missing_ok=True)
    above = (workspace.main_root,) if workspace.main_root in workspace.root.parents else ()
    _remove_empty(workspace.root, *above)


def _remove_empty(*folders: Path) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # the folder is missing, or has files of others
            folder.rmdir()
