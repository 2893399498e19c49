"""Small HTML pages with tables, which load nothing from anywhere."""

import html
from collections.abc import Sequence

from prepcli.interface.printing import printable

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="prepcli">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ margin: 0 auto; max-width: 90rem; padding: 2rem; font: 15px/1.5 system-ui, sans-serif; color: #1f2933; }}
{style}</style></head><body><h1>{title}</h1>{content}</body></html>
"""


def page(title: str, content: str, style: str) -> str:
    """Return a page. `title` is text, `content` is HTML, and `style` are rules of CSS, each with its line end."""
    return _PAGE.format(title=html.escape(printable(title)), content=content, style=style)


def paragraph(text: str) -> str:
    """Return a text as a paragraph in HTML."""
    return f"<p>{html.escape(printable(text))}</p>"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table in HTML; without a row of names if `head` is empty. Numbers get commas."""
    lines = [*([("th", head)] if head else []), *(("td", row) for row in rows)]
    cells = ("".join(f"<{tag}>{html.escape(_text(cell))}</{tag}>" for cell in row) for tag, row in lines)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _text(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, (int, float)) else printable(str(cell))
