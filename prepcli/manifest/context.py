"""Reads the context of a record: a second segment of audio, which fields such as `context_audio_filepath` name."""

from typing import Any

from prepcli.errors import RecordRejected, RejectReason
from prepcli.manifest.record import Record

CONTEXT_FIELDS = {
    "context_audio_filepath": "audio_filepath",
    "context_audio_duration": "duration",
    "context_audio_offset": "offset",
}
"""The fields of a record's context, each with the matching field of the record itself."""
CHANNEL = "context_audio_channel"
"""The channel of the context in its file; no program but prepcli reads it."""


def context_of(record: Record, *, required: bool = True) -> Record | None:
    """The context of a record, as a record with a path, an offset and a duration.

    Returns None for a record without a context, unless a context is `required`.

    Raises:
        RecordRejected: MISSING_FIELD if the context is incomplete, or missing and `required`; BAD_FIELD, BAD_DURATION
            or BAD_OFFSET for an invalid value.
    """
    named = {name: raw for name in CONTEXT_FIELDS if (raw := record.fields.get(name)) and bytes(raw) != b"null"}
    if not named and not required:
        return None
    missing = [name for name in CONTEXT_FIELDS if name not in named and name != "context_audio_offset"]
    if missing:
        why = "the context is incomplete" if named else "others have a context"
        raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no {' and no '.join(missing)}: {why}")
    try:
        return Record({CONTEXT_FIELDS[name]: raw for name, raw in named.items()})
    except RecordRejected as rejected:
        raise in_context(rejected) from None


def context_channel(record: Record) -> Any:
    """The channel of a record's context, unchecked: that of `CHANNEL`; without it, that of the record in its own file.

    In another file, a channel with the same number may be another speaker's.
    """
    named = record.get(CHANNEL)
    is_own_file = record.get("context_audio_filepath") == record.audio_filepath
    return record.get("channel") if named is None and is_own_file else named


def in_context(rejected: RecordRejected) -> RecordRejected:
    """The same reject with a message about the record's context."""
    return RecordRejected(rejected.reason, f"context: {rejected.detail}")
