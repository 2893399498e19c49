"""`manifest-to-wenet` from its options to its report."""

from prepcli.commands.exports.wenet.job import WenetJob
from prepcli.commands.exports.wenet.options import ManifestToWenet
from prepcli.engine.run.report import Report
from prepcli.engine.run.run_command import run_command
from prepcli.engine.state.work_folder import note_unused
from prepcli.engine.state.workspace import Workspace
from prepcli.manifest.sources import expand_paths
from prepcli.storage.input_files import refuse_swapped


def manifest_to_wenet(options: ManifestToWenet) -> Report:
    """Turn manifests into shards for WeNet, or into a data list.

    Returns:
        The report of the run; `outputs["data_list"]` is the list to train with.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Example:
        >>> import prepcli
        >>> report = prepcli.manifest_to_wenet("manifest.json", "wenet", shard_size=16)
        >>> report.records_out
        48
        >>> report.outputs["data_list"]
        '/.../wenet/shards.list'
    """
    refuse_swapped(options.manifest, options.out)
    engine = options.engine()
    job = WenetJob(expand_paths(options.manifest), options, options.out, num_workers=engine.num_workers)
    note_unused(options.work_dir, options.out)
    return run_command(job, Workspace(options.out, work_dir=options.work_dir), options, engine)
