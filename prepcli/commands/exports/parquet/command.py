"""`manifest-to-parquet` from its options to its report."""

from prepcli.commands.exports.parquet.job import ParquetJob
from prepcli.commands.exports.parquet.options import ManifestToParquet
from prepcli.engine.run.report import Report
from prepcli.engine.run.run_command import run_command
from prepcli.engine.state.work_folder import note_unused
from prepcli.engine.state.workspace import Workspace
from prepcli.formats.parquet import check_installed
from prepcli.manifest.sources import expand_paths
from prepcli.storage.input_files import refuse_swapped


def manifest_to_parquet(options: ManifestToParquet) -> Report:
    """Turn manifests into Parquet files.

    Returns:
        The report of the run; `outputs["manifest_filepath"]` is for `type: parquet` in an input_cfg of NeMo.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or pyarrow is not installed.

    Example:
        >>> import prepcli
        >>> report = prepcli.manifest_to_parquet("manifest.json", "parquet", shard_size=16)
        >>> report.records_out
        48
        >>> report.outputs["manifest_filepath"]
        '/.../parquet/data-_OP_000000..000002_CL_.parquet'
    """
    check_installed()
    refuse_swapped(options.manifest, options.out)
    engine = options.engine()
    job = ParquetJob(expand_paths(options.manifest), options, num_workers=engine.num_workers)
    note_unused(options.work_dir, options.out)
    return run_command(job, Workspace(options.out, work_dir=options.work_dir), options, engine)
