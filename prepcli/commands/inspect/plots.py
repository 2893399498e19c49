"""The plots of the page as inline SVG: durations, speech rate, similarity, speakers."""

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from prepcli.commands.inspect.report import Inspection
from prepcli.commands.inspect.sections import MIN_HOURS
from prepcli.commands.inspect.tally import Floats32
from prepcli.interface.plotting import new_figure
from prepcli.interface.printing import printable

_BAR, _INK, _MUTED, _GRID = "#3b6fb6", "#1f2933", "#7b8794", "#e4e7eb"
_NUM_BINS = 60
_STYLE = {
    "svg.fonttype": "none",  # text stays text: small, searchable, and in the reader's own fonts
    "svg.hashsalt": "prepcli",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _MUTED,
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def draw(found: Inspection) -> Iterator[tuple[str, str]]:
    """Yield the title and the SVG text of each plot that has data. Raises `UsageError` without matplotlib."""
    new_figure("--html")  # says what to install
    import matplotlib

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glyphs that matplotlib's font lacks: the browser has others
        for name, title, label in (
            ("duration", "Durations", "seconds"),
            ("chars_per_second", "Characters per second", "characters of text per second"),
            ("context_similarity", "Similarity of the context", "cosine similarity of the speaker embeddings"),
        ):
            values = found.columns.get(name)
            if values is not None and len(values):
                yield title, _histogram(values, label)
        if found.top_speakers:
            shown = f"the {len(found.top_speakers)} largest of {found.speakers:,}"
            title = "Speakers by hours" + (f" ({shown})" if found.speakers > len(found.top_speakers) else "")
            names = [short_name(one.name) for one in found.top_speakers]
            yield title, _bars(names, [one.hours for one in found.top_speakers])


def _histogram(ascending: Floats32, label: str) -> str:
    """A histogram; a long thin tail is cut off, and a note in the plot says so."""
    last = float(ascending[-1])
    bulk = float(ascending[int(0.995 * (len(ascending) - 1))])
    end = last if last <= 2 * bulk else bulk * 1.25
    beyond = len(ascending) - int(np.searchsorted(ascending, end, side="right"))
    # 64-bit edges: two neighbouring 32-bit values have no 60 distinct edges between them.
    edges = np.linspace(*_range(float(ascending[0]), end), _NUM_BINS + 1)
    counts, _ = np.histogram(ascending, edges)
    figure, axes = _axes(3.2)
    axes.stairs(counts, edges, fill=True, color=_BAR)
    median = float(ascending[len(ascending) // 2])
    axes.axvline(median, color=_INK, linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate(
        f"median {median:.2f}", (median, 1), xycoords=("data", "axes fraction"), xytext=(5, -4),
        textcoords="offset points", va="top",
    )  # fmt: skip
    if beyond:
        axes.annotate(
            f"{beyond:,} more, up to {last:,.2f}", (1, 0.5), xycoords="axes fraction", ha="right", color=_MUTED
        )
    axes.set_xlabel(label)
    axes.set_ylabel("records")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", color=_GRID)
    axes.set_ylim(0, 1.15 * counts.max())  # room for the median's label
    axes.margins(x=0.01)
    return _svg(figure)


def _range(low: float, high: float) -> tuple[float, float]:
    """The range of the axis; it starts at 0 if that is near, so that plots can be compared."""
    if high <= low:
        margin = max(0.5, abs(low) / 100)
        return low - margin, high + margin
    return (0.0 if 0 < low < high / 2 else low), high


def _bars(names: Sequence[str], hours: Sequence[float]) -> str:
    in_minutes = max(hours) < MIN_HOURS
    figure, axes = _axes(0.9 + 0.28 * len(names))
    places = range(len(names))
    axes.barh(places, [60 * one if in_minutes else one for one in hours], color=_BAR, height=0.7)
    # Dollar signs in a name must not start math mode.
    axes.set_yticks(places, names, parse_math=False)
    axes.margins(y=0.02)
    axes.invert_yaxis()
    axes.set_xlabel("minutes" if in_minutes else "hours")
    axes.locator_params(axis="x", nbins=6)
    axes.grid(axis="x", color=_GRID)
    axes.tick_params(axis="y", length=0)
    return _svg(figure)


def _axes(height: float) -> tuple[Any, Any]:
    figure = new_figure("--html", (6.4, height))
    axes = figure.add_subplot()
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure: Any) -> str:
    """The figure's `svg` element without the header, namespaces and metadata of a standalone file."""
    written = io.StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata=_NO_METADATA)
    text = written.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    head, rest = text.split(">", 1)
    head = re.sub(r' (xmlns(:\w+)?|version|width|height)="[^"]*"', "", head)
    return f'{head} role="img">{rest}'


def short_name(speaker: str) -> str:
    """`| Language:en Dataset:X Speaker:Y |` -> `Y (X, en)`; other names as they are, long ones cut."""
    match = re.match(r"\| Language:(\w+) Dataset:(.+) Speaker:(.+) \|$", speaker)
    name = f"{match[3]} ({match[2]}, {match[1]})" if match else " ".join(speaker.split())
    name = printable(name)
    return name if len(name) <= 40 else name[:39] + "…"
