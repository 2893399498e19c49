"""The page of `inspect --html`: plots, tables, and audio to listen to, in one file."""

import io
import re
import warnings
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from prepcli.commands.inspect.clips import AudioClip
from prepcli.commands.inspect.examples import MAX_TURNS, Example
from prepcli.commands.inspect.groups import Group
from prepcli.commands.inspect.outputs import PAGE
from prepcli.commands.inspect.report import Inspection
from prepcli.commands.inspect.sections import MIN_HOURS, and_more, length, quantiles_of, sections_of, text_of
from prepcli.commands.inspect.tally import Floats32
from prepcli.engine.publishing.side_files import check_side_file, write_side_file
from prepcli.errors import UsageError, option
from prepcli.interface.calls import command_line
from prepcli.interface.plotting import new_figure
from prepcli.interface.printing import printable
from prepcli.version import __version__

if TYPE_CHECKING:
    from jinja2 import Template

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


def draw(report: Inspection) -> Iterator[tuple[str, str]]:
    """Yield the title and the SVG text of each plot that has data; raises `UsageError` without matplotlib."""
    new_figure("--html")  # without matplotlib, the error says what to install
    import matplotlib

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # matplotlib warns of glyphs that its font lacks; browsers have other fonts
        for name, title, label in (
            ("duration", "Durations", "seconds"),
            ("chars_per_second", "Characters per second", "characters of text per second"),
            ("context_similarity", "Similarity of the context", "cosine similarity of the speaker embeddings"),
            ("bandwidth", "Bandwidth", "Hz"),
            ("snr", "Speech to noise", "dB"),
            ("loudness", "Loudness", "LUFS"),
            ("speech_share", "Share of speech", "share of the duration"),
        ):
            values = report.columns.get(name)
            if values is not None and len(values):
                yield title, _histogram(values, label)
        if report.top_speakers:
            shown = f"the {len(report.top_speakers)} largest of {report.speakers:,}"
            title = "Speakers by hours" + (f" ({shown})" if report.speakers > len(report.top_speakers) else "")
            names = [short_name(speaker.name) for speaker in report.top_speakers]
            yield title, _bars(names, [speaker.hours for speaker in report.top_speakers])


def _histogram(ascending: Floats32, label: str) -> str:
    """A histogram as SVG text; if a long thin tail is cut off, a note in the plot says so."""
    last = float(ascending[-1])
    bulk = float(ascending[int(0.995 * (len(ascending) - 1))])
    end = last if bulk <= 0 or last <= 2 * bulk else bulk * 1.25
    beyond = len(ascending) - int(np.searchsorted(ascending, end, side="right"))
    # 64-bit edges: between two neighbouring 32-bit values there are no 60 distinct 32-bit edges.
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
    axes.set_ylim(0, 1.15 * counts.max())  # leaves space for the median's label
    axes.margins(x=0.01)
    return _svg(figure)


def _range(low: float, high: float) -> tuple[float, float]:
    """The range of an axis for values from `low` to `high`.

    The range starts at 0 if `low` is above 0 and less than half of `high`, so that plots can be compared. If all values
    are equal, it has a margin on both sides.
    """
    if high <= low:
        margin = max(0.5, abs(low) / 100)
        return low - margin, high + margin
    return (0.0 if 0 < low < high / 2 else low), high


def _bars(names: Sequence[str], hours: Sequence[float]) -> str:
    in_minutes = max(hours) < MIN_HOURS
    figure, axes = _axes(0.9 + 0.28 * len(names))
    places = range(len(names))
    axes.barh(places, [60 * value if in_minutes else value for value in hours], color=_BAR, height=0.7)
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
    """`| Language:en Dataset:X Speaker:Y |` -> `Y (X, en)`; other names stay. Names are cut after 40 characters."""
    match = re.match(r"\| Language:(\w+) Dataset:(.+) Speaker:(.+) \|$", speaker)
    name = f"{match[3]} ({match[2]}, {match[1]})" if match else " ".join(speaker.split())
    name = printable(name)
    return name if len(name) <= 40 else name[:39] + "…"


_CELL, _NOTE = 300, 1000
"""Maximum number of characters of a value in a table, and of a note."""
_NUM_LANGUAGES = 4
_NUM_GROUPS = 20
"""Maximum number of rows in the table of languages and speakers; the CSV file has all rows."""


def check_page(path: Path) -> None:
    """Raise `UsageError` if matplotlib or jinja2 is missing, or if `check_side_file` refuses the path of the page."""
    new_figure("--html")
    _template()
    check_side_file("--html", path, PAGE)


def write_page(report: Inspection, clips: Sequence[AudioClip], path: Path) -> None:
    """Write the HTML page of an inspection; for `clips` see `page_of`.

    Raises `UsageError` without matplotlib or jinja2, and the errors of `write_side_file`.
    """
    write_side_file(path, page_of(report, clips, command_line()))


def page_of(report: Inspection, clips: Sequence[AudioClip], command: str) -> str:
    """The HTML of the page, which loads nothing from other files or servers.

    `clips`: first the clip of each outlier of `report`, then of each record of its sample, or of each turn with audio
    of its dialogues; empty if no audio was read.
    `command`: the command line, which the page shows.
    """
    template = _template()
    from markupsafe import Markup

    sections = sections_of(report)
    first = [] if report.dialogues else report.first_records
    shown = report.sample or [Example([], "", 0, fields) for fields in first]
    heard = [*clips, *[AudioClip()] * (len(report.outliers) + len(shown) - len(clips))]
    outliers, others = heard[: len(report.outliers)], heard[len(report.outliers) :]
    return template.render(
        report=report,
        name=Path(report.path).name or report.path,
        cards=_cards(report),
        notes=[_cut(text, _NOTE) for title, rows in sections if title == "Note" for _, text in rows],
        plots=[(title, Markup(svg)) for title, svg in draw(report)],
        quantiles=quantiles_of(report),
        sections=[section for section in sections if section.title not in ("Note", "Speakers by hours")],
        groups=_group_rows(report.groups),
        more_groups=and_more(len(report.groups), _NUM_GROUPS),
        outliers=[_row(*row, report.files > 1) for row in zip(report.outliers, outliers, strict=True)],
        records=[_row(*row, report.files > 1) for row in zip(shown, others[: len(shown)], strict=True)],
        dialogues=_dialogues(report, others),
        version=__version__,
        command=command,
    )


def _template() -> "Template":
    try:
        from jinja2 import Environment, FileSystemLoader
    except ImportError:
        raise UsageError(f"{option('--html')} needs jinja2: pip install 'prepcli[plot]'") from None
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        # Only `str` itself: markup is a subclass, and must not be escaped again.
        finalize=lambda value: printable(value) if type(value) is str else value,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("page.html.jinja")


def _cards(report: Inspection) -> list[tuple[str, str]]:
    languages = [language.name for language in report.languages[:_NUM_LANGUAGES]]
    cards = [
        (f"{report.lines:,}", "rejects", report.kind == "rejects"),
        (f"{report.records:,}", "records", report.lines and report.kind != "rejects"),
        (length(report.hours), "audio", report.hours),
        (f"{report.duration.get('p50', 0):,.2f} s", "median duration", report.duration),
        (f"{report.speakers:,}", "speakers", report.speakers),
        (", ".join([*languages, *and_more(report.num_languages, len(languages))]), "languages", report.languages),
        (", ".join(_rates(report)), "sampling rate (Hz)", _rates(report)),
        (f"{sum(facts.tars for facts in report.tars):,}", "tars", report.tars),
    ]
    return [(value, name) for value, name, there in cards if there]


def _rates(report: Inspection) -> list[str]:
    seen = sorted({rate for facts in report.audio for rate in facts.sampling_rates} or report.cut_sampling_rates)
    return [*(f"{rate:,}" for rate in seen[:3]), *and_more(len(seen), 3)]


def _group_rows(groups: Sequence[Group]) -> list[list[str]]:
    """The rows of the table of languages and speakers, heading first; empty if no record has either of them."""
    if not any(group.language or group.speaker for group in groups):
        return []
    rows = []
    for group in groups[:_NUM_GROUPS]:
        names = [_shown(group.language), _shown(group.speaker)]
        rows.append(
            [*names, f"{group.records:,}", length(group.seconds / 3600), f"{group.seconds / group.records:,.2f}"]
        )
    return [["language", "speaker", "records", "audio", "mean (s)"], *rows]


class _Row(NamedTuple):
    """A record in a table: why it is shown, its audio as a URL, a note on the audio, and its fields.

    If no audio was found, `url` is empty, and `note` says why. If none was looked for, both are empty.
    """

    why: list[str]
    url: str
    note: str
    place: str
    duration: str
    text: str
    speaker: str
    others: list[tuple[str, str]]


def _row(example: Example, clip: AudioClip, names_file: bool) -> _Row:
    fields = {name: _shown(value) for name, value in example.fields.items()}
    url = _url(clip)
    name = fields.pop("audio_filepath", None) or fields.pop("id", "")
    line = f"line {example.line:,}" + f" of {example.file}" * names_file if example.line else ""
    place = f"{name} ({line})" if name and line else name or line
    duration, text, speaker = (fields.pop(name, "") for name in ("duration", "text", "speaker"))
    return _Row(example.why, url, _cut(clip.note), place, duration, text, speaker, list(fields.items()))


class _SaidTurn(NamedTuple):
    """A turn on the page: who says it, its text, and its audio as in `_Row`."""

    role: str
    text: str
    url: str
    note: str


def _dialogues(report: Inspection, clips: Sequence[AudioClip]) -> list[tuple[str, list[_SaidTurn], list[str]]]:
    """The place of each conversation, its turns, and the number of those that are not shown."""
    heard, shown = iter(clips), []
    for dialogue in report.dialogues:
        turns = []
        for turn in dialogue.turns[:MAX_TURNS]:
            if turn.text is not None:
                turns.append(_SaidTurn(turn.role, _cut(turn.text, _NOTE), "", ""))
                continue
            clip = next(heard, AudioClip())
            place = f"{turn.audio}{f' from {turn.offset:g} s' if turn.offset else ''}, {turn.duration or 0.0:.2f} s"
            turns.append(_SaidTurn(turn.role, "", _url(clip), ": ".join(filter(None, (_cut(place), _cut(clip.note))))))
        file = f" of {dialogue.file}" * (report.files > 1)
        title = f"{dialogue.id or 'without an id'} (line {dialogue.line:,}{file})"
        shown.append((_cut(title), turns, and_more(len(dialogue.turns), MAX_TURNS)))
    return shown


def _url(clip: AudioClip) -> str:
    return f"data:audio/{clip.format};base64,{b64encode(clip.data).decode()}" if clip.data else ""


def _shown(value: Any) -> str:
    return _cut(text_of(value))


def _cut(text: str, limit: int = _CELL) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
