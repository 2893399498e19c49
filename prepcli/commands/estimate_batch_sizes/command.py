"""`estimate-batch-sizes` from its options to its report."""

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from prepcli.commands.estimate_batch_sizes.buckets import given_bounds, shown
from prepcli.commands.estimate_batch_sizes.child import Child
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
    with closing(make_child(options, engine.rank, workspace)) as child:
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
    """Make a step of the largest bucket, one of the smallest, and one of each in mixed order, in one process.

    A larger batch after smaller ones is where memory in pieces shows itself. On a GPU the process is a new one, whose
    memory is empty.

    Raises:
        PrepcliError: a batch does not fit.
    """
    lists = list(zip(report.details["bucket_duration_bins"], report.details["bucket_batch_size"], strict=True))
    steps = [lists[-1], lists[0], *random.Random(0).sample(lists, len(lists))]
    if not options.is_estimate:
        child.close()
    before = "the first step"
    with stop_on_signals():
        for bound, size in steps:
            duration, tokens = bound if isinstance(bound, list) else (bound, None)
            outcome = child.step(duration, tokens, size).outcome
            text = f"{size} in bucket {str(bound).replace(' ', '')}"
            if outcome != "fits":
                raise PrepcliError(
                    f"--verify: a batch of {text} does not fit after {before} ({outcome.replace('_', ' ')}): give a "
                    "lower --memory-fraction"
                )
            before = f"one of {text}"
    report.details["verified_steps"] = len(steps)
