"""`manifest-to-shar` from its options to its report."""

from prepcli.commands.manifest_to_shar.job import SharJob
from prepcli.commands.manifest_to_shar.options import ManifestToShar
from prepcli.engine.run.report import Report
from prepcli.engine.run.run_command import run_command
from prepcli.engine.state.work_folder import note_unused
from prepcli.engine.state.workspace import Workspace
from prepcli.formats.names import check_loadable
from prepcli.manifest.sources import expand_paths
from prepcli.storage.input_files import refuse_swapped


def manifest_to_shar(options: ManifestToShar) -> Report:
    """Turn manifests into Lhotse Shar shards.

    Returns:
        The report of the run; `outputs` has `cuts`, `target_audio` and, if there is any, `context_audio`.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Example:
        >>> import prepcli
        >>> report = prepcli.manifest_to_shar("manifest_with_context.json", "shar", shard_size=16)
        >>> report.records_out
        48
        >>> report.outputs["cuts"]
        '/.../shar/cuts/cuts._OP_000000..000002_CL_.jsonl.gz'
    """
    engine = options.engine()
    refuse_swapped(options.manifest, options.out)
    check_loadable(options.out)
    job = SharJob(expand_paths(options.manifest), options, num_workers=engine.num_workers)
    note_unused(options.work_dir, options.out)
    return run_command(job, Workspace(options.out, work_dir=options.work_dir), options, engine)
