"""Add shards to an existing tarred set: the version that this run makes, and its own workspace."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from prepcli.engine.dry_run import temporary_workspace
from prepcli.engine.plan import StoredPlan, plan_digest
from prepcli.engine.workspace import Workspace, read_document
from prepcli.errors import UsageError
from prepcli.formats.tarred import ExistingSet, read_existing
from prepcli.interface.calls import tell
from prepcli.manifest.index import content_digest
from prepcli.storage.addresses import join
from prepcli.storage.paths import absolute, real_path
from prepcli.tarred.job import TarredJob, TarredPlan
from prepcli.tarred.options import TarredOptions


def concat_job(
    manifests: Sequence[str],
    folder: Path,
    options: TarredOptions,
    num_workers: int,
    dry_run: bool = False,
    overwrite: bool = False,
) -> tuple[TarredJob, Workspace, TarredPlan | None]:
    """Return the job that adds `manifests` to the set in `folder`, its workspace, and its plan if there is one.

    Each version of the set has a work directory `OUT.prepcli/version_<v>/`. If an earlier run, finished or not, was
    this very command, its version is continued; otherwise a new one begins.

    Raises:
        UsageError: `folder` holds no set, or an earlier concatenation of other data is unfinished.
    """
    if options.buckets_num > 1:
        raise UsageError("--concat-to adds to one data set: name a bucket's folder, and leave --buckets-num out")
    newest = read_existing(folder)
    pending = newest.version + 1
    for version in range(pending, 0, -1):
        workspace = _workspace(folder, version)
        stored = read_document(workspace.plan_file, StoredPlan)
        if stored is None:
            continue
        job = _job(manifests, options, read_existing(folder, version - 1), num_workers)
        with temporary_workspace(folder) as scratch:
            plan = job.plan(scratch if dry_run else workspace)
        if plan_digest(job.command, job.settings(plan), plan) == stored.digest:
            return job, workspace, plan
        if version == pending and not overwrite:
            raise UsageError(
                f"version {version} of {folder} is unfinished; continue it first with: {stored.run_with}, "
                "or give --overwrite to begin that version again"
            )
    _refuse_grown(manifests, folder, newest.version)
    return _job(manifests, options, newest, num_workers), _workspace(folder, pending), None


def has_later_version(workspace: Workspace) -> bool:
    """Whether the version after the one of `workspace` has begun."""
    number = int(workspace.root.name.rpartition("_")[2])
    return (workspace.root.with_name(f"version_{number + 1}") / workspace.plan_file.name).exists()


def refuse_to_change(folder: Path, workspace: Workspace, overwrite: bool, retry_rejects: bool) -> None:
    """Refuse options that change shards which a later version of the set in `folder` has in its manifest.

    Raises:
        UsageError: one of them was given.
    """
    if overwrite:
        raise UsageError(
            f"shards were added to {folder} with --concat-to, and --overwrite would remove them; choose another "
            f"directory, or remove {folder} and {Workspace(folder).root} first"
        )
    if retry_rejects:
        raise UsageError(
            f"shards were added to {folder} with --concat-to, and --retry-rejects would change those before them; add "
            f"the records of {workspace.rejects_file} with --concat-to, or make the set again in another directory"
        )


def _refuse_grown(manifests: Sequence[str], folder: Path, newest: int) -> None:
    """Refuse a manifest that is in the set, and has been written to since: its old records would be there twice.

    One that has not changed is added again, with a note: perhaps all its records were rejected before.

    Raises:
        UsageError: with the manifest.
    """
    names = {real_path(path): path for path in manifests}
    whole = Path(absolute(folder)).parent  # of a static bucket
    for root in (Workspace(whole), Workspace(folder), *(_workspace(folder, n) for n in range(1, newest + 1))):
        stored = read_document(root.plan_file, StoredPlan)
        if stored is None:
            continue
        for file in stored.inputs:
            path = names.get(real_path(join(stored.run_in, file["path"])))
            digest = content_digest(path) if path is not None else ""
            if digest and digest == file["sha256"]:
                tell(f"note: {path} was added to {folder} before, with other options; its records will be there twice")
            elif digest:  # else reading it says why there is none
                raise UsageError(
                    f"{folder} has the records that {path} had before; give a manifest with only the new ones "
                    "(a copy with another name, if you want all of them again)"
                )


def _workspace(folder: Path, version: int) -> Workspace:
    return Workspace(folder, Workspace(folder).root / f"version_{version}")


def _job(manifests: Sequence[str], options: TarredOptions, base: ExistingSet, num_workers: int) -> TarredJob:
    if options.num_shards is None and options.shard_size is None and options.shard_hours is None:
        if not base.num_samples_per_shard:
            raise UsageError("the set does not say how many records a shard has; give --num-shards or --shard-size")
        options = replace(options, shard_size=base.num_samples_per_shard)
    return TarredJob(manifests, options, base, num_workers)
