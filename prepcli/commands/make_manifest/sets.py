"""Data sets as sources of make-manifest: their records, with audio named `FILE::MEMBER`."""

import os
from collections.abc import Iterator

from prepcli.commands.make_manifest.columns import ColumnNames
from prepcli.commands.make_manifest.entries import SourceEntry, rejected_entry
from prepcli.commands.make_manifest.source import EntrySource
from prepcli.errors import RecordRejected
from prepcli.formats.names import absolute_folder
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs.named import NAMES_NOTE, manifests_of
from prepcli.manifest.fields import decode_value, is_skipped, parse_fields
from prepcli.manifest.record import Record
from prepcli.manifest.scan import Range, lines_of

_OWN = frozenset({"audio_filepath", "duration", "offset"})


def set_source(path: str, how: str, columns: ColumnNames) -> EntrySource:
    """The records of a data set; fields come from it, durations are measured.

    Raises:
        UsageError: the path is not a data set.
    """
    reading = SetInput(audio_column=columns.audio, text_column=columns.text, speaker_column=columns.speaker)
    manifests = manifests_of(path, reading)

    def entries() -> Iterator[SourceEntry]:
        for manifest in manifests:
            for number, text in enumerate(lines_of(Range(manifest, 0, None)), 1):
                if text.strip() and (entry := _entry(text, number)) is not None:
                    yield entry

    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    return EntrySource(
        path, "set", how, absolute_folder(folder), entries, tuple(manifests), notes=lambda: iter([NAMES_NOTE])
    )


def _entry(text: bytes, number: int) -> SourceEntry | None:
    """The entry of a line of a catalogue; None if it is skipped."""
    try:
        raw = parse_fields(text)
        if is_skipped(raw):
            return None
        Record(raw)
    except RecordRejected as rejected:
        return rejected_entry(rejected.reason, rejected.detail, number, text.decode("utf-8", "surrogateescape"))
    fields = {name: decode_value(value) for name, value in raw.items()}
    is_segment = fields.get("offset") is not None
    others = {name: value for name, value in fields.items() if name not in _OWN}
    offset, duration = (float(fields["offset"]), float(fields["duration"])) if is_segment else (None, 0.0)
    return SourceEntry(fields["audio_filepath"], number, str(fields.get("id") or ""), others, offset, duration)
