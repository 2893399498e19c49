"""`verify` from its options to its report."""

from prepcli.commands.verify.options import Verify
from prepcli.commands.verify.quick import verify_quickly
from prepcli.commands.verify.report import VerifyReport
from prepcli.commands.verify.verify import verify as check
from prepcli.engine.state.work_folder import note_unused
from prepcli.processes.workers import available_processors


def verify(options: Verify) -> VerifyReport:
    """Check a data set.

    Returns:
        What was checked. If nothing is wrong, `problems` is empty and `status` is `ok`.

    Raises:
        UsageError: the directory holds no data set.
        IncompleteError: a worker process was killed.

    Example:
        >>> import prepcli
        >>> report = prepcli.manifest_to_tarred("manifest.json", "verified", num_shards=2)
        >>> prepcli.verify("verified").problems
        []
    """
    note_unused(options.work_dir, options.out)
    if options.quick:
        return verify_quickly(options.out, options.work_dir)
    return check(options.out, options.num_workers or available_processors(), options.audio_base_dir, options.work_dir)
