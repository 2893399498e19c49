"""A self-contained HTML page about a data set: facts, plots, records with audio. It loads nothing from anywhere."""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from prepcli.commands.inspect.clips import Clip
from prepcli.commands.inspect.examples import Example
from prepcli.commands.inspect.groups import Group
from prepcli.commands.inspect.outputs import PAGE, check_output, write_output
from prepcli.commands.inspect.plots import draw
from prepcli.commands.inspect.report import Inspection
from prepcli.commands.inspect.sections import and_more, length, quantiles_of, sections_of
from prepcli.errors import UsageError
from prepcli.interface.calls import command_line
from prepcli.interface.plotting import new_figure
from prepcli.interface.printing import printable
from prepcli.version import __version__

if TYPE_CHECKING:
    from jinja2 import Template

_CELL, _NOTE = 300, 1000
"""Maximum number of characters of a value in a table, and of a note."""
_NUM_LANGUAGES = 4
_NUM_GROUPS = 20
"""Maximum number of rows of the table of languages and speakers; the CSV file has all."""


def check_page(path: Path) -> None:
    """Raise `UsageError` if the page cannot be written: matplotlib or jinja2 is missing, or the folder."""
    new_figure("--html")
    _template()
    check_output("--html", path, PAGE)


def write_page(found: Inspection, clips: Sequence[Clip], path: Path) -> None:
    """Write the page; raises `UsageError` without matplotlib or jinja2, and when the file cannot be written."""
    write_output(path, page_of(found, clips, command_line()))


def page_of(found: Inspection, clips: Sequence[Clip], command: str) -> str:
    """The HTML of the page.

    Args:
        found: what was found.
        clips: the audio of the outliers, then of the sample; none if no audio is to be read.
        command: the command line that made it.
    """
    template = _template()
    from markupsafe import Markup

    sections = sections_of(found)
    shown = found.sample or [Example([], "", 0, fields) for fields in found.first_records]
    heard = [*clips, *[Clip()] * (len(found.outliers) + len(shown) - len(clips))]
    outliers, sample = heard[: len(found.outliers)], heard[len(found.outliers) :]
    return template.render(
        found=found,
        name=Path(found.path).name or found.path,
        cards=_cards(found),
        notes=[_cut(text, _NOTE) for title, rows in sections if title == "Note" for _, text in rows],
        plots=[(title, Markup(svg)) for title, svg in draw(found)],
        quantiles=quantiles_of(found),
        sections=[section for section in sections if section.title not in ("Note", "Speakers by hours")],
        groups=_group_rows(found.groups),
        more_groups=and_more(len(found.groups), _NUM_GROUPS),
        outliers=[_row(*one, found.files > 1) for one in zip(found.outliers, outliers, strict=True)],
        records=[_row(*one, found.files > 1) for one in zip(shown, sample, strict=True)],
        version=__version__,
        command=command,
    )


def _template() -> "Template":
    try:
        from jinja2 import Environment, FileSystemLoader
    except ImportError:
        raise UsageError("--html needs jinja2: pip install 'prepcli[plot]'") from None
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        # Only `str` itself: markup is not escaped again.
        finalize=lambda value: printable(value) if type(value) is str else value,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("page.html.jinja")


def _cards(found: Inspection) -> list[tuple[str, str]]:
    languages = [one.name for one in found.languages[:_NUM_LANGUAGES]]
    cards = [
        (f"{found.lines:,}", "rejects", found.kind == "rejects"),
        (f"{found.records:,}", "records", found.lines and found.kind != "rejects"),
        (length(found.hours), "audio", found.hours),
        (f"{found.duration.get('p50', 0):,.2f} s", "median duration", found.duration),
        (f"{found.speakers:,}", "speakers", found.speakers),
        (", ".join([*languages, *and_more(found.num_languages, len(languages))]), "languages", found.languages),
        (", ".join(_rates(found)), "sampling rate (Hz)", _rates(found)),
        (f"{sum(facts.tars for facts in found.tars):,}", "tars", found.tars),
    ]
    return [(value, name) for value, name, there in cards if there]


def _rates(found: Inspection) -> list[str]:
    seen = sorted({rate for facts in found.audio for rate in facts.sampling_rates} or found.cut_sampling_rates)
    return [*(f"{rate:,}" for rate in seen[:3]), *and_more(len(seen), 3)]


def _group_rows(groups: Sequence[Group]) -> list[list[str]]:
    """The table of languages and speakers, heading first; empty if no record names either."""
    if not any(one.language or one.speaker for one in groups):
        return []
    rows = []
    for one in groups[:_NUM_GROUPS]:
        names = [_shown(one.language), _shown(one.speaker)]
        rows.append([*names, f"{one.records:,}", length(one.seconds / 3600), f"{one.seconds / one.records:,.2f}"])
    return [["language", "speaker", "records", "audio", "mean (s)"], *rows]


class _Row(NamedTuple):
    """A record in a table: what is unusual about it, its audio as a URL or why there is none, and its fields."""

    why: list[str]
    url: str
    note: str
    place: str
    duration: str
    text: str
    speaker: str
    others: list[tuple[str, str]]


def _row(example: Example, clip: Clip, names_file: bool) -> _Row:
    fields = {name: _shown(value) for name, value in example.fields.items()}
    url = f"data:audio/{clip.format};base64,{b64encode(clip.data).decode()}" if clip.data else ""
    name = fields.pop("audio_filepath", None) or fields.pop("id", "")
    line = f"line {example.line:,}" + f" of {example.file}" * names_file if example.line else ""
    place = f"{name} ({line})" if name and line else name or line
    duration, text, speaker = (fields.pop(one, "") for one in ("duration", "text", "speaker"))
    return _Row(example.why, url, _cut(clip.note), place, duration, text, speaker, list(fields.items()))


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return _cut(text)


def _cut(text: str, limit: int = _CELL) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
