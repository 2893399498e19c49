"""The picture of a duration histogram with its bin edges."""

from pathlib import Path

from prepcli.bins.durations import BinsReport
from prepcli.plotting import new_figure, save_figure


def plot_bins(report: BinsReport, path: Path) -> None:
    """Draw how many hours there are of each duration, with the bin edges as lines; the format is the suffix's.

    Raises `UsageError` without matplotlib, and when the file cannot be written.
    """
    figure = new_figure()
    axes = figure.add_subplot()
    axes.hist(report.durations, bins=100, weights=report.durations / 3600, color="tab:blue")
    for number, edge in enumerate(report.bucket_duration_bins):
        axes.axvline(edge, color="tab:red", linewidth=0.8, label=None if number else "bin edges")
    axes.set_xlabel("duration (s)")
    axes.set_ylabel("hours")
    axes.set_title(
        f"{report.num_examples:,} examples, {report.hours:,.1f} h, {report.num_buckets} buckets: "
        f"{report.padding:.1%} padding ({report.padding_without_buckets:.1%} without buckets)"
    )
    axes.set_xlim(left=0)
    if report.bucket_duration_bins:
        axes.legend()
    save_figure(figure, path)
