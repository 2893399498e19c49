"""The kinds of files that `inspect` writes, and `filter` too: an HTML page, and a table."""

import re

from prepcli.commands.inspect.groups import HEADING
from prepcli.engine.publishing.side_files import Kind

PAGE = Kind(
    "such a page",
    rb"(?i)\s*<(!doctype html|html)",
)
CSV = Kind("such a table", re.escape(",".join(HEADING)).encode() + b"\n")
