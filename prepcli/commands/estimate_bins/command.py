"""The commands that estimate bins, from their options to their reports."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prepcli.commands.estimate_bins.durations import BinsReport, bins_of_durations
from prepcli.commands.estimate_bins.options import EstimateBins, EstimateBins2d, EstimateTokenBins
from prepcli.commands.estimate_bins.text import BinsText
from prepcli.commands.estimate_bins.tokens import TokenBinsReport, bins_of_tokens
from prepcli.commands.estimate_bins.two_d import Bins2dReport, bins_in_two_dimensions
from prepcli.engine.publishing.plots import save_figure
from prepcli.errors import RejectReason, TooManyRejectsError, option
from prepcli.interface.calls import tell
from prepcli.interface.plotting import new_figure
from prepcli.jobs.inputs.data import data_of
from prepcli.manifest.inputs import resolve_input


def estimate_bins(options: EstimateBins) -> BinsReport:
    """Estimate duration bins.

    Returns:
        The bins in seconds, and the share of padding from 0 to 1; `durations` is a sorted array, seconds.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or fewer examples than buckets.
        IncompleteError: a worker process was killed.
        TooManyRejectsError: more lines cannot be used than `max_rejects` allows; its `report` has the bins.

    Examples:
        >>> import prepcli
        >>> report = prepcli.estimate_bins("manifest.json", num_buckets=5)
        >>> report.bucket_duration_bins
        [1.74, 3.26, 3.64, 5.06]
        >>> report.max_duration
        6.52
    """
    options.check(options.data, lambda: data_of(options.data, "leave out"))
    report = bins_of_durations(options)
    if options.plot is not None:
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
        UsageError: options that do not go together, inputs that cannot be read, or no example that can be used.
        IncompleteError: a worker process was killed.
        TooManyRejectsError: more lines cannot be used than `max_rejects` allows; its `report` has the bins.

    Examples:
        >>> import prepcli
        >>> report = prepcli.estimate_bins_2d("manifest.json", "tokenizer.model", num_buckets=3, sub_buckets=2)
        >>> report.num_examples, len(report.bucket_duration_bins)
        (48, 6)
    """
    options.check(options.data, lambda: data_of(options.data, "leave out"), options.tokenizer)
    report = bins_in_two_dimensions(options)
    if options.plot is not None:
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
        The bins in tokens, and the shares of padding from 0 to 1. With `sub_buckets` a bin is a pair of input and
        output tokens; else it is a number of tokens, of input and output together or, with
        `measure_total_length=False`, of input alone.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, no example that can be used, or, for
            bins without `sub_buckets`, fewer examples than buckets.
        IncompleteError: a worker process was killed.
        TooManyRejectsError: more lines cannot be used than `max_rejects` allows; its `report` has the bins.

    Examples:
        >>> import prepcli
        >>> report = prepcli.estimate_token_bins("texts.yaml", "tokenizer.model")
        >>> report.num_examples
        48
    """
    options.check(options.data, lambda: resolve_input(options.data, "read"), options.tokenizer)
    report = bins_of_tokens(options)
    if options.plot is not None:
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
    report: BinsText,
    config: Mapping[str, Any],
    limits: Mapping[str, float | None],
    options: EstimateBins | EstimateBins2d | EstimateTokenBins,
) -> None:
    """Write the config if one was asked for, and check the number of rejects.

    `limits`: for each key of `config` by which a data loader leaves out examples, the limit that the user gave, or
    None.

    Raises:
        TooManyRejectsError: more records were rejected than allowed; the error has the report.
    """
    budget = options.budget()
    if report.first_rejected and (options.quiet or options.as_json):  # else the text of the report has it
        tell(f"prepcli: warning: {report.num_rejected:,} lines cannot be used; the first is {report.first_rejected}")
    if options.write_config is not None:
        from prepcli.manifest.loader_config import write_loader_config

        for note in write_loader_config(options.write_config, config, limits, options.data):
            tell(f"prepcli: {note}")
    num_records = report.num_examples + report.num_discarded + report.num_rejected
    if budget.exceeded({RejectReason.BAD_FIELD.value: report.num_rejected}, num_records):
        raise TooManyRejectsError(
            f"{report.num_rejected:,} of {num_records:,} records cannot be used, more than {option('--max-rejects')} "
            f"allows ({budget})",
            report,
        )


def plot_bins(report: BinsReport, path: Path) -> None:
    """Draw the hours of audio by duration, with the bin edges as lines; the suffix selects the format.

    Raises `UsageError` without matplotlib, or if the file cannot be written.
    """
    figure = new_figure()
    axes = figure.add_subplot()
    _draw_lengths(axes, report.durations, report.durations / 3600, report.bucket_duration_bins)
    axes.set_xlabel("duration (s)")
    axes.set_ylabel("hours")
    axes.set_title(
        f"{report.num_examples:,} examples, {report.hours:,.1f} h, {report.num_buckets} buckets: "
        f"{report.padding:.1%} padding ({report.padding_without_buckets:.1%} without buckets)"
    )
    save_figure(figure, path)


def _draw_lengths(axes: Any, values: npt.NDArray[Any], weights: npt.NDArray[Any], edges: Sequence[Any]) -> None:
    """Draw a histogram of the lengths `values`, each counted with its weight, and the edges of the bins as lines."""
    axes.hist(values, bins=100, weights=weights, color="tab:blue")
    for number, edge in enumerate(edges):
        axes.axvline(edge, color="tab:red", linewidth=0.8, label=None if number else "bin edges")
    axes.set_xlim(left=0)
    if edges:
        axes.legend()


def plot_bins_2d(report: Bins2dReport, path: Path) -> None:
    """Draw the examples by duration and tokens, with the buckets; the suffix selects the format.

    Raises `UsageError` without matplotlib, or if the file cannot be written.
    """
    figure = new_figure()
    axes = figure.add_subplot()
    draw_nested(figure, axes, report.durations, report.tokens, report.bucket_duration_bins)
    axes.set_xlabel("duration (s)")
    axes.set_ylabel("tokens")
    axes.set_title(
        f"{report.num_examples:,} examples, {report.hours:,.1f} h, {len(report.bucket_duration_bins)} buckets: padding "
        f"{report.padding.seconds:.1%} of seconds, {report.padding.tokens:.1%} of tokens\n(without buckets "
        f"{report.padding_without_buckets.seconds:.1%} and {report.padding_without_buckets.tokens:.1%}); "
        f"{report.num_unplaced:,} examples in no bucket"
    )
    save_figure(figure, path)


def plot_token_bins(report: TokenBinsReport, path: Path) -> None:
    """Draw the bins and a histogram of the lengths; for 2-D bins a heat map of input and output tokens.

    The suffix of `path` selects the format.

    Raises `UsageError` without matplotlib, or if the file cannot be written.
    """
    figure = new_figure()
    axes = figure.add_subplot()
    pairs = [one for one in report.bucket_duration_bins if isinstance(one, tuple)]
    if pairs:
        draw_nested(figure, axes, report.inputs, report.outputs, pairs)
        axes.set_ylabel("output tokens")
        axes.set_xlabel("input tokens")
    else:
        _draw_lengths(axes, report.inputs, report.inputs, report.bucket_duration_bins)
        axes.set_xlabel("input and output tokens" if report.measure_total_length else "input tokens")
        axes.set_ylabel("tokens")
    axes.set_title(
        f"{report.num_examples:,} examples, {len(report.bucket_duration_bins)} bins: {report.padding[0]:.1%} padding "
        f"({report.padding_without_buckets[0]:.1%} without buckets)"
    )
    save_figure(figure, path)


def draw_nested(
    figure: Any, axes: Any, sizes: npt.NDArray[Any], tokens: npt.NDArray[Any], pairs: Sequence[tuple[float, int]]
) -> None:
    """Draw a heat map of the examples by size and tokens, and a box for each bucket, which is a pair of `pairs`.

    Colors stand for the logarithm of the number of examples. If a few examples are far away from the others, they are
    outside the plot, and the legend has their number.
    """
    from matplotlib.colors import LogNorm

    right, top = _end(sizes, pairs[-1][0]), _end(tokens, max(*(limit for _, limit in pairs), 1))
    num_beyond = int(((sizes > right) | (tokens > top)).sum())
    bins = (100, min(100, int(top) + 1))
    *_, image = axes.hist2d(sizes, tokens, bins=bins, range=((0, right), (0, top)), norm=LogNorm(), cmap="viridis")
    figure.colorbar(image, ax=axes, label="examples")
    edge = left = 0.0
    bottom = 0
    for number, (size, limit) in enumerate(pairs):
        if size != edge:
            left, edge, bottom = edge, size, 0
        axes.plot(
            [left, size, size, left, left],
            [bottom, bottom, limit, limit, bottom],
            color="tab:red",
            linewidth=0.8,
            label=None if number else "buckets",
        )
        bottom = limit
    axes.set_xlim(0, right * 1.01)
    axes.set_ylim(0, top * 1.02)
    axes.legend(loc="upper left", title=f"{num_beyond:,} examples outside the plot" if num_beyond else None)


def _end(values: npt.NDArray[Any], last_edge: float) -> float:
    """The end of an axis: the largest value, or `last_edge` if that is larger.

    If the largest value is more than twice the 99th percentile, the axis ends at 1.2 times the 99th percentile.
    """
    largest, ordinary = float(values.max()), float(np.percentile(values, 99))
    return max(largest, last_edge) if largest <= 2 * ordinary or not ordinary else 1.2 * ordinary
