"""`make-manifest` from its options to its report."""

from dataclasses import replace

from prepcli.engine.file_output import FileWorkspace, real_file
from prepcli.engine.report import Report
from prepcli.engine.running import run_command
from prepcli.making.job import MakeJob
from prepcli.making.options import MakeManifest


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
