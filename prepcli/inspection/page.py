"""A self-contained HTML page about a data set: facts, plots, first records. It loads nothing from the network."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from prepcli.display.plotting import new_figure
from prepcli.display.printing import printable
from prepcli.engine.workspace import atomic_file
from prepcli.errors import UsageError
from prepcli.inspection.plots import draw
from prepcli.inspection.report import Inspection
from prepcli.inspection.sections import quantiles_of, sections_of, shown_fields
from prepcli.interface.calls import command_line
from prepcli.version import __version__

if TYPE_CHECKING:
    from jinja2 import Template

_CELL = 300
"""Maximum number of characters of a value in a table."""


def check_page(path: Path) -> None:
    """Raise `UsageError` if the page cannot be written: matplotlib or jinja2 is missing, or the folder."""
    new_figure("--html")
    _template()
    if os.path.isdir(path):
        raise UsageError(f"--html {path}: that is a directory; give the name of a file")
    if os.path.isfile(path) and not _is_page(path):
        raise UsageError(f"--html {path}: a file that is not an HTML page is there; give another name")
    if not os.path.isdir(path.absolute().parent):
        raise UsageError(f"--html {path}: there is no folder {path.parent}")


def _is_page(path: Path) -> bool:
    """Return whether a page may replace the file: only an earlier page or an empty file may be replaced.

    Any other file may be the one that is inspected, or belong to it: a manifest, audio, a shard, a record of its run.
    """
    try:
        with path.open("rb") as file:
            beginning = file.read(64)
    except OSError as error:
        raise UsageError(f"--html {path}: cannot write it: {error.strerror}") from None
    return not beginning or beginning.lstrip().lower().startswith((b"<!doctype html", b"<html"))


def write_page(found: Inspection, path: Path) -> None:
    """Write the page; raises `UsageError` without matplotlib or jinja2, and when the file cannot be written."""
    page = page_of(found, command_line())
    try:
        target = path.resolve() if path.is_file() else path  # the file of a link is replaced, not the link
        if target.exists() and not target.is_file():  # /dev/stdout, for instance
            target.write_bytes(page.encode("utf-8"))
            return
        with atomic_file(target) as file:
            file.write(page.encode("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def page_of(found: Inspection, command: str) -> str:
    """The HTML of the page; `command` is the command line that made it."""
    template = _template()
    from markupsafe import Markup

    sections = sections_of(found)
    fields = shown_fields(found.first_records)
    return template.render(
        found=found,
        name=Path(found.path).name or found.path,
        cards=_cards(found),
        notes=[text for title, rows in sections if title == "Note" for _, text in rows],
        plots=[(title, Markup(svg)) for title, svg in draw(found)],
        quantiles=quantiles_of(found),
        sections=[section for section in sections if section.title != "Note"],
        fields=fields,
        records=[_row(record, fields) for record in found.first_records],
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
    cards = [
        (f"{found.lines:,}", "rejects", found.kind == "rejects"),
        (f"{found.records:,}", "records", found.lines and found.kind != "rejects"),
        (f"{found.hours:,.2f}", "hours", found.hours),
        (f"{found.duration.get('p50', 0):,.2f} s", "median duration", found.duration),
        (f"{found.speakers:,}", "speakers", found.speakers),
        (", ".join(one.name for one in found.languages[:4]), "languages", found.languages),
        (", ".join(_rates(found)), "sampling rate (Hz)", _rates(found)),
        (f"{sum(facts.tars for facts in found.tars):,}", "tars", found.tars),
    ]
    return [(value, name) for value, name, there in cards if there]


def _rates(found: Inspection) -> list[str]:
    seen = sorted({rate for facts in found.audio for rate in facts.sampling_rates} or found.cut_sampling_rates)
    return [f"{rate:,}" for rate in seen[:3]] + ["…"] * (len(seen) > 3)


def _row(record: dict[str, Any], fields: Sequence[str]) -> list[str]:
    return [_shown(record[name]) if name in record else "" for name in fields]


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _CELL else f"{text[:_CELL]}…"
