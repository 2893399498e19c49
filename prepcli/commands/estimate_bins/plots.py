"""Plots of bins."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prepcli.commands.estimate_bins.durations import BinsReport
from prepcli.commands.estimate_bins.tokens import TokenBinsReport
from prepcli.commands.estimate_bins.two_d import Bins2dReport
from prepcli.engine.publishing.plots import save_figure
from prepcli.interface.plotting import new_figure


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
    pairs = [bound for bound in report.bucket_duration_bins if isinstance(bound, tuple)]
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
