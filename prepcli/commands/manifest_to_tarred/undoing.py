"""Removes the last addition to a tarred set (`--undo-concat`)."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from prepcli.commands.manifest_to_tarred.adding import version_workspace
from prepcli.commands.manifest_to_tarred.sections import MANIFESTS, TARS
from prepcli.engine.commits import change, committing, discard, files_of, read_ledger, recover
from prepcli.engine.ledger import Commit, part_of
from prepcli.engine.publishing.recorded import is_ours
from prepcli.engine.ranks.progress import is_running, read_progress
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report, format_bytes
from prepcli.engine.section import is_edited, section_path
from prepcli.engine.state.plan import StoredPlan
from prepcli.engine.state.work_folder import version_of
from prepcli.engine.state.workspace import Workspace, flush_folders, read_document
from prepcli.errors import UsageError, option, same_command
from prepcli.formats.names import INDEX_SUFFIX
from prepcli.formats.tarred import ExistingSet, names_in_config, names_of_version, newest_version, read_existing
from prepcli.interface.calls import current_call
from prepcli.interface.printing import number_of
from prepcli.jobs.inputs.named import manifests_of
from prepcli.processes.owner import DELETE_SECONDS
from prepcli.storage.addresses import join
from prepcli.storage.paths import AnyPath, absolute, real_path


class _Addition(NamedTuple):
    """An addition to a set: its version, its workspace and plan, and the set before it.

    `commit` is None for an addition that has not finished: none of its files is in the set.
    """

    version: int
    workspace: Workspace
    stored: StoredPlan
    base: ExistingSet
    commit: Commit | None

    def files(self) -> list[str]:
        """The names of its files that are in the set, and of their indexes, in the order in which they are removed."""
        if self.commit is None:
            return []
        names = names_of_version(self.version, self.base.num_shards, self.stored.num_units)
        return [name for name in names if os.path.lexists(self.workspace.folder / name)]


def undo_concat(manifest: str | None, folder: AnyPath | None, engine: RunOptions) -> Report:
    """Remove the last addition to the set in `folder`, finished or not.

    Raises:
        UsageError: the set has no earlier version; the files of the addition are unknown, one of them has changed, or a
            run is working on it; MANIFEST is given, but the last addition was of other data; no folder is given, or
            several ranks are running.
    """
    if engine.rank.world_size > 1:
        raise UsageError(f"{option('--undo-concat')} is one step: run it once, without ranks")
    if folder is None and manifest is not None:  # the only argument is the set
        folder, manifest = Path(manifest), None
    # If no folder is named, the current one is not taken: its last addition would be removed by mistake.
    if not isinstance(folder, Path) or not folder.is_dir():
        raise UsageError(f"{option('--undo-concat')} needs the folder of a set: give {option('--concat-to')} DIR")
    left = recover(Workspace(folder))
    commits = read_ledger(Workspace(folder)).commits
    known = {commit.part for commit in commits}
    undone = [version_of(Path(commit.part)) for commit in left if commit.part not in known]
    if undone:  # by a call that was interrupted: this is the same call again
        base = read_existing(folder, undone[0] - 1)
        return _report_of_removal(folder, base, f"version {undone[0]}, as an interrupted call had begun")
    addition = _last_addition(folder, commits)
    if manifest is not None:
        _check_manifest(manifests_of(manifest, current_call().options), addition, folder)
    _check_unchanged(addition)
    names = addition.files()
    size = format_bytes(sum((folder / name).lstat().st_size for name in names))
    notes = [] if engine.dry_run else _remove(addition, names)
    report = _report_of_removal(
        folder, addition.base, f"{number_of(len(names), 'file')} of version {addition.version} ({size})"
    )
    report.notes += notes
    report.status = "dry_run" if engine.dry_run else "done"
    return report


def _report_of_removal(folder: Path, base: ExistingSet, removed: str) -> Report:
    """The report of a removal; `base` is the set after it."""
    out, main = Path(absolute(folder)), section_path(Workspace(folder))
    tars, manifests = names_in_config(base.version, base.num_shards, base.has_shard_manifests)
    outputs = {TARS: str(out / tars), MANIFESTS: str(out / manifests)}
    if main.is_file():
        outputs["train_ds"] = str(main)
    details: dict[str, Any] = {"removed": removed, "version": base.version}
    return Report("manifest-to-tarred", "done", str(folder), details=details | outputs, outputs=outputs)


def _last_addition(folder: Path, commits: Sequence[Commit]) -> _Addition:
    """The addition to remove: the newest that has begun and not finished, else the newest of the `commits`."""
    commit = commits[-1] if commits and commits[-1].part else None
    version = version_of(Path(commit.part)) if commit is not None else 0
    newest = max(version, newest_version(folder))
    begun = version_workspace(folder, newest + 1)
    if begun.unfinished_runs():
        version, workspace, commit = newest + 1, begun, None
    elif newest == 0:
        raise UsageError(f"{folder} has no earlier version: nothing was added to it with {option('--concat-to')}")
    else:
        workspace = version_workspace(folder, newest)
    stored = read_document(workspace.plan_file, StoredPlan)
    if stored is None or version < newest:
        raise UsageError(
            f"what {option('--concat-to')} has written for version {newest} of {folder} is not known: "
            f"{workspace.plan_file} is not there"
        )
    ranks = read_progress(workspace) if commit is None else []
    alive = next((rank for rank in ranks if is_running(workspace, rank, DELETE_SECONDS)), None)
    if alive is not None:
        raise UsageError(
            f"rank {alive.rank} is at work on version {version} of {folder} (process {alive.pid} on {alive.host}); "
            "stop it first"
        )
    return _Addition(version, workspace, stored, read_existing(folder, version - 1), commit)


def _check_manifest(manifests: Sequence[str], addition: _Addition, folder: AnyPath) -> None:
    added = [join(addition.stored.run_in, file["path"]) for file in addition.stored.inputs]
    if {real_path(path) for path in manifests} != {real_path(path) for path in added}:
        raise UsageError(
            f"the last addition to {folder} (version {addition.version}) was {', '.join(added)}, not "
            f"{', '.join(manifests)}; leave MANIFEST out to remove that"
        )


def _check_unchanged(addition: _Addition) -> None:
    """Check that the addition wrote the files to remove, and that they are unchanged; indexes are not checked.

    Raises:
        UsageError: a file is not as the addition wrote it; the message names the file.
    """
    if addition.commit is None:
        return
    records = files_of(addition.workspace, [addition.commit])
    for name in addition.files():
        path = addition.workspace.folder / name
        if not name.endswith(INDEX_SUFFIX) and not is_ours(path, records.get(name, ())):
            raise UsageError(
                f"{path} is not the file that {option('--concat-to')} has written: move it away, and run "
                f"{same_command()} again"
            )


def _remove(addition: _Addition, names: Sequence[str]) -> list[str]:
    """Remove the files of the addition, and its state in OUT.prepcli; returns notes."""
    workspace = addition.workspace
    notes = []
    if addition.commit is None:
        with committing(workspace):
            if read_ledger(workspace).of_part(part_of(workspace.root)) is not None:
                raise UsageError(
                    f"version {addition.version} was finished meanwhile; run {same_command()} again to remove it"
                )
            for run in workspace.unfinished_runs():
                shutil.rmtree(run / "units", ignore_errors=True)
                discard(workspace, run)  # at once: without its plan, it would not be known as the addition to remove
            discard(workspace, workspace.root)
            flush_folders([workspace.root.parent])
        recover(workspace)
    else:
        with committing(workspace) as lock:
            commits = read_ledger(workspace).commits
            if commits[-1:] == (addition.commit,):  # else another call has removed it
                if is_edited(workspace, addition.commit):
                    notes.append(
                        f"{section_path(workspace)} was changed, and may still name version {addition.version}"
                    )
                change(workspace, commits[:-1], lock, names)
    return notes
