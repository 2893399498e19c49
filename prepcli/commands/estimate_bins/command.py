"""The commands that estimate bins, from their options to their reports."""

from collections.abc import Mapping
from typing import Any, Protocol

from prepcli.commands.estimate_bins.durations import BinsReport
from prepcli.commands.estimate_bins.durations import estimate_bins as bins_of_durations
from prepcli.commands.estimate_bins.options import EstimateBins, EstimateBins2d, EstimateTokenBins
from prepcli.commands.estimate_bins.tokens import TokenBinsReport
from prepcli.commands.estimate_bins.tokens import estimate_token_bins as bins_of_tokens
from prepcli.commands.estimate_bins.two_d import Bins2dReport
from prepcli.commands.estimate_bins.two_d import estimate_bins_2d as bins_in_two_dimensions
from prepcli.errors import RejectReason, TooManyRejectsError
from prepcli.interface.calls import tell
from prepcli.manifest.inputs import resolve_input


class Counted(Protocol):
    """A report that counts the examples of an input."""

    num_examples: int
    num_discarded: int
    num_skipped: int
    num_rejected: int
    first_rejected: str | None


def estimate_bins(options: EstimateBins) -> BinsReport:
    """Estimate duration bins.

    Returns:
        The bins in seconds, and the share of padding from 0 to 1; `durations` is a sorted array, seconds.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or fewer examples than buckets.
        IncompleteError: a worker process was killed.
        TooManyRejectsError: more lines cannot be used than `max_rejects` allows; its `report` has the bins.

    Example:
        >>> import prepcli
        >>> report = prepcli.estimate_bins("manifest.json", num_buckets=5)
        >>> report.bucket_duration_bins
        [1.74, 3.26, 3.64, 5.06]
        >>> report.max_duration
        6.52
    """
    options.check(options.data, lambda: resolve_input(options.data, "leave out"))
    report = bins_of_durations(options.data, options)
    if options.plot is not None:
        from prepcli.commands.estimate_bins.plots import plot_bins

        plot_bins(report, options.plot)
    config: dict[str, Any] = {
        "use_bucketing": True,
        "num_buckets": report.num_buckets,
        "bucket_duration_bins": report.bucket_duration_bins,
        "max_duration": report.max_duration if options.max_duration is None else options.max_duration,
    }
    if options.min_duration is not None:
        config["min_duration"] = options.min_duration
    _conclude(report, config, {"max_duration": options.max_duration}, options)
    return report


def estimate_bins_2d(options: EstimateBins2d) -> Bins2dReport:
    """Estimate bins by duration and number of tokens.

    Returns:
        The bins as pairs of seconds and tokens, `max_tps` in tokens per second, and the shares of padding from 0 to 1.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or fewer examples than buckets.
        IncompleteError: a worker process was killed.
        TooManyRejectsError: more lines cannot be used than `max_rejects` allows; its `report` has the bins.

    Example:
        >>> import prepcli
        >>> report = prepcli.estimate_bins_2d("manifest.json", "tokenizer.model", num_buckets=3, sub_buckets=2)
        >>> report.num_examples, len(report.bucket_duration_bins)
        (48, 6)
    """
    options.check(options.data, lambda: resolve_input(options.data, "leave out"), options.tokenizer)
    report = bins_in_two_dimensions(options.data, options.spec(), options)
    if options.plot is not None:
        from prepcli.commands.estimate_bins.plots import plot_bins_2d

        plot_bins_2d(report, options.plot)
    config: dict[str, Any] = {
        "use_bucketing": True,
        "num_buckets": report.num_buckets,
        "bucket_duration_bins": [list(pair) for pair in report.bucket_duration_bins],
        "max_duration": report.max_duration if options.max_duration is None else options.max_duration,
        "max_tps": report.max_tps,
    }
    if options.min_duration is not None:
        config["min_duration"] = options.min_duration
    _conclude(report, config, {"max_duration": options.max_duration, "max_tps": None}, options)
    return report


def estimate_token_bins(options: EstimateTokenBins) -> TokenBinsReport:
    """Estimate bins by number of tokens.

    Returns:
        The bins in tokens of input and output together, or with `sub_buckets` as pairs of input and output tokens, and
        the shares of padding.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or fewer examples than buckets.
        IncompleteError: a worker process was killed.
        TooManyRejectsError: more lines cannot be used than `max_rejects` allows; its `report` has the bins.

    Example:
        >>> import prepcli
        >>> report = prepcli.estimate_token_bins("texts.yaml", "tokenizer.model")
        >>> report.num_examples
        48
    """
    options.check(options.data, lambda: resolve_input(options.data, "read"), options.tokenizer)
    report = bins_of_tokens(options.data, options.spec(), options)
    if options.plot is not None:
        from prepcli.commands.estimate_bins.plots import plot_token_bins

        plot_token_bins(report, options.plot)
    bins = [list(one) if isinstance(one, tuple) else one for one in report.bucket_duration_bins]
    config: dict[str, Any] = {
        "use_multimodal_sampling": True,
        "use_bucketing": True,
        "num_buckets": report.num_buckets,
        "bucket_duration_bins": bins,
        "max_tokens": report.max_tokens,
        "max_tpt": report.max_tpt,
        "measure_total_length": report.measure_total_length,
        "token_equivalent_duration": report.token_equivalent_duration,
    }
    if options.min_tokens is not None:
        config["min_tokens"] = int(options.min_tokens)
    if report.prompt_format is not None:
        config["prompt_format"] = report.prompt_format
    _conclude(report, config, {"max_tokens": options.max_tokens, "max_tpt": options.max_tpt}, options)
    return report


def _conclude(
    report: Counted,
    config: Mapping[str, Any],
    limits: Mapping[str, float | None],
    options: EstimateBins | EstimateBins2d | EstimateTokenBins,
) -> None:
    """Write the config, and check the number of rejects; `limits`: see `write_loader_config`.

    Raises:
        TooManyRejectsError: with the report.
    """
    budget = options.budget()
    if report.first_rejected:
        tell(f"prepcli: warning: {report.num_rejected:,} lines cannot be used; the first is {report.first_rejected}")
    if options.write_config is not None:
        from prepcli.manifest.loader_config import write_loader_config

        unchanged = f"{options.write_config} has these options already; it was not changed"
        for note in write_loader_config(options.write_config, config, limits, options.data) or [unchanged]:
            tell(f"prepcli: {note}")
    num_records = report.num_examples + report.num_discarded + report.num_rejected
    if budget.exceeded({RejectReason.BAD_FIELD.value: report.num_rejected}, num_records):
        raise TooManyRejectsError(
            f"{report.num_rejected:,} of {num_records:,} records cannot be used, more than --max-rejects "
            f"allows ({budget})",
            report,
        )
