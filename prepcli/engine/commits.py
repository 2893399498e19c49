"""A commit changes OUT from the files of one list of runs to those of another (`prepcli.engine.ledger`).

The change is written down before it begins, and is repeated whole if it was interrupted: files of runs that leave the
list are removed, then files of runs that enter it are renamed into OUT. Any process can repeat it, because the unit
documents name all files. Only files that are as a run has written them are removed.
"""

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import NamedTuple

import msgspec

from prepcli.engine.earlier import earlier_commits, remove_state
from prepcli.engine.ledger import Commit, Ledger, Pending
from prepcli.engine.lock import Lock, locked
from prepcli.engine.publishing.output_files import PublishedFile
from prepcli.engine.publishing.owned import has_content, is_as_published
from prepcli.engine.publishing.publish import Marker
from prepcli.engine.state.plan import FINISH_UNIT, StoredPlan
from prepcli.engine.state.stored_units import has_units, read_units
from prepcli.engine.state.workspace import Workspace, children_of, flush_folders, read_document, write_json
from prepcli.engine.unit_folders import FILES, UNITS
from prepcli.errors import PrepcliError, UsageError, naming, same_command
from prepcli.interface.calls import tell

LOCK_FILE = "commit.lock"
MAX_SHOWN = 10
"""Maximum number of names in a message."""


class CommittedUnit(NamedTuple):
    """A unit of a commit: the workspace of its run, and its document."""

    workspace: Workspace
    marker: Marker

    @property
    def folder(self) -> Path:
        """The folder of the unit."""
        return self.workspace.unit_folder(self.marker.unit)


def read_ledger(workspace: Workspace) -> Ledger:
    """The runs whose files are in the output; for a set that 0.3 has made, as read from its markers."""
    ledger = workspace.ledger()
    if ledger.commits or ledger.pending:
        return ledger
    return msgspec.structs.replace(ledger, commits=earlier_commits(workspace))


def workspace_of_commit(workspace: Workspace, commit: Commit) -> Workspace:
    """The workspace of the run that has made a commit."""
    found = copy(workspace)
    folder = workspace.ledger_file.parent
    found.root = folder / commit.part if commit.part else folder
    found.rejects_file, found.report_file = found.root / "rejects.jsonl", found.root / "report.json"
    found.enter(folder / commit.folder)
    return found


def units_of(workspace: Workspace, commit: Commit) -> Iterator[CommittedUnit]:
    """The units of a commit in the order of its plan, the final merge last."""
    found = workspace_of_commit(workspace, commit)
    plan = read_document(found.plan_file, StoredPlan)
    if plan is not None and plan.num_units and has_units(found, plan):
        paths = [found.marker_file(unit.id) for unit in (*read_units(found, plan), FINISH_UNIT)]
    else:  # without them, the order is not known
        merged = found.marker_file(FINISH_UNIT.id)
        paths = [*(path for path in found.marker_files() if path != merged), merged]
    for path in paths:
        marker = read_document(path, Marker)
        if marker is not None:
            yield CommittedUnit(found, marker)


@contextlib.contextmanager
def committing(workspace: Workspace) -> Iterator[Lock]:
    """Hold the lock of the output within the context; a change that was interrupted is completed first."""
    with locked(workspace.ledger_file.with_name(LOCK_FILE)) as lock:
        complete(workspace, lock)
        yield lock


def recover(workspace: Workspace) -> None:
    """Complete a change of the output that was interrupted, if there is one."""
    if workspace.ledger_file.exists():
        if workspace.ledger().pending is not None:
            with committing(workspace):
                pass
        for name in workspace.ledger().replaced:
            shutil.rmtree(workspace.ledger_file.with_name(name), ignore_errors=True)


def change(workspace: Workspace, commits: tuple[Commit, ...], lock: Lock, obsolete: Collection[str] = ()) -> None:
    """Change the output to the files of `commits`; `obsolete` as in `Pending`.

    The caller has the lock, and knows that no file is in the way.
    """
    pending = Pending(commits, tuple(obsolete))
    _write(workspace, msgspec.structs.replace(read_ledger(workspace), pending=pending))
    complete(workspace, lock)


def complete(workspace: Workspace, lock: Lock) -> None:
    """Complete the change that is under way, if there is one."""
    ledger = workspace.ledger()
    if ledger.pending is None:
        return
    before, after = ledger.commits, ledger.pending.commits
    leaving = [commit for commit in before if commit not in after]
    entering = [commit for commit in after if commit not in before]
    if not ledger.pending.is_cleared:
        for commit in reversed(leaving):
            _clear(workspace, commit, _heir(workspace, commit, entering), lock)
        for name in ledger.pending.obsolete:
            (workspace.folder / name).unlink(missing_ok=True)
        for commit in entering:
            _adopt(workspace, commit)
        ledger = msgspec.structs.replace(ledger, pending=Pending(after, is_cleared=True))
        _write(workspace, ledger)
    for commit in entering:
        _move(workspace, commit, lock)
    lock.check()
    used = {commit.folder for commit in after}
    for commit in leaving:
        if not workspace_of_commit(workspace, commit).has_unit_folders:
            remove_state(workspace_of_commit(workspace, commit).root)
    gone = {commit.folder for commit in leaving if commit.folder != commit.part}
    known = {*ledger.replaced, *gone, *_bases(workspace, entering)} - used
    replaced = [name for name in sorted(known) if workspace.ledger_file.with_name(name).exists()]
    _write(workspace, Ledger(after, None, tuple(replaced)))
    for commit in entering:
        _sweep(workspace_of_commit(workspace, commit))
    for name in replaced:
        shutil.rmtree(workspace.ledger_file.with_name(name), ignore_errors=True)


def _write(workspace: Workspace, ledger: Ledger) -> None:
    write_json(workspace.ledger_file, ledger)


def _plan(workspace: Workspace, commit: Commit) -> StoredPlan | None:
    return read_document(workspace_of_commit(workspace, commit).plan_file, StoredPlan)


def _bases(workspace: Workspace, entering: Collection[Commit]) -> Iterator[str]:
    """The folders of the earlier runs whose units the entering runs have kept."""
    for commit in entering:
        name = getattr(_plan(workspace, commit), "base", "")
        while name:
            yield name
            plan = read_document(workspace.ledger_file.with_name(name) / "plan.json", StoredPlan)
            name = plan.base if plan is not None else ""


def _heir(workspace: Workspace, leaving: Commit, entering: Collection[Commit]) -> Workspace | None:
    """The workspace of the entering run that keeps units of the leaving one; None if there is none."""
    for commit in entering:
        if leaving.folder in _bases(workspace, [commit]):
            return workspace_of_commit(workspace, commit)
    return None


def _clear(workspace: Workspace, commit: Commit, heir: Workspace | None, lock: Lock) -> None:
    """Remove the files of a leaving run that are as it has written them, except for those of units that are kept."""
    folders: set[Path] = set()
    for unit in units_of(workspace, commit):
        if heir is not None and unit.marker.unit != FINISH_UNIT.id and not _is_own(heir, unit.marker.unit):
            continue
        lock.check()
        for name, file in reversed(unit.marker.files.items()):
            path = workspace.folder / name
            if is_ours(path, [file, *unit.marker.earlier.get(name, ())]):
                path.unlink(missing_ok=True)
                folders.add(path.parent)
    _remove_empty(folders, workspace.folder)


def _is_own(workspace: Workspace, unit: str) -> bool:
    return (workspace.run / UNITS / unit).is_dir()


def _adopt(workspace: Workspace, commit: Commit) -> None:
    """Move the units that an entering run has kept of earlier runs into its own folder."""
    run = workspace_of_commit(workspace, commit)
    plan = read_document(run.plan_file, StoredPlan)
    if plan is None or not plan.base:
        return
    for unit in read_units(run, plan):
        if not _is_own(run, unit.id):
            with contextlib.suppress(FileNotFoundError):
                os.rename(run.unit_folder(unit.id), run.run / UNITS / unit.id)
    flush_folders([run.run / UNITS])


def _move(workspace: Workspace, commit: Commit, lock: Lock) -> None:
    """Rename the files of an entering run into OUT, those by which readers find the others last."""
    folders: set[Path] = set()
    out = workspace.folder
    out.mkdir(parents=True, exist_ok=True)
    for unit in units_of(workspace, commit):
        lock.check()
        files = unit.folder / FILES
        for name, file in unit.marker.files.items():
            source, target = files / name, out / name
            if not source.exists():
                continue  # it is in OUT
            if os.path.lexists(target):
                _make_way(unit.workspace, target, name, file)
            _rename(source, target)
            folders.add(target.parent)
        if unit.marker.unit == FINISH_UNIT.id:
            for name in unit.marker.work_files:
                if (unit.folder / name).exists():
                    _rename(unit.folder / name, unit.workspace.root / name)
                    folders.add(unit.workspace.root)
    above = {one for folder in folders for one in folder.parents if out.parent in (one, *one.parents)}
    flush_folders(sorted(folders | above))


def _rename(source: Path, target: Path) -> None:
    with naming(target):
        try:
            os.replace(source, target)
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)


def _make_way(workspace: Workspace, path: Path, name: str, new: PublishedFile) -> None:
    """Keep a file that somebody has put, or changed, where a file of ours belongs."""
    if path.is_dir() and not path.is_symlink():
        raise UsageError(
            f"{path} is a directory, but a file belongs there; move it away, and run {same_command()} again"
        )
    if is_ours(path, [new]):
        return
    kept = workspace.ledger_file.with_name("kept") / name
    while os.path.lexists(kept):
        kept = kept.with_name(f"{path.name}~{time.time_ns():x}")
    _rename(path, kept)
    tell(f"note: {path} is not as prepcli has written it; it is kept as {kept}")


def is_ours(path: Path, records: Collection[PublishedFile]) -> bool:
    """Whether the file at `path` is as one of the records says: by size and time or, if only the time differs, hash."""
    try:
        state = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(state.st_mode) and (is_as_published(state, records) or has_content(path, state, records))


def check_free(workspace: Workspace, commit: Commit, ledger: Ledger) -> None:
    """Check that no file of others has the name of a file of a run that is to be committed.

    Raises:
        UsageError: such a file exists.
    """
    ours = files_of(workspace, ledger.commits) if ledger.commits else {}
    strangers = []
    for unit in units_of(workspace, commit):
        for name in unit.marker.files:
            path = workspace.folder / name
            is_new = os.path.lexists(path) and name not in ours and (unit.folder / FILES / name).exists()
            if is_new and not is_ours(path, [unit.marker.files[name]]):
                strangers.append(path)
    if strangers:
        more = f", and {len(strangers) - 1:,} more," if len(strangers) > 1 else ""
        raise UsageError(
            f"{strangers[0]}{more} is there already, and no record in {workspace.root} shows that this run has written "
            f"it; move it away, and run {same_command()} again"
        )


def files_of(workspace: Workspace, commits: Collection[Commit]) -> dict[str, list[PublishedFile]]:
    """The records of all files of some commits, by their names in OUT."""
    files: dict[str, list[PublishedFile]] = {}
    for commit in commits:
        for unit in units_of(workspace, commit):
            for name, file in unit.marker.files.items():
                files[name] = [file, *unit.marker.earlier.get(name, ())]
    return files


def _sweep(run: Workspace) -> None:
    """Remove what ranks have left in the folder of a committed run, and the empty folders of its files."""
    if not run.has_unit_folders:
        return
    for folder in (run.tmp, run.run / "crashes", *(unit / FILES for unit in children_of(run.run / UNITS))):
        shutil.rmtree(folder, ignore_errors=True)
    for entry in children_of(run.run):
        if entry.name.startswith("."):
            entry.unlink(missing_ok=True)


def _remove_empty(folders: Collection[Path], out: Path) -> None:
    """Remove folders below OUT that have become empty."""
    every = {one for folder in folders for one in (folder, *folder.parents) if out in one.parents}
    for folder in sorted(every, key=lambda one: len(one.parts), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()
    flush_folders(one for one in {out, *every} if one.exists())


def refuse_pending(workspace: Workspace) -> None:
    """Raise `PrepcliError` if a change of the output was interrupted, so that its files are of two runs."""
    if workspace.ledger_file.exists() and workspace.ledger().pending is not None:
        raise PrepcliError(f"{workspace.named} is being changed, or that was interrupted")


def by_part(commits: Collection[Commit]) -> Mapping[str, Commit]:
    """The commits by their parts."""
    return {commit.part: commit for commit in commits}
