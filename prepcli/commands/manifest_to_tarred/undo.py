"""Go back one version: remove what the last addition to a set has written, and nothing else.

The folder of the version in OUT.prepcli, which knows these files, is renamed first: from then on no other command takes
it for a run. The metadata of the version is the first file that is removed, so that readers see the earlier version,
which is complete; the folder goes last. An interrupted removal can be repeated at any point.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prepcli.commands.manifest_to_tarred.concat import version_workspace
from prepcli.commands.manifest_to_tarred.job import TarredJob, number_of
from prepcli.commands.manifest_to_tarred.options import ManifestToTarred
from prepcli.commands.manifest_to_tarred.sections import MANIFESTS, TARS
from prepcli.engine.publishing.owned import Owned
from prepcli.engine.ranks.progress import is_alive, read_progress
from prepcli.engine.run.report import Report, format_bytes
from prepcli.engine.state.plan import UNITS_FOLDER, StoredPlan
from prepcli.engine.state.stored_units import read_units
from prepcli.engine.state.versions import undone_root, undone_roots, version_of, version_roots
from prepcli.engine.state.workspace import Workspace, flush_folders, read_document
from prepcli.errors import UsageError
from prepcli.formats.names import INDEX_SUFFIX
from prepcli.formats.tarred import ExistingSet, names_in_config, names_of_version, newest_version, read_existing
from prepcli.formats.train_ds import main_file, name_earlier
from prepcli.manifest.sources import expand_paths
from prepcli.processes.ranks import Rank
from prepcli.storage.addresses import join
from prepcli.storage.paths import real_path

_TRACES = ("plan.json", "clearing.json")
"""A version's folder with one of these belongs to a run that may have written to the set."""


@dataclass(frozen=True)
class _Addition:
    """The addition to be removed: its version, workspace and plan, its shards, and the set as it was before."""

    version: int
    workspace: Workspace
    stored: StoredPlan
    shards: range
    base: ExistingSet

    def files(self) -> Iterator[Path]:
        """Its files that are there, in the order in which they are removed."""
        for name in names_of_version(self.version, self.shards.start, len(self.shards)):
            path = self.workspace.out / name
            if os.path.lexists(path):
                yield path


def undo_concat(options: ManifestToTarred, rank: Rank) -> Report:
    """Remove the last addition to a set, finished or not.

    Raises:
        UsageError: the set has no version before this one; it is not known what the addition has written, a file of it
            has changed since, or a run is at work on it; or MANIFEST is given, and something else was added last.
    """
    if rank.world_size > 1:
        raise UsageError("--undo-concat is one step: run it once, without ranks")
    folder, manifest = options.concat_to or options.out, options.manifest
    if folder is None:  # the only argument is the set
        folder, manifest = Path(manifest or ""), None
    if not folder.is_dir():
        raise UsageError("--undo-concat needs the folder of a set: give --concat-to DIR")
    addition = _last_addition(folder)
    if manifest is not None:
        _check_manifest(expand_paths(manifest), addition, folder)
    _check_unchanged(addition)
    files = list(addition.files())
    size = format_bytes(sum(path.lstat().st_size for path in files))
    notes = [] if options.dry_run else _remove(addition, files)
    version, out = addition.version - 1, addition.workspace.out
    tars, manifests = names_in_config(version, addition.shards.start, addition.base.has_shard_manifests)
    outputs = {TARS: str(out / tars), MANIFESTS: str(out / manifests)}
    if main_file(addition.workspace).is_file():
        outputs["train_ds"] = str(main_file(addition.workspace))
    details: dict[str, Any] = {
        "removed": f"{len(files):,} files of version {addition.version} ({size})",
        "version": version,
    }
    return Report(
        command=TarredJob.command,
        status="dry_run" if options.dry_run else "done",
        out=str(folder),
        records_in=0,
        records_out=0,
        rejects=0,
        rejects_by_reason={},
        skipped=0,
        units=0,
        units_done=0,
        seconds=0.0,
        num_bytes=0,
        digest="",
        notes=notes,
        details=details | outputs,
        outputs=outputs,
    )


def _last_addition(folder: Path) -> _Addition:
    """The addition that is to be removed: one whose removal has begun, else the newest."""
    root = Workspace(folder).root
    begun = undone_roots(root) or [one for one in version_roots(root) if any((one / name).exists() for name in _TRACES)]
    newest = newest_version(folder)
    version = version_of(begun[-1]) if begun else 0
    if newest > version:
        raise UsageError(
            f"what --concat-to has written for version {newest} of {folder} is not known: "
            f"{version_workspace(folder, newest).plan_file} is not there"
        )
    if not begun:
        raise UsageError(f"{folder} has no earlier version: nothing was added to it with --concat-to")
    workspace = Workspace(folder, begun[-1])
    stored = read_document(workspace.plan_file, StoredPlan)
    if stored is None:
        raise UsageError(
            f"what --concat-to has written for version {version} of {folder} is not known: {workspace.plan_file} is "
            "not there, or damaged; run that command again, with --overwrite"
        )
    alive = next(filter(is_alive, read_progress(workspace)), None)
    if alive is not None:
        raise UsageError(
            f"rank {alive.rank} is at work on version {version} of {folder} (process {alive.pid} on {alive.host}); "
            "stop it first"
        )
    base = read_existing(folder, version - 1)
    numbers = [number_of(unit) for unit in read_units(workspace, stored)] if stored.num_units else [base.num_shards]
    return _Addition(version, workspace, stored, range(min(numbers), min(numbers) + stored.num_units), base)


def _check_manifest(manifests: Sequence[str], addition: _Addition, folder: Path) -> None:
    added = [join(addition.stored.run_in, file["path"]) for file in addition.stored.inputs]
    if {real_path(path) for path in manifests} != {real_path(path) for path in added}:
        raise UsageError(
            f"the last addition to {folder} (version {addition.version}) was {', '.join(added)}, not "
            f"{', '.join(manifests)}; leave MANIFEST out to remove that"
        )


def _check_unchanged(addition: _Addition) -> None:
    """Check that what is to be removed was written by the addition, and is as it was written; indexes may be newer.

    Raises:
        UsageError: with the file.
    """
    out, owned = addition.workspace.out, Owned(addition.workspace)
    for path in addition.files():
        name = path.relative_to(out).as_posix()
        if not name.endswith(INDEX_SUFFIX) and not owned.fits(path, name, path.lstat()):
            raise UsageError(
                f"{path} is not the file that --concat-to has written: move it away, and run the same command again"
            )


def _remove(addition: _Addition, files: Sequence[Path]) -> list[str]:
    """Remove the files, and what OUT.prepcli knows of them; returns notes."""
    root = undone_root(version_workspace(addition.workspace.out, addition.version).root)
    if addition.workspace.root != root:
        os.rename(addition.workspace.root, root)
        flush_folders([root.parent])
    workspace = Workspace(addition.workspace.out, root)
    notes = []
    if not name_earlier(workspace):
        notes.append(f"{main_file(workspace)} was changed, and may still name version {addition.version}")
    for path in files:
        path.unlink(missing_ok=True)
    flush_folders({path.parent for path in files})  # before that which knows them is gone
    for entry in list(root.iterdir()):
        if entry.name not in (workspace.plan_file.name, UNITS_FOLDER):  # they say to the next attempt what is left
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    # After one step nothing is left: half of it would take another attempt for the removal of an earlier version.
    gone = root.with_name(f"{root.name}~")
    shutil.rmtree(gone, ignore_errors=True)
    os.rename(root, gone)
    shutil.rmtree(gone)
    flush_folders([root.parent])
    return notes
