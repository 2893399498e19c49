"""Adds shards to an existing tarred set: finds the version that this run makes, and its workspace."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from prepcli.commands.manifest_to_tarred.job import TarredJob
from prepcli.commands.manifest_to_tarred.options import TarredOptions
from prepcli.commands.manifest_to_tarred.own_options import with_own_options
from prepcli.engine.run.report import Report
from prepcli.engine.state.plan import PLAN_FORMAT, StoredPlan
from prepcli.engine.state.versions import undone_roots, version_of
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.errors import UsageError, option
from prepcli.formats.sets import BUCKET
from prepcli.formats.tarred import read_existing
from prepcli.manifest.index import content_digest
from prepcli.storage.addresses import join
from prepcli.storage.paths import AnyPath, absolute, real_path


def concat_job(
    manifests: Sequence[str], folder: Path, options: TarredOptions, num_workers: int, overwrite: bool = False
) -> tuple[TarredJob, Workspace]:
    """Return the job that adds `manifests` to the set in `folder`, and its workspace.

    Each version of the set has a work directory `OUT.prepcli/version_<v>/`. If an earlier run, finished or not, was the
    same command, its version is continued; otherwise a new version begins.

    Raises:
        UsageError: `folder` holds no set, an earlier concatenation of other data is unfinished, an option contradicts
            those of the set, or one of the manifests is in the set.
    """
    if options.buckets_num > 1:
        raise UsageError(
            f"{option('--concat-to')} adds to one data set: name a bucket's folder, and leave "
            f"{option('--buckets-num')} out"
        )
    refuse_while_undone(folder)
    newest = read_existing(folder)
    pending = newest.version + 1
    num_replaced = 0
    for version in range(pending, 0, -1):
        workspace = version_workspace(folder, version)
        stored = read_document(workspace.plan_file, StoredPlan)
        if stored is None:
            continue
        base = newest if version == pending else read_existing(folder, version - 1)
        # Duplicates were checked when the run began.
        begun = TarredJob(manifests, replace(with_own_options(options, base), allow_duplicates=True), base, num_workers)
        if _is_plan_of(stored, begun):
            return begun, workspace
        if version == pending:
            if not overwrite:
                raise UsageError(
                    f"version {version} of {folder} is unfinished; continue it first with: {stored.run_with}, or give "
                    f"{option('--overwrite')} to begin that version again, or {option('--undo-concat')} to remove "
                    "what it has written"
                )
            num_replaced = stored.num_units
    options = with_own_options(options, newest)
    if not options.allow_duplicates:
        _refuse_known(manifests, folder, newest.version)
    return TarredJob(manifests, options, newest, num_workers, num_replaced), version_workspace(folder, pending)


def _is_plan_of(stored: StoredPlan, job: TarredJob) -> bool:
    """Whether a plan is that of the job. A plan follows from settings and inputs, which are faster to compare."""
    if (stored.command, stored.format, stored.settings) != (job.command, PLAN_FORMAT, job.own_settings()):
        return False
    known = [file["sha256"] for file in stored.inputs]
    return len(known) == len(job.manifests) and known == [content_digest(path) for path in job.manifests]


def has_later_version(workspace: Workspace) -> bool:
    """Whether the version after that of `workspace` has begun."""
    later = workspace.root.with_name(f"version_{version_of(workspace.root) + 1}")
    return (later / workspace.plan_file.name).exists()


def refuse_while_undone(folder: Path) -> None:
    """Refuse to change a set from which the files of a version are being removed.

    Raises:
        UsageError: a removal has begun; the message has the command that completes it.
    """
    for root in undone_roots(Workspace(folder).root):
        raise UsageError(
            f"the removal of version {version_of(root)} of {folder} is not complete; complete it first: "
            f"{undo_command(folder)}"
        )


def undo_command(folder: Path) -> str:
    """The command that removes the newest version of a set, for a shell."""
    return shlex.join(["prepcli", "manifest-to-tarred", "--concat-to", str(folder), "--undo-concat"])


def refuse_to_change(folder: AnyPath, workspace: Workspace, overwrite: bool, retry_rejects: bool) -> None:
    """Refuse options that would change shards which the manifest of a later version of the set in `folder` names.

    Raises:
        UsageError: such an option was given.
    """
    if overwrite:
        raise UsageError(
            f"shards were added to {folder} with {option('--concat-to')}, and {option('--overwrite')} would remove "
            f"them; choose another directory, or remove {folder} and {Workspace(folder).root} first"
        )
    if retry_rejects:
        raise UsageError(
            f"shards were added to {folder} with {option('--concat-to')}, and {option('--retry-rejects')} would "
            f"change those before them; add the records of {workspace.rejects_file} with {option('--concat-to')}, or "
            "make the set again in another directory"
        )


def _refuse_known(manifests: Sequence[str], folder: Path, newest: int) -> None:
    """Refuse manifests that the set was made from, unchanged or changed since, before any other input is read.

    Equal records of other manifests are found later, in the plan.

    Raises:
        UsageError: a manifest was already added; the message names it.
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
    """The workspace of the run that made a version of the set in `folder`; 0 is the set itself."""
    workspace = Workspace(folder)
    return Workspace(folder, workspace.root / f"version_{version}") if version else workspace
