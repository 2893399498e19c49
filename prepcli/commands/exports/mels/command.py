"""`manifest-to-mels` from its options to its report."""

from prepcli.commands.exports.mels.job import MelsJob
from prepcli.commands.exports.mels.on_device import MelsOnDevice
from prepcli.commands.exports.mels.options import ManifestToMels
from prepcli.engine.run.report import Report
from prepcli.engine.run.run_command import run_command
from prepcli.engine.state.workspace import Workspace
from prepcli.manifest.sources import expand_paths
from prepcli.models.ranks import run_on_devices
from prepcli.storage.input_files import refuse_swapped


def manifest_to_mels(options: ManifestToMels) -> Report:
    """Turn manifests into mel-spectrograms and file lists.

    Returns:
        The report of the run; `outputs` has the file lists of each manifest.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or PyTorch is not installed.

    Example:
        >>> import prepcli
        >>> report = prepcli.manifest_to_mels("manifest.json", "mels", devices="cpu")
        >>> report.records_out
        48
        >>> report.outputs["manifest_mel_text_filelist"]
        '/.../mels/filelists/manifest_mel_text_filelist.txt'
    """
    refuse_swapped(options.manifest, options.out)
    engine = options.engine()
    workspace = Workspace(options.out)
    job = MelsJob(expand_paths(options.manifest), options, num_workers=engine.num_workers)
    if options.lists_only:
        return run_command(job, workspace, options, engine)
    return run_on_devices(
        lambda device: job if device == "cpu" else MelsOnDevice(job, device),
        options.devices,
        workspace,
        options,
        engine,
    )
