"""`inspect` from its options to its report."""

from prepcli.commands.inspect.groups import csv_of
from prepcli.commands.inspect.inspect import base_of_runs
from prepcli.commands.inspect.inspect import inspect as look
from prepcli.commands.inspect.kinds import what_is
from prepcli.commands.inspect.options import Inspect
from prepcli.commands.inspect.outputs import CSV, check_output, write_output
from prepcli.commands.inspect.record import find_record
from prepcli.commands.inspect.report import Inspection
from prepcli.errors import UsageError


def inspect(options: Inspect) -> Inspection:
    """Find out what a file or directory is.

    Returns:
        What was found; durations in seconds, rates in Hz.

    Raises:
        UsageError: the path does not exist, is of an unknown kind, or is damaged.
        IncompleteError: a worker process was killed.

    Example:
        >>> import prepcli
        >>> found = prepcli.inspect("manifest.json")
        >>> found.kind, found.records, found.speakers
        ('manifest', 48, 8)
    """
    if options.record is not None:
        record = find_record(options.path, options.record, options.audio_base_dir)
        return Inspection(options.path, "record", f"record {options.record:,}", record=record)
    if options.html is not None:
        from prepcli.commands.inspect.page import check_page

        check_page(options.html)
    if options.csv is not None:
        check_output("--csv", options.csv, CSV)
    found = look(options.path, options)
    if options.html is not None:
        from prepcli.commands.inspect.clips import cut_clips
        from prepcli.commands.inspect.page import write_page

        examples = [*found.outliers, *found.sample] if options.num_audio_files else []
        clips = cut_clips(what_is(options.path), examples, options.audio_base_dir or base_of_runs(found))
        write_page(found, clips, options.html)
    if options.csv is not None:
        if not found.groups:
            raise UsageError(f"--csv: {options.path} has no records of manifests or cuts: it is {found.title}")
        write_output(options.csv, csv_of(found.groups))
    return found
