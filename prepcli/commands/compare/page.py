"""The page of `compare --html`."""

from html import escape
from pathlib import Path

from prepcli.commands.compare.report import Comparison
from prepcli.engine.publishing.side_files import Kind, check_side_file, write_side_file
from prepcli.interface.printing import printable

_KIND = Kind("a page of compare", rb"<!DOCTYPE html>.*<title>compare")
_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="prepcli">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>compare</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; color: #1f2933; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { text-align: left; vertical-align: top; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #e4e7eb; }
td { overflow-wrap: anywhere; }
</style>
</head>
<body>
"""


def check_page(path: Path) -> None:
    """Check that the page can be written; errors as of `check_side_file`."""
    check_side_file("--html", path, _KIND)


def write_page(found: Comparison, path: Path) -> None:
    """Write the comparison as one page; errors as of `write_side_file`."""
    title = "No differences" if found.is_same else "The sets differ"
    tables = [
        _table([list(row) for row in found.rows()]),
        *([_table(fields)] if (fields := found.field_rows()) else []),
    ]
    write_side_file(path, f"{_HEAD}<h1>{title}</h1>\n{''.join(tables)}</body>\n</html>\n")


def _table(rows: list[list[str]]) -> str:
    lines = ["<tr>" + "".join(f"<td>{escape(printable(cell))}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join(["<table>", *lines, "</table>", ""])
