"""`manifest-to-tarred` from its options to its report."""

from typing import TYPE_CHECKING

from prepcli.commands.manifest_to_tarred.concat import concat_job, has_later_version, refuse_to_change
from prepcli.commands.manifest_to_tarred.job import TarredJob
from prepcli.commands.manifest_to_tarred.options import ManifestToTarred
from prepcli.commands.manifest_to_tarred.undo import undo_concat
from prepcli.engine.run.report import Report
from prepcli.engine.run.run_command import run_command
from prepcli.engine.state.versions import undone_roots, version_roots
from prepcli.engine.state.work_folder import note_unused
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError
from prepcli.formats.names import check_loadable
from prepcli.formats.train_ds import name_earlier, name_version
from prepcli.manifest.sources import expand_paths
from prepcli.storage.input_files import refuse_swapped

if TYPE_CHECKING:
    from prepcli.engine.run.share import RunOptions


def manifest_to_tarred(options: ManifestToTarred) -> Report:
    """Turn manifests into tar shards.

    Returns:
        The report of the run; `outputs` has `tarred_audio_filepaths` and `manifest_filepath` for a training config.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Example:
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
    manifests = expand_paths(options.manifest)
    out, concat_to = options.out, options.concat_to
    if concat_to is not None:
        if out is not None and out.absolute() != concat_to.absolute():
            raise UsageError(f"--concat-to {concat_to} adds to that directory; leave out OUT ({out})")
        check_loadable(concat_to)
        job, workspace = concat_job(manifests, concat_to, options, engine.num_workers, options.overwrite)
        note_unused(options.work_dir, concat_to)
        return _run_addition(job, workspace, options, engine)
    if out is None:
        raise UsageError("OUT is missing: give the directory for the data set")
    if options.allow_duplicates:
        raise UsageError("--allow-duplicates is for --concat-to: name the set to which the records are added")
    check_loadable(out)
    workspace = Workspace(out, work_dir=options.work_dir)
    if version_roots(workspace.root) or undone_roots(workspace.root):
        refuse_to_change(out, workspace, options.overwrite, options.retry_rejects)
    note_unused(options.work_dir, out)
    return run_command(TarredJob(manifests, options, num_workers=engine.num_workers), workspace, options, engine)


def _run_addition(job: TarredJob, workspace: Workspace, options: ManifestToTarred, engine: "RunOptions") -> Report:
    """Run a job that makes a version of a set; when all of it is there, `train_ds.yaml` of the set names it."""
    if has_later_version(workspace):
        refuse_to_change(workspace.out, workspace, options.overwrite, options.retry_rejects)
        return run_command(job, workspace, options, engine)
    if options.overwrite and not options.dry_run:
        name_earlier(workspace)
    return run_command(job, workspace, options, engine, after=lambda _: name_version(workspace))
