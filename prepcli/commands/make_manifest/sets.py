"""Data sets as sources of make-manifest: their records, with audio named `FILE::MEMBER`."""

import os
from collections.abc import Iterator

from prepcli.commands.make_manifest.entries import SourceEntry, rejected_entry
from prepcli.commands.make_manifest.options import MakeManifest
from prepcli.commands.make_manifest.source import EntrySource
from prepcli.errors import RecordRejected
from prepcli.formats.names import absolute_folder
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs.named import NAMES_NOTE, manifests_of
from prepcli.manifest.fields import decode_value
from prepcli.manifest.lines import read_line
from prepcli.manifest.scan import Range, lines_of

_OWN = frozenset({"audio_filepath", "duration", "offset"})


def set_source(path: str, how: str, options: MakeManifest) -> EntrySource:
    """The records of a data set as a source: their fields come from the set, their durations are measured.

    Raises:
        UsageError: the path is not a data set.
    """
    columns = {
        name: getattr(options, name) for name in ("audio_column", "text_column", "speaker_column", "lang_column")
    }
    manifests = manifests_of(path, SetInput(**columns))

    def entries() -> Iterator[SourceEntry]:
        for manifest in manifests:
            for number, text in enumerate(lines_of(Range(manifest, 0, None)), 1):
                if (entry := _entry(text, number)) is not None:
                    yield entry

    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    return EntrySource(
        path, "set", how, absolute_folder(folder), entries, tuple(manifests), notes=lambda: iter([NAMES_NOTE])
    )


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
