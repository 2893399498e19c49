"""The plot of a run: how similar the contexts are, what the threshold leaves out, and how long they are."""

import os
from pathlib import Path

from prepcli.commands.extend_context_audio.options import ContextOptions
from prepcli.engine.run.report import Report
from prepcli.interface.plotting import new_figure, save_figure


def plot_contexts(report: Report, path: Path, options: ContextOptions) -> None:
    """Draw the histograms of a finished run's report, and name the plot in it; the format is the suffix's.

    Raises `UsageError` without matplotlib, and when the file cannot be written.
    """
    figure = new_figure()
    details = report.details
    kept = details["similarity_histogram"]
    every = details.get("similarity_histogram_of_all", kept)  # runs of earlier versions have none
    durations = details["duration_histogram"]
    similarity, duration = (figure.add_subplot(1, 2, number) for number in (1, 2))
    similarity.stairs(every["counts"], every["edges"], fill=True, color="tab:gray", label="left out")
    similarity.stairs(kept["counts"], kept["edges"], fill=True, color="tab:blue", label="kept")
    duration.stairs(durations["counts"], durations["edges"], fill=True, color="tab:blue")
    for axes, limit, label, option in (
        (similarity, options.context_min_ssim, "cosine similarity to the best other utterance", "--context-min-ssim"),
        (duration, options.context_min_duration, "duration of the context (s)", "--context-min-duration"),
    ):
        axes.axvline(limit, color="tab:red", label=f"{option} {limit:g}")
        axes.set_xlabel(label)
        axes.set_ylabel("records")
        axes.legend(loc="upper left" if axes is similarity else "upper right")
    save_figure(figure, path)
    report.details["plot"] = report.outputs["plot"] = os.path.abspath(path)
