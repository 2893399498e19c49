"""The kinds of files that `inspect` writes, and `filter` too: an HTML page, and a table."""

import re

from prepcli.commands.inspect.groups import HEADING
from prepcli.engine.publishing.side_files import Kind

PAGE = Kind(
    "such a page",
    rb'<!DOCTYPE html>\n<html lang="en">\n?<head>\n?<meta charset="utf-8">\n'
    rb'(<meta name="generator" content="prepcli">'
    # the pages of version 0.3.0, which do not name their program there
    rb"|<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'[;\"])",
)
CSV = Kind("such a table", re.escape(",".join(HEADING)).encode() + b"\n")
