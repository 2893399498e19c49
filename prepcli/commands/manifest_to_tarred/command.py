"""Runs `manifest-to-tarred`: makes a set, adds shards to it (`--concat-to`), or removes the last addition."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from prepcli.commands.manifest_to_tarred.job import TarredJob
from prepcli.commands.manifest_to_tarred.options import ManifestToTarred, TarredOptions
from prepcli.commands.manifest_to_tarred.own_options import with_own_options
from prepcli.commands.manifest_to_tarred.sections import MANIFESTS, TARS
from prepcli.engine.commits import change, committing, discard, files_of, read_ledger, recover
from prepcli.engine.ledger import Commit
from prepcli.engine.publishing.recorded import is_ours
from prepcli.engine.ranks.progress import is_running, read_progress
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report, format_bytes
from prepcli.engine.run.run import run_job
from prepcli.engine.run.starting import revisions_of
from prepcli.engine.section import is_edited, section_path
from prepcli.engine.state.plan import PLAN_FORMAT, StoredPlan
from prepcli.engine.state.work_folder import note_unused, version_of, version_roots
from prepcli.engine.state.workspace import Workspace, flush_folders, read_document
from prepcli.errors import UsageError, option, same_command
from prepcli.formats.names import INDEX_SUFFIX, check_loadable
from prepcli.formats.tarred import BUCKET, ExistingSet, names_in_config, names_of_version, newest_version, read_existing
from prepcli.jobs.inputs.named import manifests_of
from prepcli.jobs.row_names import BY_ID
from prepcli.manifest.index import content_digest
from prepcli.processes.owner import DELETE_SECONDS
from prepcli.processes.ranks import Rank
from prepcli.storage.addresses import join
from prepcli.storage.input_files import refuse_swapped
from prepcli.storage.paths import AnyPath, absolute, real_path


def concat_job(
    manifests: Sequence[str], folder: Path, options: TarredOptions, num_workers: int
) -> tuple[TarredJob, Workspace]:
    """Return the job that adds `manifests` to the set in `folder`, and its workspace.

    The report and the rejects of each version are in `OUT.prepcli/version_<v>/`. If a finished run was the same
    command, its version is named; otherwise a new version begins, or one that was begun so is continued.

    Raises:
        UsageError: `folder` holds no set, an option contradicts the options of the set, or one of the manifests is in
            the set.
    """
    if options.buckets_num > 1:
        raise UsageError(
            f"{option('--concat-to')} adds to one data set: name a bucket's folder, and leave "
            f"{option('--buckets-num')} out"
        )
    recover(Workspace(folder))
    newest = read_existing(folder)
    for version in range(newest.version, 0, -1):
        workspace = version_workspace(folder, version)
        stored = read_document(workspace.plan_file, StoredPlan)
        if stored is None:
            continue
        base = read_existing(folder, version - 1)
        # Duplicates were checked when the run began.
        begun = TarredJob(manifests, replace(with_own_options(options, base), allow_duplicates=True), base, num_workers)
        if _is_plan_of(stored, begun):
            return begun, workspace
    options = with_own_options(options, newest)
    if not options.allow_duplicates:
        _refuse_known(manifests, folder, newest.version)
    return TarredJob(manifests, options, newest, num_workers), version_workspace(folder, newest.version + 1)


def _is_plan_of(stored: StoredPlan, job: TarredJob) -> bool:
    """Whether a stored plan is the plan of the job: both have the same command, settings and inputs.

    A plan follows from these, and comparing them is faster than planning again.
    """
    # The settings in `BY_ID` follow from the other settings and the inputs.
    settings = {name: value for name, value in stored.settings.items() if name not in BY_ID}
    if (stored.command, stored.format, settings) != (job.command, PLAN_FORMAT, job.own_settings()):
        return False
    known = [file["sha256"] for file in stored.inputs]
    return len(known) == len(job.manifests) and known == [content_digest(path) for path in job.manifests]


def refuse_to_change(folder: AnyPath, workspace: Workspace, overwrite: bool, retry_rejects: bool) -> None:
    """Refuse `overwrite` and `retry_rejects` for a version of the set in `folder`, because a later version exists.

    These options would remove or change shards that the manifest of the later version names.

    Raises:
        UsageError: one of the options is given.
    """
    if overwrite:
        raise UsageError(
            f"shards were added to {folder} with {option('--concat-to')}, and {option('--overwrite')} would remove "
            f"them; choose another directory, or move {folder} and {Workspace(folder).root} away first"
        )
    if retry_rejects:
        raise UsageError(
            f"shards were added to {folder} with {option('--concat-to')}, and {option('--retry-rejects')} would "
            f"change those before them; add the records of {workspace.rejects_file} with {option('--concat-to')}, or "
            "make the set again in another directory"
        )


def _refuse_known(manifests: Sequence[str], folder: Path, newest: int) -> None:
    """Refuse manifests from which the set in `folder` was made, before their records are read.

    `newest`: the newest version of the set. Equal records in other manifests are found later, in the plan.

    Raises:
        UsageError: all manifests of a version are given again, or a manifest of a version is given that has changed
            since; the message names the manifest.
    """
    names = {real_path(path): path for path in manifests}
    workspaces = [version_workspace(folder, version) for version in range(newest + 1)]
    if BUCKET.fullmatch(folder.name):
        workspaces.append(Workspace(Path(absolute(folder)).parent))
    for workspace in workspaces:
        stored = read_document(workspace.plan_file, StoredPlan)
        report = read_document(workspace.report_file, Report)
        if stored is None:
            continue
        same = []
        for file in stored.inputs:
            path = names.get(real_path(join(stored.run_in, file["path"])))
            digest = content_digest(path) if path is not None else ""
            if digest == file["sha256"]:
                same.append(path)
            elif digest:  # without a digest, reading the manifest reports the problem
                raise UsageError(
                    f"{folder} has the records that {path} had before; give a manifest with only the new ones, or "
                    f"{option('--allow-duplicates')} to have the others twice"
                )
        if same and len(same) == len(stored.inputs) and report is not None and report.records_out:
            raise UsageError(
                f"{same[0]} is in {folder} already; give {option('--allow-duplicates')} to have its records there twice"
            )


def version_workspace(folder: AnyPath, version: int) -> Workspace:
    """The workspace of the run that made a version of the set in `folder`; version 0 is the set without additions."""
    workspace = Workspace(folder)
    return Workspace(folder, workspace.root / f"version_{version}") if version else workspace


def _commits(options: ManifestToTarred, engine: RunOptions) -> Mapping[str, str]:
    """The commits that an interrupted run has read, by the address of each data set on the hub; empty for a new run."""
    if options.concat_to is None:
        assert options.out is not None
        return revisions_of(Workspace(options.out, work_dir=options.work_dir), engine)
    begun = version_roots(Workspace(options.concat_to).root)
    return revisions_of(version_workspace(options.concat_to, version_of(begun[-1])), engine) if begun else {}


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


def undo_concat(options: ManifestToTarred, rank: Rank) -> Report:
    """Remove the last addition to a set, finished or not.

    Raises:
        UsageError: the set has no earlier version; the files of the addition are unknown, one of them has changed, or a
            run is working on it; MANIFEST is given, but the last addition was of other data; no folder is given, or
            several ranks are running.
    """
    if rank.world_size > 1:
        raise UsageError(f"{option('--undo-concat')} is one step: run it once, without ranks")
    folder, manifest = options.concat_to or options.out, options.manifest
    if folder is None and manifest is not None:  # the only argument is the set
        folder, manifest = Path(manifest), None
    # If no folder is named, the current one is not taken: its last addition would be removed by mistake.
    if not isinstance(folder, Path) or not folder.is_dir():
        raise UsageError(f"{option('--undo-concat')} needs the folder of a set: give {option('--concat-to')} DIR")
    left = recover(Workspace(folder))
    commits = read_ledger(Workspace(folder)).commits
    undone = [version_of(Path(commit.part)) for commit in left if commit.part not in {one.part for one in commits}]
    if undone:  # by a call that was interrupted: this is the same call again
        base = read_existing(folder, undone[0] - 1)
        return _report_of_removal(folder, base, f"version {undone[0]}, as an interrupted call had begun")
    addition = _last_addition(folder, commits)
    if manifest is not None:
        _check_manifest(manifests_of(manifest, options), addition, folder)
    _check_unchanged(addition)
    names = addition.files()
    size = format_bytes(sum((folder / name).lstat().st_size for name in names))
    notes = [] if options.dry_run else _remove(addition, names)
    report = _report_of_removal(folder, addition.base, f"{len(names):,} files of version {addition.version} ({size})")
    report.notes += notes
    report.status = "dry_run" if options.dry_run else "done"
    return report


def _report_of_removal(folder: Path, base: ExistingSet, removed: str) -> Report:
    """The report of a removal; `base` is the set after it."""
    out, main = Path(absolute(folder)), section_path(Workspace(folder))
    tars, manifests = names_in_config(base.version, base.num_shards, base.has_shard_manifests)
    outputs = {TARS: str(out / tars), MANIFESTS: str(out / manifests)}
    if main.is_file():
        outputs["train_ds"] = str(main)
    details: dict[str, Any] = {"removed": removed, "version": base.version}
    return Report(TarredJob.command, "done", str(folder), details=details | outputs, outputs=outputs)


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


def manifest_to_tarred(options: ManifestToTarred) -> Report:
    """Turn manifests into tar shards.

    Returns:
        The report of the run. `outputs` has `tarred_audio_filepaths` and `manifest_filepath` for a training config.
        With static buckets, each bucket has its own outputs; their names begin with its folder: `bucket1/...`.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_tarred("manifest.json", "tarred", num_shards=4)
        >>> report.records_out, report.rejects_by_reason
        (48, {})
        >>> report.outputs["manifest_filepath"]
        '/.../tarred/sharded_manifests/manifest__OP_0..3_CL_.json'
    """
    engine = options.engine()
    if options.undo_concat:
        return undo_concat(options, engine.rank)
    if options.manifest is None:
        raise UsageError("missing argument 'MANIFEST' (see prepcli manifest-to-tarred --help)")
    refuse_swapped(options.manifest, options.out)
    out, concat_to = options.out, options.concat_to
    if out is None and concat_to is None:
        raise UsageError("OUT is missing: give the directory for the data set")
    manifests = manifests_of(options.manifest, options, partial(_commits, options, engine))
    if concat_to is not None:
        if out is not None and out.absolute() != concat_to.absolute():
            raise UsageError(f"{option('--concat-to', concat_to)} adds to that directory; leave out OUT ({out})")
        check_loadable(concat_to)
        job, workspace = concat_job(manifests, concat_to, options, engine.num_workers)
        note_unused(options.work_dir, concat_to)
        return _run_addition(job, workspace, options, engine)
    assert out is not None
    check_loadable(out)
    workspace = Workspace(out, work_dir=options.work_dir)
    if isinstance(out, Path) and any(commit.part for commit in read_ledger(workspace).commits):
        refuse_to_change(out, workspace, options.overwrite, options.retry_rejects)
    note_unused(options.work_dir, out)
    return run_job(TarredJob(manifests, options, num_workers=engine.num_workers), workspace, engine)


def _run_addition(job: TarredJob, workspace: Workspace, options: ManifestToTarred, engine: RunOptions) -> Report:
    """Run a job that makes a version of a set; when it is complete, `train_ds.yaml` of the set names this version.

    If a later version exists, the job only completes its own version: `train_ds.yaml` keeps naming the newest version.
    """
    later = f"version_{version_of(workspace.root) + 1}"
    if any(commit.part == later for commit in read_ledger(workspace).commits):
        refuse_to_change(workspace.out, workspace, options.overwrite, options.retry_rejects)
        return run_job(job, workspace, engine)
    return run_job(job, workspace, engine)
