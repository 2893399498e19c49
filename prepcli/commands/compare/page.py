"""The page of `compare --html`."""

from pathlib import Path

from prepcli.commands.compare.report import Comparison
from prepcli.commands.inspect.outputs import PAGE
from prepcli.engine.publishing.side_files import check_side_file, write_side_file
from prepcli.interface.pages import page, table

_STYLE = """\
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #e4e7eb;
         overflow-wrap: anywhere; }
"""


def check_page(path: Path) -> None:
    """Check that the page can be written; errors as of `check_side_file`."""
    check_side_file("--html", path, PAGE)


def write_page(found: Comparison, path: Path) -> None:
    """Write the comparison as one page; errors as of `write_side_file`."""
    head, *fields = found.field_rows() or [[]]
    tables = table([], found.rows()) + (table(head, fields) if fields else "")
    write_side_file(path, page(found.title.capitalize(), tables, _STYLE))
