"""Makes figures with matplotlib, without a display; its errors become `UsageError`."""

import os
from pathlib import Path
from typing import Any

from prepcli.errors import UsageError, option


def new_figure(flag: str = "--plot", size: tuple[float, float] = (10, 5)) -> Any:
    """Return an empty figure; `size` is its width and height in inches.

    Raises:
        UsageError: matplotlib is not installed; the message names `flag`, which needs it.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(f"{option(flag)} needs matplotlib: pip install 'prepcli[plot]'") from None
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Any, path: Path) -> None:
    """Write the figure in the format that the suffix of `path` names.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot write the plot {path}: {why}; give a name such as plot.png") from None


def check_plot(path: Path) -> None:
    """Check before the work that a figure can be written to `path`.

    Raises:
        UsageError: the format is unknown, or the folder does not exist.
    """
    formats = new_figure().canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in formats:
        raise UsageError(f"{option('--plot', path)}: the name must end in one of .{', .'.join(sorted(formats))}")
    if not os.path.isdir(path.absolute().parent):
        raise UsageError(f"{option('--plot', path)}: there is no folder {path.parent}")
