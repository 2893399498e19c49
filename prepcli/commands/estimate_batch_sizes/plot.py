"""The plot of memory over batch size."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prepcli.commands.estimate_batch_sizes.search import peak_of
from prepcli.engine.publishing.plots import save_figure
from prepcli.interface.plotting import new_figure

MAX_LABELS = 12
NUM_POINTS = 60


def plot_memory(result: Mapping[str, Any], path: Path) -> None:
    """Draw a plot with the memory of training steps on the y axis and the batch size on the x axis.

    Each bucket has a curve, dots for measured steps, and crosses for sizes that failed. A line shows the memory limit.
    `result` is what `make_result` returns. The suffix of `path` selects the format.
    Raises `UsageError` without matplotlib, or if the file cannot be written.
    """
    from matplotlib import colormaps
    from matplotlib.ticker import FuncFormatter

    figure = new_figure()
    axes = figure.add_subplot()
    rows = result["buckets"]
    unit, divisor = ("GiB", 2**30) if result["limit"] >= 2**30 else ("MiB", 2**20)
    colors = colormaps["viridis"]
    labelled = set(range(0, len(rows), max(1, -(-len(rows) // MAX_LABELS)))) | {len(rows) - 1}
    for number, row in enumerate(rows):
        color = colors(number / max(1, len(rows) - 1))
        name = f"{row['duration']:g} s" + (f", {row['tokens']} tokens" if row["tokens"] is not None else "")
        sizes, peaks = _curve(row)
        axes.plot(
            sizes,
            [peak / divisor for peak in peaks],
            color=color,
            linewidth=1,
            linestyle="--" if row["is_estimate"] else "-",
            alpha=0.7,
            label=name if number in labelled else None,
        )
        measured = [(size, peak / divisor) for size, peak in row["measured"] if peak]
        axes.plot([size for size, _ in measured], [peak for _, peak in measured], "o", color=color, markersize=3)
        for size, _ in row.get("failed", ()):
            axes.plot(size, result["limit"] / divisor, "x", color=color, markersize=5)
    axes.axhline(result["limit"] / divisor, color="tab:red", linewidth=1, label="limit")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
    axes.set_xlabel("examples in a batch")
    axes.set_ylabel(f"memory ({unit})")
    axes.set_ylim(bottom=0, top=1.1 * result["limit"] / divisor)
    basis = (
        "estimated on a CPU (dots: counted steps)"
        if result["is_estimate"]
        else f"measured on {result['device']} (x: failed)"
    )
    axes.set_title(f"{result['model']}, {len(rows)} buckets, {basis}")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5), title="bucket")
    save_figure(figure, path)


def _curve(row: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """The batch sizes and bytes of the points that are drawn for a bucket: its measured steps.

    For an estimate they are points on its extrapolated line, dense enough to look smooth on a logarithmic axis.
    """
    if not row["lines"]:
        return [size for size, _ in row["measured"]], [peak for _, peak in row["measured"]]
    largest = max(row["batch_size"], 1)
    sizes = sorted({max(1, round(largest ** (step / NUM_POINTS))) for step in range(NUM_POINTS + 1)})
    return sizes, [peak_of(row["lines"], size) for size in sizes]
