"""`make-manifest` from its options to its report."""

from dataclasses import replace

from prepcli.commands.make_manifest.job import MakeJob
from prepcli.commands.make_manifest.options import MakeManifest
from prepcli.engine.run.report import Report
from prepcli.engine.run.run_command import run_command
from prepcli.engine.state.file_output import FileWorkspace, real_file


def make_manifest(options: MakeManifest) -> Report:
    """Make a manifest of audio.

    Returns:
        The report of the run; `outputs["manifest"]` is the manifest.

    Raises:
        UsageError: options that do not go together, or a source that cannot be read.

    Example:
        >>> import prepcli
        >>> report = prepcli.make_manifest("s01", "own.json", set=["speaker=s01"])
        >>> report.records_out, report.outputs["manifest"]
        (6, '/.../own.json')
    """
    engine = options.engine()
    options = replace(options, out=real_file(options.out))
    return run_command(MakeJob(options, engine.num_workers), FileWorkspace(options.out), options, engine)
