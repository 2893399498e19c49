"""A commit changes OUT from the files of one list of runs to those of another (`prepcli.engine.ledger`).

The change is written down before it begins, and is repeated whole if it was interrupted: files of runs that leave the
list are removed, then files of runs that enter it are renamed into OUT. Any process can repeat it, because the unit
documents name all files. Only files that are as a run has written them are removed; others that are in the way go to
`OUT.prepcli/kept/`.
"""

import contextlib
import os
import shlex
import shutil
import time
from collections.abc import Collection, Iterable, Iterator
from copy import copy
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from prepcli.engine.earlier import earlier_commits, remove_state
from prepcli.engine.ledger import LEDGER_FILE, Commit, Ledger, Pending, run_folders
from prepcli.engine.lock import LOCK_FILE, Lock, is_left, locked
from prepcli.engine.objects import remove_objects
from prepcli.engine.publishing.output_files import PublishedFile
from prepcli.engine.publishing.publish import FILES, UNITS, Marker
from prepcli.engine.publishing.recorded import is_ours, set_aside, stranger
from prepcli.engine.section import SECTION_FILE, update_section
from prepcli.engine.state.plan import FINISH_UNIT, StoredPlan
from prepcli.engine.state.stored_units import has_units, read_units
from prepcli.engine.state.workspace import Workspace, children_of, draft_of, flush_folders, read_document, write_json
from prepcli.errors import PrepcliError, UsageError, naming, same_command
from prepcli.interface.calls import command_line
from prepcli.storage.paths import StorePath, relative

REPLACED = "replaced"
"""The folder in OUT.prepcli to which the folders of earlier runs are renamed before they are removed."""


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


def units_of(workspace: Workspace, commit: Commit, is_whole: bool = False) -> Iterator[CommittedUnit]:
    """The units of a commit in the order of its plan, the final merge last.

    Raises:
        PrepcliError: a unit is not there although the commit `is_whole`.
    """
    run = workspace_of_commit(workspace, commit)
    plan = read_document(run.plan_file, StoredPlan)
    if plan is not None and has_units(run, plan):
        paths = [run.marker_file(unit.id) for unit in (*read_units(run, plan), FINISH_UNIT)]
    elif is_whole:
        raise PrepcliError(f"{run.plan_file} is missing or damaged, so {run.named} cannot be completed")
    else:  # without the plan, the order is not known
        merged = run.marker_file(FINISH_UNIT.id)
        paths = [*(path for path in run.marker_files() if path != merged), merged]
    for path in paths:
        marker = read_document(path, Marker)
        if marker is not None:
            yield CommittedUnit(run, marker)
        elif is_whole:
            raise PrepcliError(f"{path} is missing or damaged, so {run.named} cannot be completed")


@contextlib.contextmanager
def committing(workspace: Workspace) -> Iterator[Lock]:
    """Hold the lock of the output within the context; a change that was interrupted is completed first."""
    with locked(workspace.lock_file, "is changing the output") as lock:
        _complete(workspace, lock)
        yield lock


def recover(workspace: Workspace) -> list[Commit]:
    """Complete a change of the output that was interrupted, if there is one; returns the commits that have left.

    Raises:
        UsageError: there is one, but the output is in a store, and another state folder holds it now.
    """
    root, before = workspace.ledger_file.parent, workspace.ledger()
    if before.pending is not None:
        workspace.refuse_holder()
    if before.pending is not None or is_left(workspace.lock_file):
        with committing(workspace):
            pass
    shutil.rmtree(root / REPLACED, ignore_errors=True)
    return [commit for commit in before.commits if commit not in workspace.ledger().commits]


def begin(workspace: Workspace, run: Commit, lock: Lock) -> None:
    """Note that `run` writes objects to the output, which is in a store."""
    _write(workspace, msgspec.structs.replace(read_ledger(workspace), begun=run), lock)


def change(
    workspace: Workspace,
    commits: tuple[Commit, ...],
    lock: Lock,
    obsolete: Collection[str] = (),
    begun: Commit | None = None,
) -> None:
    """Change the output to the files of `commits`; `obsolete` and `begun` as in `Pending`.

    The caller has the lock, and has called `check` for what is new.
    """
    run_with = f"cd {shlex.quote(os.getcwd())} && {command_line(of_rank=False)}"
    pending = Pending(commits, tuple(obsolete), run_with=run_with, begun=begun)
    _write(workspace, msgspec.structs.replace(read_ledger(workspace), pending=pending), lock)
    _complete(workspace, lock)


def discard(workspace: Workspace, folder: Path) -> None:
    """Rename a folder in OUT.prepcli, so that it is gone at once; `recover` and the next change remove it."""
    replaced = workspace.ledger_file.with_name(REPLACED)
    with contextlib.suppress(FileNotFoundError):  # it was removed before an interruption
        replaced.mkdir(exist_ok=True)
        os.rename(folder, replaced / f"{folder.name}~{time.time_ns():x}")


def _complete(workspace: Workspace, lock: Lock) -> None:
    """Complete the change that is under way, if there is one; remove the drafts of processes that were killed.

    The change counts as under way until nothing is left to do: a removal that was interrupted is not taken for another.
    """
    ledger, root = workspace.ledger(), workspace.ledger_file.parent
    for pattern in (f".*{LEDGER_FILE}~*", f"{LOCK_FILE}~*", f".{SECTION_FILE}~*"):
        for draft in root.glob(pattern):
            draft.unlink(missing_ok=True)
    if ledger.pending is None:
        return
    before, after = ledger.commits, ledger.pending.commits
    leaving = [commit for commit in before if commit not in after]
    entering = [commit for commit in after if commit not in before]
    heirs = [workspace_of_commit(workspace, commit) for commit in entering]
    if not ledger.pending.is_cleared:
        if isinstance(workspace.out, StorePath):
            remove_objects(workspace, files_of(workspace, after), ledger.pending.obsolete)
        else:
            for commit in reversed(leaving):
                _clear(workspace, commit, heirs, lock)
            _remove(workspace, ledger.pending.obsolete, lock)
        for heir in heirs:
            _adopt(heir, lock)
        pending = msgspec.structs.replace(ledger.pending, obsolete=(), is_cleared=True)
        _write(workspace, Ledger(before, pending), lock)
    for commit in entering:
        _move(workspace, commit, lock)
    lock.check()
    update_section(workspace, before, after)
    _discard_runs(workspace, leaving, heirs, (*after, *([ledger.pending.begun] if ledger.pending.begun else [])))
    for heir in heirs:
        _sweep(heir)
    shutil.rmtree(root / REPLACED, ignore_errors=True)
    _write(workspace, Ledger(after, begun=ledger.pending.begun), lock)


def _discard_runs(
    workspace: Workspace, leaving: Collection[Commit], heirs: Collection[Workspace], after: Collection[Commit]
) -> None:
    """Remove the state of runs that have left, and of earlier runs of which heirs have kept units."""
    root, used = workspace.ledger_file.parent, {name for commit in after for name in (commit.folder, commit.part)}
    for commit in leaving:
        run = workspace_of_commit(workspace, commit)
        if not run.has_unit_folders:
            remove_state(run.root)
    names = [*(name for heir in heirs for name in _bases(heir))]
    names += [name for commit in leaving for name in (commit.folder, commit.part)]
    if isinstance(workspace.out, StorePath):  # a run that has begun, but was not committed
        names += [run.name for run in run_folders(root)]
    for name in names:
        if name and name not in used:
            discard(workspace, root / name)


def _write(workspace: Workspace, ledger: Ledger, lock: Lock) -> None:
    path = workspace.ledger_file
    draft = draft_of(path)
    write_json(draft, ledger)
    lock.check()
    os.replace(draft, path)
    flush_folders([path.parent])


def _bases(run: Workspace) -> list[str]:
    """The folders of the earlier runs whose units a run has kept, the earliest first."""
    names: list[str] = []
    plan = read_document(run.plan_file, StoredPlan)
    while plan is not None and plan.base:
        names.insert(0, plan.base)
        plan = read_document(run.run.with_name(plan.base) / "plan.json", StoredPlan)
    return names


def _clear(workspace: Workspace, commit: Commit, heirs: Collection[Workspace], lock: Lock) -> None:
    """Remove the files of a leaving run that are as it has written them, except for those of units that heirs keep."""
    run = workspace_of_commit(workspace, commit)
    merged = read_document(run.marker_file(FINISH_UNIT.id), Marker)

    def names() -> Iterator[str]:
        first = [CommittedUnit(run, merged)] if merged is not None else []  # by its files, readers find the others
        for unit in chain(first, units_of(workspace, commit)):
            if all(heir.unit_folder(unit.marker.unit) != unit.folder for heir in heirs):
                for name, file in reversed(unit.marker.files.items()):
                    if is_ours(workspace.folder / name, [file, *unit.marker.earlier.get(name, ())]):
                        yield name

    _remove(workspace, names(), lock)


def _remove(workspace: Workspace, names: Iterable[str], lock: Lock) -> None:
    """Remove files of OUT, and folders that become empty."""
    out, folders = workspace.folder, set()
    for name in names:
        lock.check()  # another process may already have put its file of the same name here
        (out / name).unlink(missing_ok=True)
        folders.add(os.path.dirname(name))
    every = {folder for name in folders for folder in (out / name, *(out / name).parents) if out in folder.parents}
    for folder in sorted(every, key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()
    flush_folders(folder for folder in {out, *every} if folder.exists())


def _adopt(run: Workspace, lock: Lock) -> None:
    """Move the units that an entering run has kept of earlier runs into its own folder."""
    plan = read_document(run.plan_file, StoredPlan)
    if plan is None or not plan.base:
        return
    changed = set()
    for unit in read_units(run, plan):
        kept, folder = run.unit_folder(unit.id), run.run / UNITS / unit.id
        if kept != folder:
            lock.check()
            os.rename(kept, folder)
            changed |= {kept.parent, folder.parent}
    flush_folders(changed)


def _move(workspace: Workspace, commit: Commit, lock: Lock) -> None:
    """Rename the files of an entering run into OUT, those by which readers find the others last.

    Objects have their names already; only the files for OUT.prepcli are renamed then.
    """
    out, folders = workspace.out, set()
    if isinstance(out, Path):
        out.mkdir(parents=True, exist_ok=True)
    for unit in units_of(workspace, commit, is_whole=True):
        lock.check()
        files, root = f"{unit.folder / FILES}/", f"{out}/"
        for name, file in unit.marker.files.items() if isinstance(out, Path) else ():
            if os.path.exists(files + name):  # else it is there already
                if os.path.lexists(root + name) and not is_ours(Path(root + name), [file]):
                    set_aside(workspace, Path(root + name), name)
                _rename(files + name, root + name)
                folders.add(os.path.dirname(name))
        if unit.marker.unit == FINISH_UNIT.id:
            for name in unit.marker.work_files:
                if name != SECTION_FILE and (unit.folder / name).exists():
                    _rename(unit.folder / name, unit.workspace.root / name)
            workspace.flush([unit.workspace.report_file])
    workspace.flush(workspace.folder / folder / "file" for folder in folders)


def _rename(source: str | Path, target: str | Path) -> None:
    with naming(target):
        try:
            os.replace(source, target)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.replace(source, target)


def check(workspace: Workspace, commit: Commit, ledger: Ledger) -> None:
    """Check, before a change begins, that it can be completed: all units of a run are there, and nothing is in the way.

    Raises:
        PrepcliError: a unit is not there.
        UsageError: a file of others has a name that a file of the run needs, or a folder is on another file system.
    """
    out = workspace.folder
    device = workspace_of_commit(workspace, commit).run.stat().st_dev
    in_the_way: dict[str, PublishedFile | None] = {}
    folders = {""}
    for unit in units_of(workspace, commit, is_whole=True):
        files, root = f"{unit.folder / FILES}/", f"{out}/"
        for name, file in unit.marker.files.items():
            if os.path.lexists(root + name) and os.path.exists(files + name):
                in_the_way[name] = file
            if (folder := os.path.dirname(name)) not in folders:
                folders.add(folder)
                above = next(path for path in (out / folder, *(out / folder).parents) if os.path.lexists(path))
                if not above.is_dir():
                    in_the_way[relative(above, out)] = None
                elif above.stat().st_dev != device:
                    raise UsageError(
                        f"{above} is on another file system than {workspace.root}, so {os.path.basename(name)} could "
                        f"not be moved there; give an output that is on one, and run {same_command()} again"
                    )
    for unit in (unit for known in ledger.commits for unit in units_of(workspace, known) if in_the_way):
        for name in unit.marker.files:
            if name in in_the_way and not _is_folder(out / name):
                del in_the_way[name]  # it is removed, or kept if it was changed
    strangers = [out / name for name, file in in_the_way.items() if file is None or not is_ours(out / name, [file])]
    if strangers:
        first = strangers[0]
        if _is_folder(first):
            raise UsageError(
                f"{first} is a directory, but a file belongs there; move it away, and run {same_command()} again"
            )
        raise stranger(first, workspace.root, len(strangers) - 1)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


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
    for folder in (run.run, run.progress, run.run / UNITS / FINISH_UNIT.id):
        for entry in children_of(folder):
            if entry.name.startswith("."):
                entry.unlink(missing_ok=True)
    for folder in (run.run / "crashes", *(unit / FILES for unit in children_of(run.run / UNITS)), run.tmp):
        shutil.rmtree(folder, ignore_errors=True)
