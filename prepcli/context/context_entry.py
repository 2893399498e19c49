"""The line of a record with its context: the fields of another record, each as that one has it written."""

import os
from functools import lru_cache

import msgspec

from prepcli.manifest.record import Record, Value
from prepcli.records import Records

FIELDS = {
    "offset": "context_audio_offset",
    "duration": "context_audio_duration",
    "text": "context_audio_text",
    "normalized_text": "context_audio_normalized_text",
}
"""Fields of the other record, and what they are called in the line, after similarity and path."""
SIMILARITY = "context_speaker_similarity"
PATH = "context_audio_filepath"
DIGITS = 6
"""Decimals of a similarity. Beyond them the order of additions would show."""
_KEPT_CONTEXTS = 4096


class ContextLines:
    """Writes the lines of records with their contexts; what a popular context adds is made once."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._added = lru_cache(_KEPT_CONTEXTS)(self._fields_of)

    def line(self, record: int, context: int, similarity: float) -> bytes:
        """The record's line, with line end. Fields of an earlier run's context are replaced."""
        path, added = self._added(context)
        own_base, base = self._records.base_dir(record), self._records.base_dir(context)
        if own_base != base and not os.path.isabs(path):
            path = os.path.join(base, path)  # manifests of several folders: a relative path would mean another file
        changes: dict[str, Value] = {SIMILARITY: round(similarity, DIGITS), PATH: path, **added}
        stale = [name for name in FIELDS.values() if name not in added]
        return Record.parse(self._records.line(record)).to_json(changes, stale) + b"\n"

    def _fields_of(self, context: int) -> tuple[str, dict[str, Value]]:
        other = Record.parse(self._records.line(context))
        added: dict[str, Value] = {
            target: other.fields[name]
            for name, target in FIELDS.items()
            if name in other.fields and (name != "normalized_text" or bytes(other.fields[name]) != b"null")
        }
        if not other.has_offset:
            added[FIELDS["offset"]] = msgspec.Raw(b"0.0")
        return other.audio_filepath, {target: added[target] for target in FIELDS.values() if target in added}
