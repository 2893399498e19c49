"""Lists of paths, and file lists `path|text[|speaker]` as TTS recipes have them."""

from collections.abc import Iterator
from typing import Any

from prepcli.commands.make_manifest.entries import Entry, rejected_entry
from prepcli.commands.make_manifest.source import stem_of, text_lines
from prepcli.errors import RejectReason


def listed_paths(path: str) -> Iterator[Entry]:
    """One path per line, as it stands: blanks belong to the name."""
    for number, line in text_lines(path):
        yield Entry(line, number, stem_of(line))


def file_list(path: str) -> Iterator[Entry]:
    """`path|text` or `path|text|speaker` per line."""
    for number, line in text_lines(path):
        parts = line.split("|")
        if len(parts) not in (2, 3) or not parts[0].strip():
            detail = f"the line has {len(parts)} parts between |; it must be path|text or path|text|speaker"
            yield rejected_entry(RejectReason.BAD_FIELD, detail, number, line)
            continue
        fields: dict[str, Any] = {"text": parts[1].strip()}
        if len(parts) == 3 and parts[2].strip():
            fields["speaker"] = parts[2].strip()
        yield Entry(parts[0].strip(), number, stem_of(parts[0].strip()), fields)
