"""`--overwrite`: removing what an earlier run has left, also where that was interrupted before."""

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from prepcli.engine.in_the_way import naming_what_is_in_the_way
from prepcli.engine.owner import Owner
from prepcli.engine.store_output import abort_left
from prepcli.engine.workspace import CLEARED_FILES, CLEARED_FOLDERS, Workspace, first_of, read_document, write_json
from prepcli.errors import UsageError
from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.paths import StorePath


class _Clearing(msgspec.Struct):
    """`clearing.json`, there while `clear` is at work: which process, and the patterns of what it removes."""

    owner: str
    patterns: list[str]


def clear(workspace: Workspace, patterns: Sequence[str]) -> None:
    """Start again: remove the job's own outputs (`patterns` below OUT) and the records of earlier runs."""
    root = workspace.root
    # Until all is gone, no run may take what is left for its own.
    root.mkdir(parents=True, exist_ok=True)
    begun = read_document(_file(workspace), _Clearing)
    patterns = list(dict.fromkeys([*patterns, *(begun.patterns if begun else ())]))
    write_json(_file(workspace), _Clearing(str(Owner.of_this_process(workspace.rank_id)), patterns))
    # The plan goes first: a run that is still at work sees that, and publishes nothing more.
    for name in CLEARED_FILES:
        with naming_what_is_in_the_way(root / name):
            (root / name).unlink(missing_ok=True)
    shutil.rmtree(first_of(workspace.plan_file), ignore_errors=True)
    if isinstance(workspace.out, StorePath):
        call(client.delete_objects, tuple(map(str, workspace.outputs(patterns))))
    else:
        for path in workspace.outputs(patterns):
            with naming_what_is_in_the_way(path):
                path.unlink(missing_ok=True)
    abort_left(workspace.folders_in_tmp(), ())
    for name in CLEARED_FOLDERS:
        shutil.rmtree(root / name, ignore_errors=True)
    _file(workspace).unlink(missing_ok=True)
    workspace.prepare()


def finish_clearing(workspace: Workspace) -> None:
    """Remove what a killed `clear` has left.

    Raises:
        UsageError: another process may be clearing at this moment.
    """
    left = read_document(_file(workspace), _Clearing)
    if left is None:
        return
    owner = Owner.parse(left.owner)
    if owner is None or not owner.is_gone:
        raise UsageError(
            f"another command is clearing {workspace.out} (--overwrite), or was stopped on another machine while it "
            "did; let it finish, or give --overwrite to clear it from the beginning"
        )
    clear(workspace, left.patterns)


def clear_refused(workspace: Workspace) -> None:
    """Remove what planning has written for a command that was refused, if there was no folder of records before.

    Only what the next command makes again without loss: another may have begun in the same folder.
    """
    if not workspace.is_unused:
        return
    for name in ("index", "spool"):
        shutil.rmtree(workspace.root / name, ignore_errors=True)
    with contextlib.suppress(OSError):  # what cannot be removed was the reason
        (workspace.root / "claim.json").unlink(missing_ok=True)
    folders = (workspace.done, workspace.progress, workspace.tmp, workspace.launches, workspace.root)
    above = (workspace.main_root,) if workspace.main_root in workspace.root.parents else ()
    for folder in (*folders, *above):
        with contextlib.suppress(OSError):  # it is not there, or has records of others
            folder.rmdir()


def _file(workspace: Workspace) -> Path:
    return workspace.root / "clearing.json"
