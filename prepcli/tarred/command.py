"""`manifest-to-tarred` from its options to its report."""

from prepcli.engine.report import Report
from prepcli.engine.running import run_command
from prepcli.engine.status import version_roots
from prepcli.engine.work_folder import note_unused
from prepcli.engine.workspace import Workspace
from prepcli.errors import UsageError
from prepcli.formats.names import check_loadable
from prepcli.manifest.sources import expand_paths
from prepcli.storage.input_files import refuse_swapped
from prepcli.tarred.concat import concat_job, has_later_version, refuse_to_change
from prepcli.tarred.job import TarredJob
from prepcli.tarred.options import ManifestToTarred


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
        'tarred/sharded_manifests/manifest__OP_0..3_CL_.json'
    """
    engine = options.engine()
    refuse_swapped(options.manifest, options.out)
    manifests = expand_paths(options.manifest)
    out, concat_to = options.out, options.concat_to
    if concat_to is not None:
        if out is not None and out.absolute() != concat_to.absolute():
            raise UsageError(f"--concat-to {concat_to} adds to that directory; leave out OUT ({out})")
        check_loadable(concat_to)
        job, workspace, plan = concat_job(
            manifests, concat_to, options, engine.num_workers, options.dry_run, options.overwrite
        )
        if has_later_version(workspace):
            refuse_to_change(concat_to, workspace, options.overwrite, options.retry_rejects)
    elif out is None:
        raise UsageError("OUT is missing: give the directory for the data set")
    else:
        check_loadable(out)
        workspace = Workspace(out, work_dir=options.work_dir)
        if version_roots(workspace.root):
            refuse_to_change(out, workspace, options.overwrite, options.retry_rejects)
        job, plan = TarredJob(manifests, options, num_workers=engine.num_workers), None
    note_unused(options.work_dir, workspace.out)
    return run_command(job, workspace, options, engine, plan=plan)
