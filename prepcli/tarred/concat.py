"""Adding shards to a tarred set that is there: which version this run makes, and its own work directory."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from prepcli.engine.plan import StoredPlan, plan_digest
from prepcli.engine.workspace import Workspace, read_document
from prepcli.errors import UsageError
from prepcli.formats.tarred import ExistingSet, read_existing
from prepcli.tarred.job import TarredJob
from prepcli.tarred.options import TarredOptions


def concat_job(
    manifests: Sequence[str],
    folder: Path,
    options: TarredOptions,
    num_workers: int,
    dry_run: bool = False,
    overwrite: bool = False,
) -> tuple[TarredJob, Workspace]:
    """The job that adds `manifests` to the set in `folder`, and where its records lie.

    Each version of the set has a work directory `OUT.prepcli/version_<v>/`. If an earlier run, finished or not, was
    this very command, its version is continued; otherwise a new one begins.

    Raises:
        UsageError: there is no set, or an earlier concatenation of other data is unfinished.
    """
    if options.buckets_num > 1:
        raise UsageError("--concat-to adds to one data set: name a bucket's folder, and leave --buckets-num out")
    newest = read_existing(folder)
    pending = newest.version + 1
    for version in range(pending, 0, -1):
        workspace = _workspace(folder, version)
        plan = read_document(workspace.plan_file, StoredPlan)
        if plan is None:
            continue
        job = _job(manifests, folder, options, read_existing(folder, version - 1), workspace, num_workers, dry_run)
        digest = plan_digest(job.command, job.settings(), job.plan())
        if digest == plan.digest:
            return job, workspace
        if version == pending and not overwrite:
            raise UsageError(
                f"version {version} of {folder} is unfinished; continue it first with: {plan.run_with}, "
                "or give --overwrite to begin that version again"
            )
    workspace = _workspace(folder, pending)
    return _job(manifests, folder, options, newest, workspace, num_workers, dry_run), workspace


def _workspace(folder: Path, version: int) -> Workspace:
    return Workspace(folder, Workspace(folder).root / f"version_{version}")


def _job(
    manifests: Sequence[str],
    folder: Path,
    options: TarredOptions,
    base: ExistingSet,
    workspace: Workspace,
    num_workers: int,
    dry_run: bool,
) -> TarredJob:
    if options.num_shards is None and options.shard_size is None and options.shard_hours is None:
        if not base.num_samples_per_shard:
            raise UsageError("the set does not say how many records a shard has; give --num-shards or --shard-size")
        options = replace(options, shard_size=base.num_samples_per_shard)
    return TarredJob(manifests, folder, None if dry_run else workspace.root, options, base, num_workers)
