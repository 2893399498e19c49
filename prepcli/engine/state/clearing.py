"""Starting again: removing what earlier runs have written, and nothing else; also if that was interrupted before."""

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
from prepcli.engine.run.job import AnyJob
from prepcli.engine.run.report import Report
from prepcli.engine.state.in_the_way import naming_what_is_in_the_way
from prepcli.engine.state.plan import AnyPlan, StoredPlan
from prepcli.engine.state.store_output import OutputSizes
from prepcli.engine.state.workspace import (
    CLEARED_FILES,
    CLEARED_FOLDERS,
    EDITABLE_FILES,
    Workspace,
    first_of,
    publish_json_once,
    read_document,
    write_json,
)
from prepcli.errors import UsageError
from prepcli.interface.calls import tell
from prepcli.processes.owner import Owner
from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.paths import StorePath

MAX_LISTED = 10_000
"""How many names in OUT are looked at for a note: a folder may hold millions."""
MAX_SHOWN = 10
"""How many names a message shows."""


class _Clearing(msgspec.Struct):
    """`clearing.json`, there until all is cleared: which process is at it, "" for none, and for which command."""

    owner: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Stock:
    """What is in OUT when a job starts again.

    Attributes:
        ours: the names of the files that earlier runs have written and that are unchanged, and of their indexes.
        changed: the names of those that have changed since.
        mistakable: other names that readers would take for a part of the new set.
        documents: all documents that name files.
        ended: those of them whose processes have ended.
        found: what is in OUT.
    """

    found: OutputSizes
    ours: list[str]
    changed: list[str]
    mistakable: list[str]
    documents: list[Path]
    ended: list[Path]


def take_stock(workspace: Workspace, job: AnyJob, plan: AnyPlan) -> Stock:
    """Find out which files in OUT a job may remove."""
    found = workspace.found
    # Before the notes are read: a run that publishes at this moment notes its files before they appear.
    parts = {path.relative_to(workspace.out).as_posix() for path in found.matching(job.output_patterns(plan))}
    owned = Owned(workspace)
    ours: dict[str, None] = {}
    changed = []
    for name in owned.files:
        state = found.state(name)
        if state is not None and owned.fits(workspace.out / name, name, state):
            ours |= dict.fromkeys((*job.made_of(found, name), name))
        elif state is not None:
            changed.append(name)
    return Stock(found, list(ours), changed, sorted(parts.difference(ours)), owned.documents, owned.ended)


def check_stock(stock: Stock, workspace: Workspace, job: AnyJob) -> None:
    """Check that a new set can begin when `ours` are gone; before anything is removed.

    Raises:
        UsageError: files of others, or of another command, stay; the message lists them.
    """
    out, command, elsewhere = workspace.named, _command(workspace), job.elsewhere or "another output"
    if stock.ours and command not in ("", job.command):
        raise UsageError(
            f"{out} has {len(stock.ours):,} file(s) that {command or 'an unknown command'} has written; {job.command} "
            f"does not remove them, because they may be its inputs: choose {elsewhere}, or remove {out} and "
            f"{workspace.root} first"
        )
    if not stock.mistakable:
        return
    shown = [f"{name} (changed since)" if name in stock.changed else name for name in stock.mistakable[:MAX_SHOWN]]
    if (rest := len(stock.mistakable) - MAX_SHOWN) > 0:
        shown.append(f"{rest:,} more")
    why = f"but that no run recorded in {workspace.root} has written as they are"
    if command is None:
        why = f"and {workspace.root}, which would tell how they were made, is not there"
    raise UsageError(
        f"{out} holds {len(stock.mistakable):,} file(s) that readers would take for a part of the new set, {why}: "
        f"{', '.join(shown)}. Nothing was removed. Choose {elsewhere}, or move or remove these files, and run the same "
        "command again"
    )


def clear(workspace: Workspace, job: AnyJob, plan: AnyPlan) -> None:
    """Remove the files of earlier runs, and their records, after `check_stock`; tells before what goes and what stays.

    Raises:
        UsageError: another process is clearing.
    """
    root = workspace.root
    root.mkdir(parents=True, exist_ok=True)
    run = _run(workspace)
    # Until all is gone, no run may take what is left for its own.
    own = _begin(workspace, job.command)
    try:
        # The plan goes first: a run that is still at work sees that, and publishes nothing more.
        _remove_plan(workspace)
        aside = _take_drafts(workspace)
        for name in EDITABLE_FILES:
            remove_editable(workspace, name)
        workspace.found = OutputSizes(workspace.out)
        stock = take_stock(workspace, job, plan)
        _tell(stock, workspace, job, run)
        if isinstance(workspace.out, StorePath):
            call(client.delete_objects, tuple(str(workspace.out / name) for name in stock.ours))
        else:
            for name in stock.ours:
                (workspace.out / name).unlink(missing_ok=True)
        for path in stock.ended if isinstance(workspace.out, StorePath) else stock.documents:
            path.unlink(missing_ok=True)
        for folder in (*(root / name for name in CLEARED_FOLDERS), *aside):
            shutil.rmtree(folder, ignore_errors=True)
        # That of a rank which had not found `clearing.json`; before anything is published it looks again.
        _remove_plan(workspace)
        workspace.clearing_file.unlink(missing_ok=True)
        shutil.rmtree(first_of(workspace.clearing_file), ignore_errors=True)
    except BaseException:
        own.owner = ""
        with contextlib.suppress(OSError):
            write_json(workspace.clearing_file, own)
        raise
    workspace.prepare()


def _remove_plan(workspace: Workspace) -> None:
    for name in CLEARED_FILES:
        with naming_what_is_in_the_way(workspace.root / name):
            (workspace.root / name).unlink(missing_ok=True)
    shutil.rmtree(first_of(workspace.plan_file), ignore_errors=True)


def _take_drafts(workspace: Workspace) -> list[Path]:
    """Move `tmp/` away; returns where it is now, and where earlier calls have left some of it.

    A rank of the earlier run that is just about to publish a draft, or to note it, cannot do so after this: whatever
    it has published is noted, and in OUT. It may be stopped at any point for any time before.
    """
    with contextlib.suppress(FileNotFoundError):
        os.rename(workspace.tmp, workspace.tmp.with_name(f"{workspace.tmp.name}~{uuid.uuid4().hex}"))
    return sorted(workspace.root.glob(f"{workspace.tmp.name}~*"))


def _begin(workspace: Workspace, command: str) -> _Clearing:
    """Write `clearing.json`, unless another process is at it."""
    own = _Clearing(str(Owner.of_this_process(workspace.rank_id)), command)
    stored = publish_json_once(workspace.clearing_file, own, _Clearing)
    if stored is not None and stored.owner != own.owner:
        owner = Owner.parse(stored.owner)
        if owner is not None and owner.is_gone is False and not owner.is_same_process(Owner.parse(own.owner) or owner):
            raise UsageError(
                f"another command is clearing {workspace.named} (--overwrite) at this moment; let it finish"
            )
        write_json(workspace.clearing_file, own)
    return own


def is_being_cleared(workspace: Workspace, command: str) -> bool:
    """Whether `clear` was interrupted, so that it must be called again.

    Raises:
        UsageError: another process may be clearing at this moment, or another command has been interrupted.
    """
    left = read_document(workspace.clearing_file, _Clearing)
    if left is None:
        return False
    owner = Owner.parse(left.owner)
    if left.owner and (owner is None or not owner.is_gone):
        raise UsageError(
            f"another command is clearing {workspace.out} (--overwrite), or was stopped on another machine while it "
            "did; let it finish, or give --overwrite to clear it from the beginning"
        )
    if left.command not in ("", command):
        raise UsageError(
            f"{left.command} --overwrite was interrupted while it removed files in {workspace.out}; run it again, or "
            "choose another output"
        )
    return True


def _command(workspace: Workspace) -> str | None:
    """The command whose files the records name; None if they do not tell."""
    document = (
        read_document(workspace.plan_file, StoredPlan)
        or read_document(workspace.clearing_file, _Clearing)
        or read_document(workspace.report_file, Report)
    )
    return None if document is None else document.command


def _run(workspace: Workspace) -> str:
    """The run whose files the records name, in words."""
    stored = read_document(workspace.plan_file, StoredPlan)
    if stored is None:
        return "an earlier run"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(workspace.plan_file.stat().st_mtime))
    return f"the run of {stored.command} of {when}"


def _tell(stock: Stock, workspace: Workspace, job: AnyJob, run: str) -> None:
    """Say what is removed, and what stays."""
    if not (stock.ours or stock.changed):
        return
    stay = ""
    if not job.shares_out and workspace.root == workspace.main_root:
        removed = {*stock.ours, *stock.changed}
        left = list(islice((name for name in stock.found.below() if name not in removed), MAX_LISTED))
        count = f"{MAX_LISTED:,} or more" if len(left) == MAX_LISTED else f"{len(left):,}"
        stay = f"; {count} other file(s) there stay, such as {left[0]}" if left else "; nothing else is there"
    tell(f"note: removing {len(stock.ours):,} file(s) that {run} has written to {workspace.named}{stay}")
    for name in stock.changed[:MAX_SHOWN]:
        tell(f"note: {workspace.out / name} has changed since then, and stays")
    if (rest := len(stock.changed) - MAX_SHOWN) > 0:
        tell(f"note: {rest:,} other files have changed since then as well, and stay")


def clear_refused(workspace: Workspace) -> None:
    """Remove what planning has written for a command that was refused, if there was no state folder before.

    Only what the next command makes again without loss: another may have begun in the same folder.
    """
    if not workspace.is_unused:
        return
    for name in ("index", "spool"):
        shutil.rmtree(workspace.root / name, ignore_errors=True)
    with contextlib.suppress(OSError):  # what cannot be removed was the reason
        (workspace.root / "claim.json").unlink(missing_ok=True)
    folders = (workspace.done, workspace.progress, workspace.tmp, workspace.launches, workspace.owned, workspace.root)
    above = (workspace.main_root,) if workspace.main_root in workspace.root.parents else ()
    for folder in (*folders, *above):
        with contextlib.suppress(OSError):  # it is not there, or has records of others
            folder.rmdir()
