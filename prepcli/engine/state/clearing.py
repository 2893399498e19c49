"""Starts again: removes the files of earlier runs and no others; continues a removal that was interrupted."""

import contextlib
import os
import shutil
import time
import uuid
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import msgspec

from prepcli.engine.publishing.owned import Owned, remove_editable
from prepcli.engine.ranks.claims import CLAIMS, Claims, owners
from prepcli.engine.run.job import AnyJob
from prepcli.engine.run.report import Report
from prepcli.engine.state.in_the_way import naming_what_is_in_the_way
from prepcli.engine.state.plan import AnyPlan, StoredPlan
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.workspace import (
    CLEARED_FILES,
    CLEARED_FOLDERS,
    EDITABLE_FILES,
    Workspace,
    first_of,
    read_document,
    write_json,
)
from prepcli.errors import UsageError, option, same_command
from prepcli.interface.calls import tell
from prepcli.processes.owner import DELETE_SECONDS, Owner
from prepcli.processes.workers import TICK
from prepcli.storage.paths import StorePath, relative

MAX_LISTED = 10_000
"""Maximum number of names in OUT that are read for a message: a folder may hold millions."""
_CLEAR = "clear"
"""The name of the claim that a process takes before it clears."""
MAX_SHOWN = 10
"""Maximum number of names in a message."""


class _Clearing(msgspec.Struct):
    """The content of `clearing.json`, which exists until all is cleared: the name of the command that clears."""

    command: str = ""


@dataclass(frozen=True, slots=True)
class Stock:
    """The files in OUT when a job starts again.

    Attributes:
        ours: the names of the unchanged files that earlier runs have written, and of the index files of these files.
        changed: the names of the files that earlier runs have written and that have changed since.
        mistakable: the names of files not in `ours` that readers would take for a part of the new set.
        documents: the paths of all notes and markers. If OUT is in a store, a note is left out unless its process is
            known to have ended.
    """

    ours: list[str]
    changed: list[str]
    mistakable: list[str]
    documents: list[Path]


def take_stock(workspace: Workspace, job: AnyJob, plan: AnyPlan) -> Stock:
    """Find the files in OUT that a job may remove before it starts again, and the files that must stay."""
    found = workspace.found
    # Listed before the notes are read: a run that publishes at this moment notes its files before they appear.
    parts = {relative(path, workspace.out) for path in found.matching(job.output_patterns(plan))}
    owned = Owned(workspace)
    ours: dict[str, None] = {}
    changed = []
    for name in owned.files:
        state = found.state(name)
        if state is not None and owned.fits(workspace.out / name, name, state):
            ours |= dict.fromkeys((*job.made_of(found, name), name))
        elif state is not None:
            changed.append(name)
    documents = owned.ended if isinstance(workspace.out, StorePath) else owned.documents
    return Stock(list(ours), changed, sorted(parts.difference(ours)), documents)


def check_stock(stock: Stock, workspace: Workspace, job: AnyJob) -> None:
    """Check that a job may remove the files in `stock.ours` and then begin a new set; called before any removal.

    Raises:
        UsageError: another or an unknown command has written the files, or files remain that readers would take for a
            part of the new set.
    """
    out, command, elsewhere = workspace.named, _command(workspace), job.elsewhere or "another output"
    if stock.ours and command not in ("", job.command):
        raise UsageError(
            f"{out} has {len(stock.ours):,} file(s) that {command or 'an unknown command'} has written; {job.command} "
            f"does not remove them, because they may be its inputs: choose {elsewhere}, or move {out} and "
            f"{workspace.root} away first"
        )
    if not stock.mistakable:
        return
    shown = [f"{name} (changed since)" if name in stock.changed else name for name in stock.mistakable[:MAX_SHOWN]]
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
        f"{out} holds {len(stock.mistakable):,} file(s) that readers would take for a part of the new set, {why}: "
        f"{', '.join(shown)}. Nothing was removed. Choose {elsewhere}, or move or remove these files, and run "
        f"{same_command()} again"
    )


def clear(workspace: Workspace, job: AnyJob, plan: AnyPlan, cleared: Path | None = None, is_asked: bool = True) -> None:
    """Remove the files of earlier runs, and then their state; prints first which files go and which stay.

    Only one process clears at a time; others wait. If it is known to have ended, another one takes over at once. If it
    only gives no sign of life, another one takes over after `DELETE_SECONDS`: a process that was only suspended could
    continue later and remove new files.

    `cleared`: a file that is made as soon as one of several ranks has cleared the output; the other ranks then remove
    nothing. None for a single rank. `is_asked`: whether the user asks to start again; if False, only a clearing that
    was interrupted is completed.
    """
    workspace.root.mkdir(parents=True, exist_ok=True)
    claims = Claims(workspace.root / CLAIMS, workspace.rank.rank, workspace.life, DELETE_SECONDS)
    owner = _last_owner(workspace)
    if owner is not None and workspace.life.has_ended(owner, DELETE_SECONDS):
        claims.count_as_dead(owner)
    is_told = cleared is not None
    with claims.at_work():
        while not claims.take(_CLEAR):
            if not is_told:
                tell(
                    f"note: another command is clearing {workspace.named} ({option('--overwrite')}); waiting until "
                    "it has ended"
                )
            is_told = True
            time.sleep(TICK)
        is_needed = is_asked or workspace.clearing_file.exists()
        if is_needed and (cleared is None or not cleared.exists()):
            _clear(workspace, job, plan)
            if cleared is not None:
                cleared.touch()
            claims.release(_CLEAR)
    workspace.prepare()


def _clear(workspace: Workspace, job: AnyJob, plan: AnyPlan) -> None:
    root, run = workspace.root, run_in_words(workspace)
    # Until all is removed, no run may take the remaining files for its own.
    write_json(workspace.clearing_file, _Clearing(job.command))
    # The plan is removed first: a run that is still at work sees this, and publishes nothing more.
    _remove_plan(workspace)
    aside = _take_drafts(workspace)
    for name in EDITABLE_FILES:
        remove_editable(workspace, name)
    workspace.found = OutputFiles(workspace.out)
    stock = take_stock(workspace, job, plan)
    tell_removal(stock, workspace, job, run)
    workspace.found.remove(stock.ours)
    for path in stock.documents:
        path.unlink(missing_ok=True)
    units_claims = (root / CLAIMS).glob("*/")  # ranks that wait go on with their signs of life
    for folder in (*(root / name for name in CLEARED_FOLDERS), *units_claims, *aside):
        shutil.rmtree(folder, ignore_errors=True)
    # A rank that had not seen `clearing.json` may have written a plan; it looks again before it publishes.
    _remove_plan(workspace)
    workspace.clearing_file.unlink(missing_ok=True)


def _last_owner(workspace: Workspace) -> Owner | None:
    """The last process that has begun to clear and has not finished; None if there is none."""
    _, owner = owners(workspace.root / CLAIMS).get(_CLEAR, (0, None))
    return owner


def _remove_plan(workspace: Workspace) -> None:
    for name in CLEARED_FILES:
        with naming_what_is_in_the_way(workspace.root / name):
            (workspace.root / name).unlink(missing_ok=True)
    shutil.rmtree(first_of(workspace.plan_file), ignore_errors=True)


def _take_drafts(workspace: Workspace) -> list[Path]:
    """Rename `tmp/`, in which ranks write drafts. Returns all folders that this or an earlier call has renamed.

    After this, a rank of the earlier run cannot publish or note a draft, even if it continues after a long stop. Each
    file that it has published is in OUT, and a note or a marker names the file.
    """
    with contextlib.suppress(FileNotFoundError):
        os.rename(workspace.tmp, workspace.tmp.with_name(f"{workspace.tmp.name}~{uuid.uuid4().hex}"))
    return sorted(workspace.root.glob(f"{workspace.tmp.name}~*"))


def is_being_cleared(workspace: Workspace, command: str) -> bool:
    """Whether `clear` was interrupted, so that it must be called again.

    Raises:
        UsageError: another process may be clearing at this moment, or the interrupted `clear` was of another command.
    """
    left = read_document(workspace.clearing_file, _Clearing)
    if left is None:
        return False
    owner = _last_owner(workspace)
    if owner is not None and not workspace.life.has_ended(owner, DELETE_SECONDS):
        raise UsageError(
            f"another command is clearing {workspace.out} ({option('--overwrite')}), or was stopped on another "
            f"machine within the last hour while it did; let it finish, or give {option('--overwrite')} to clear it "
            "after that"
        )
    if left.command not in ("", command):
        raise UsageError(
            f"{left.command} {option('--overwrite')} was interrupted while it removed files in {workspace.out}; run "
            "it again, or choose another output"
        )
    return True


def _command(workspace: Workspace) -> str | None:
    """The name of the command that wrote the output, from the state folder; None or "" if it is unknown."""
    document = (
        read_document(workspace.plan_file, StoredPlan)
        or read_document(workspace.clearing_file, _Clearing)
        or read_document(workspace.report_file, Report)
    )
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
        stay = f"; {count} other file(s) there stay, such as {left[0]}" if left else "; nothing else is there"
    tell(f"note: removing {len(stock.ours):,} file(s) that {run} has written to {workspace.named}{stay}")
    for name in stock.changed[:MAX_SHOWN]:
        tell(f"note: {workspace.out / name} has changed since then, and stays")
    if (rest := len(stock.changed) - MAX_SHOWN) > 0:
        tell(f"note: {rest:,} other files have changed since then as well, and stay")


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
    folders = (workspace.done, workspace.progress, workspace.tmp, workspace.launches, workspace.owned, workspace.root)
    above = (workspace.main_root,) if workspace.main_root in workspace.root.parents else ()
    _remove_empty(*folders, *above)


def _remove_empty(*folders: Path) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # the folder is missing, or has files of others
            folder.rmdir()
