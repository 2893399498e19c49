"""The picture of a run: how similar the chosen contexts are, and how long."""

from pathlib import Path

from prepcli.engine.report import Report
from prepcli.plotting import new_figure, save_figure


def plot_contexts(report: Report, path: Path) -> None:
    """Draw the histograms of a finished run's report; the format is the suffix's.

    Raises `UsageError` without matplotlib, and when the file cannot be written.
    """
    figure = new_figure()
    labels = {"similarity": "cosine similarity of the context", "duration": "duration of the context (s)"}
    for number, (name, label) in enumerate(labels.items()):
        histogram = report.details[f"{name}_histogram"]
        edges, counts = histogram["edges"], histogram["counts"]
        axes = figure.add_subplot(1, 2, number + 1)
        axes.stairs(counts, edges, fill=True, color="tab:blue")
        axes.set_xlabel(label)
        axes.set_ylabel("records")
    save_figure(figure, path)
