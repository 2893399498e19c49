"""`estimate-batch-sizes` from its options to its report."""

from pathlib import Path
from typing import Any

import msgspec

from prepcli.commands.estimate_batch_sizes.buckets import given_bounds, shown
from prepcli.commands.estimate_batch_sizes.checking import verify_sizes
from prepcli.commands.estimate_batch_sizes.children import Child
from prepcli.commands.estimate_batch_sizes.job import BatchSizesJob, make_child
from prepcli.commands.estimate_batch_sizes.options import DEFAULT_WORK, EstimateBatchSizes
from prepcli.commands.estimate_batch_sizes.report import BatchSizesReport
from prepcli.commands.estimate_batch_sizes.result import loader_options
from prepcli.engine.run.run_command import run_command
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import PrepcliError
from prepcli.interface.calls import tell
from prepcli.models.devices import check_packages
from prepcli.processes.signals import stop_on_signals


def estimate_batch_sizes(options: EstimateBatchSizes) -> BatchSizesReport:
    """Find the largest batch size of each bucket.

    Returns:
        The report of the run. `details` has `bucket_duration_bins` and `bucket_batch_size` for a training config, and
        in `buckets` what each number is based on; `is_estimate` says whether they are estimates.

    Raises:
        UsageError: options that do not go together, or a model that cannot be loaded.
        PrepcliError: not one example fits, the model cannot make a step, or `verify` has found a batch that fails.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.

    Example:
        >>> import prepcli
        >>> report = prepcli.estimate_batch_sizes(
        ...     model="tiny.nemo", buckets="[1.0,2.0]", device="cpu", gpu_memory="64MiB", work="sizes"
        ... )
        >>> report.details["is_estimate"], len(report.details["bucket_batch_size"])
        (True, 2)
    """
    options.check()
    check_packages()
    engine = options.engine()
    workspace = Workspace(options.work or Path(DEFAULT_WORK))
    with make_child(options, engine.rank, workspace) as child:
        ran = run_command(BatchSizesJob(options, child), workspace, options, engine)
        report = BatchSizesReport(**msgspec.structs.asdict(ran))
        if report.status == "dry_run":
            report.details |= _plan(options)
        if report.status in ("dry_run", "incomplete"):
            return report
        if not report.details["bucket_batch_size"]:
            raise PrepcliError(report.details["advice"][0] + "; give a GPU with more memory, or a smaller model")
        if options.verify:
            _verify(child, options, report)
    if options.plot is not None:
        from prepcli.commands.estimate_batch_sizes.plots import plot_memory

        plot_memory(report.details, options.plot)
    if options.write_config is not None:
        from prepcli.manifest.loader_config import write_loader_config

        unchanged = f"{options.write_config} has these options already; it was not changed"
        for note in write_loader_config(options.write_config, loader_options(report.details)) or [unchanged]:
            tell(f"prepcli: {note}")
    return report


def _plan(options: EstimateBatchSizes) -> dict[str, Any]:
    """The details of a dry run that say what would be tried."""
    bounds = given_bounds(options.buckets, options.buckets_from)
    steps = (
        "batches of 2 and 3 of each bucket, whose bytes are counted on the CPU"
        if options.is_estimate
        else f"on {options.device}, from a batch of {options.start_batch_size:,} in the longest bucket"
    )
    return {
        "model": options.model or f"{options.model_class} of {options.config}",
        "largest_bucket": shown(bounds[-1]),
        "smallest_bucket": shown(bounds[0]),
        "steps": steps,
    }


def _verify(child: Child, options: EstimateBatchSizes, report: BatchSizesReport) -> None:
    """Make steps with the final lists, on a GPU in a new process, whose memory is empty.

    Raises:
        PrepcliError: a batch does not fit.
    """
    bins = [(one[0], one[1]) if isinstance(one, list) else one for one in report.details["bucket_duration_bins"]]
    if not options.is_estimate:
        child.end()
    with stop_on_signals():
        checked = verify_sizes(bins, report.details["bucket_batch_size"], child)
    if checked.problem is not None:
        raise PrepcliError(f"--verify: {checked.problem}")
    report.details["verified_steps"] = checked.steps
