"""`fix-durations` from its options to its report."""

from dataclasses import replace

from prepcli.commands.fix_durations.job import DurationsJob
from prepcli.commands.fix_durations.options import FixDurations
from prepcli.engine.run.report import Report
from prepcli.engine.run.run_command import run_command
from prepcli.engine.state.file_output import FileWorkspace, real_file
from prepcli.manifest.sources import expand_paths


def fix_durations(options: FixDurations) -> Report:
    """Measure the durations of a manifest again.

    Returns:
        The report of the run; `outputs["manifest"]` is the manifest, `details["more_than_20_ms"]` the number of
        durations that differed by more.

    Raises:
        UsageError: options that do not go together, or a manifest that cannot be read.

    Example:
        >>> import prepcli
        >>> report = prepcli.fix_durations("manifest.json", "fixed.json")
        >>> report.records_out, report.details["more_than_20_ms"]
        (48, 0)
    """
    engine = options.engine()
    options = replace(options, out=real_file(options.out))
    job = DurationsJob(expand_paths(options.manifest), options)
    return run_command(job, FileWorkspace(options.out), options, engine)
