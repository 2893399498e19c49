"""`inspect` from its options to its report."""

from prepcli.errors import UsageError
from prepcli.inspection.inspect import inspect as look
from prepcli.inspection.options import Inspect
from prepcli.inspection.record import find_record
from prepcli.inspection.report import Inspection


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
        if options.html is not None:
            raise UsageError("--record prints one record: leave --html out")
        record = find_record(options.path, options.record, options.audio_base_dir)
        return Inspection(options.path, "record", f"record {options.record:,}", record=record)
    if options.html is not None:
        from prepcli.inspection.page import check_page

        check_page(options.html)
    found = look(options.path, options)
    if options.html is not None:
        from prepcli.inspection.page import write_page

        write_page(found, options.html)
    return found
