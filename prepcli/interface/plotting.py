"""Makes figures with matplotlib, without a display; its errors become `UsageError`."""

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
