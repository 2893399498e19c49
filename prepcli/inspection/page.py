"""One self-contained page about some data: facts, plots, first records. It asks the network for nothing."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from prepcli import __version__
from prepcli.calls import command_line
from prepcli.errors import UsageError
from prepcli.inspection.plots import draw
from prepcli.inspection.report import Inspection, plain
from prepcli.inspection.sections import quantiles_of, sections_of, shown_fields
from prepcli.plotting import new_figure

_CELL = 300
"""Characters of a value that a table shows."""

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 2rem 1.5rem 4rem; background: #fff; color: #1f2933;
       font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
header { border-bottom: 1px solid #cbd2d9; margin-bottom: 1.5rem; padding-bottom: 1rem; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: .95rem; font-weight: 600; margin: 0 0 .3rem; }
header p { margin: .3rem 0 0; color: #52606d; overflow-wrap: anywhere; }
code { font: .88em ui-monospace, "DejaVu Sans Mono", monospace; background: #f1f3f5; padding: .1rem .35rem;
       border-radius: 3px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .8rem; }
.cards div { border: 1px solid #e4e7eb; border-radius: 6px; padding: .7rem .9rem; }
.cards b { display: block; font-size: 1.5rem; font-weight: 600; line-height: 1.25; }
.cards span { color: #52606d; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1.4rem 2rem; }
figure { margin: 0; }
svg { display: block; width: 100%; height: auto; }
svg text { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif !important; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid #e4e7eb; }
th { font-weight: 600; white-space: nowrap; }
.facts td { overflow-wrap: anywhere; }
.numbers td, .numbers th + th { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.records { font-size: .87rem; width: max-content; }
.records td { max-width: 20rem; overflow-wrap: anywhere; }
.notes li { margin: .2rem 0; overflow-wrap: anywhere; }
footer { margin-top: 3rem; color: #7b8794; font-size: .87rem; }
"""
# Should a text ever slip through unescaped, the browser still runs and fetches nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def check_page(path: Path) -> None:
    """Raise `UsageError` now if the page could not be made later: no matplotlib, no such folder."""
    new_figure("--html")
    if path.is_dir():
        raise UsageError(f"--html {path}: that is a directory; give the name of a file")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--html {path}: there is no folder {path.parent}")


def write_page(found: Inspection, path: Path) -> None:
    """Write the page; raises `UsageError` without matplotlib, and when the file cannot be written."""
    page = page_of(found, command_line())
    try:
        path.write_bytes(page.encode("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def page_of(found: Inspection, command: str) -> str:
    """The page's HTML; `command` is what made it."""
    title = f"{Path(found.path).name or found.path}: {found.title}"
    body = [
        f"<header><h1>{_text(Path(found.path).name or found.path)}</h1>",
        f"<p>{_text(found.title)} — <code>{_text(found.path)}</code></p></header>",
        _cards(found),
        *_notes(found),
        *_plots(found),
        *_quantiles(found),
        *_sections(found),
        *_records(found.first_records),
        f"<footer>Made by prepcli {__version__}: <code>{_text(command)}</code></footer>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _cards(found: Inspection) -> str:
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
    shown = [f"<div><b>{_text(value)}</b><span>{_text(name)}</span></div>" for value, name, there in cards if there]
    return f'<div class="cards">{"".join(shown)}</div>'


def _rates(found: Inspection) -> list[str]:
    seen = sorted({rate for facts in found.audio for rate in facts.sampling_rates} or found.cut_sampling_rates)
    return [f"{rate:,}" for rate in seen[:3]] + ["…"] * (len(seen) > 3)


def _notes(found: Inspection) -> list[str]:
    rows = [text for title, section in sections_of(found) if title == "Note" for _, text in section]
    items = "".join(f"<li>{_text(note)}</li>" for note in rows)
    return ["<h2>Worth a look</h2>", f'<ul class="notes">{items}</ul>'] if rows else []


def _plots(found: Inspection) -> list[str]:
    figures = [f"<figure><h3>{_text(title)}</h3>{svg}</figure>" for title, svg in draw(found)]
    return ["<h2>Distributions</h2>", f'<div class="plots">{"".join(figures)}</div>'] if figures else []


def _quantiles(found: Inspection) -> list[str]:
    table = quantiles_of(found)
    return ["<h2>Quantiles</h2>", _table(table[0], table[1:], "numbers")] if table else []


def _sections(found: Inspection) -> list[str]:
    shown = [section for section in sections_of(found) if section.title != "Note"]
    return [part for title, rows in shown for part in (f"<h2>{_text(title)}</h2>", _table([], rows, "facts"))]


def _records(records: Sequence[dict[str, Any]]) -> list[str]:
    if not records:
        return []
    names = shown_fields(records)
    rows = [[_shown(record[name]) if name in record else "" for name in names] for record in records]
    return [f"<h2>First {len(rows)} records</h2>", _table(names, rows, "records")]


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _CELL else f"{text[:_CELL]}…"


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]], kind: str) -> str:
    head = f"<tr>{''.join(f'<th>{_text(name)}</th>' for name in heading)}</tr>" if heading else ""
    first = "td" if kind == "records" else "th"
    lines = "".join(f"<tr>{_cell(row[0], first)}{''.join(_cell(text, 'td') for text in row[1:])}</tr>" for row in rows)
    return f'<div class="scroll"><table class="{kind}">{head}{lines}</table></div>'


def _cell(text: str, tag: str) -> str:
    return f"<{tag}>{_text(text)}</{tag}>"


def _text(text: str) -> str:
    """Text that is nothing but text in HTML."""
    return escape(plain(text))
