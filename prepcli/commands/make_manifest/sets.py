"""Data sets as sources of make-manifest: their records, with audio named `FILE::MEMBER`."""

import os
from collections.abc import Iterator

from prepcli.commands.make_manifest.entries import SourceEntry, rejected_entry
from prepcli.commands.make_manifest.settings import MakeSettings
from prepcli.commands.make_manifest.source import EntrySource
from prepcli.errors import RecordRejected
from prepcli.formats.names import absolute_folder
from prepcli.gate import note_on_moved
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs.named import manifests_of, names_note, refuse_unused
from prepcli.manifest.fields import decode_value
from prepcli.manifest.lines import read_line
from prepcli.manifest.scan import Range, lines_of
from prepcli.storage.containers import MOVED_TEXT

_OWN = frozenset({"audio_filepath", "duration", "offset"})


def set_source(path: str, how: str, asked: MakeSettings) -> EntrySource:
    """The records of a data set as a source: their fields come from the set, their durations are measured.

    Raises:
        UsageError: the path is not a data set.
    """
    common = ("audio_column", "text_column", "speaker_column", "lang_column", "input_format", "split", "name_encoding")
    options = SetInput(**{name: getattr(asked, name) for name in common})
    manifests = manifests_of(path, options)
    refuse_unused(manifests, options)

    num_moved = 0

    def entries() -> Iterator[SourceEntry]:
        nonlocal num_moved
        num_moved = 0
        for manifest in manifests:
            for number, text in enumerate(lines_of(Range(manifest, 0, None)), 1):
                num_moved += MOVED_TEXT in text
                if (entry := _entry(text, number)) is not None:
                    yield entry

    def notes() -> Iterator[str]:
        yield from names_note(manifests).values()
        if num_moved:
            yield note_on_moved(num_moved, "their cuts")

    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    return EntrySource(path, "set", how, absolute_folder(folder), entries, tuple(manifests), notes=notes)


def _entry(text: bytes, number: int) -> SourceEntry | None:
    """The entry for line `number` of a manifest that describes a data set; None if the line is blank or `_skipme`."""
    try:
        line = read_line(text, cuts=False)
    except RecordRejected as rejected:
        return rejected_entry(rejected.reason, rejected.detail, number, text.decode("utf-8", "surrogateescape"))
    if line is None:
        return None
    fields = {name: decode_value(value) for name, value in line.fields.items()}
    is_segment = fields.get("offset") is not None
    others = {name: value for name, value in fields.items() if name not in _OWN}
    offset, duration = (float(fields["offset"]), float(fields["duration"])) if is_segment else (None, 0.0)
    return SourceEntry(fields["audio_filepath"], number, str(fields.get("id") or ""), others, offset, duration)
