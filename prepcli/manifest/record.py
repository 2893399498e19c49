"""A line of a NeMo manifest as a record: the fields that every job needs are typed, others keep their JSON text."""

import json
import math
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from prepcli.errors import RecordRejected, RejectReason
from prepcli.gate import MAX_SECONDS
from prepcli.manifest.fields import check_fields, decode_value, parse_fields, shown
from prepcli.storage.containers import UNUSABLE

Value: TypeAlias = msgspec.Raw | bytes | str | int | float | None

_text_decoder = msgspec.json.Decoder(str)
_number_decoder = msgspec.json.Decoder(float)
_encode_json = msgspec.json.Encoder().encode


class Record:
    """One usable manifest line: the fields that every job needs, typed, and all fields as their original text.

    `duration` and `offset` are in seconds; `offset` is 0.0 and `has_offset` False when it is absent or null.
    """

    __slots__ = ("audio_filepath", "duration", "fields", "has_offset", "offset")

    def __init__(self, fields: dict[str, msgspec.Raw]) -> None:
        """Take the fields of a line; raises `RecordRejected` if a field that every job needs is unusable."""
        self.fields = fields
        if UNUSABLE in fields:
            raise _said_by_catalogue(fields[UNUSABLE])
        self.audio_filepath: str = audio_filepath_of(fields)
        self.duration: float = _duration(fields)
        offset = offset_of(fields)
        self.has_offset: bool = offset is not None
        self.offset: float = offset or 0.0

    @classmethod
    def parse(cls, line: bytes) -> "Record":
        """Read one line (with or without its line end).

        A line of a `rejects.jsonl` gives the original record. Raises `RecordRejected` with NOT_UTF8, BROKEN_JSON,
        MISSING_FIELD, BAD_FIELD, BAD_DURATION or BAD_OFFSET. `_skipme` is ignored here: see
        `prepcli.manifest.fields.is_skipped`.
        """
        record = cls(parse_fields(line))
        check_fields(record.fields)
        return record

    @classmethod
    def of_checked(cls, line: bytes) -> "Record":
        """Read a line that an index has found usable: a third faster than `parse`, which looks at more fields."""
        return cls(parse_fields(line))

    def get(self, name: str, default: Any = None) -> Any:
        """The decoded value of a field, or `default` if the field is missing."""
        raw = self.fields.get(name)
        return default if raw is None else decode_value(raw)

    def text(self, name: str) -> str | None:
        """The text of a field; None if it is missing or null. Raises `RecordRejected` (BAD_FIELD) for other values."""
        value = self.get(name)
        if value is None or isinstance(value, str):
            return value
        raise RecordRejected(RejectReason.BAD_FIELD, f"{name} is {shown(self.fields[name])}; it must be a string")

    def to_json(self, changes: Mapping[str, Value], remove: Collection[str] = ()) -> bytes:
        """The record as one line of JSON without line end, formatted like Python's `json.dump`.

        A changed field keeps its place, a new field goes to the end, a removed field is left out, and all other fields
        keep their text. `msgspec.Raw` and `bytes` must be JSON and are written unchanged; other values are encoded,
        with non-ASCII text as raw UTF-8. Raises `ValueError` for NaN and infinities, which JSON does not have.
        """
        return fields_to_json(self.fields, changes, remove)


def _said_by_catalogue(raw: msgspec.Raw) -> RecordRejected:
    """The reject of a record in a container, from the text `REASON: DETAIL` in the record's line of the catalogue."""
    reason, _, detail = str(decode_value(raw)).partition(": ")
    try:
        return RecordRejected(RejectReason(reason), detail)
    except ValueError:
        return RecordRejected(RejectReason.BAD_FIELD, f"{UNUSABLE} is {shown(raw)}")


def fields_to_json(
    fields: Mapping[str, msgspec.Raw], changes: Mapping[str, Value], remove: Collection[str] = ()
) -> bytes:
    """The fields as one line of JSON by the rules of `Record.to_json`, also for a line that is not a usable record."""
    parts: list[bytes | msgspec.Raw] = []
    for name, raw in fields.items():
        if name in remove:
            continue
        parts.append(_key(name))
        parts.append(_encode(changes[name]) if name in changes else raw)
    for name, value in changes.items():
        if name not in fields and name not in remove:
            parts.append(_key(name))
            parts.append(_encode(value))
    if not parts:
        return b"{}"
    # Every key includes the ", " before it; for the first key, the opening brace replaces it.
    parts[0] = b"{" + bytes(parts[0])[2:]
    parts.append(b"}")
    return b"".join(parts)


def audio_filepath_of(fields: Mapping[str, msgspec.Raw]) -> str:
    """The path in the field `audio_filepath`; raises `RecordRejected` if it is missing or not a usable path."""
    raw = fields.get("audio_filepath")
    if raw is None:
        raise RecordRejected(RejectReason.MISSING_FIELD, "there is no audio_filepath")
    try:
        path = _text_decoder.decode(raw)
    except msgspec.DecodeError:
        raise _bad(RejectReason.BAD_FIELD, "audio_filepath", raw, "a path") from None
    if not path or "\0" in path:
        raise _bad(RejectReason.BAD_FIELD, "audio_filepath", raw, "a path")
    return path


def _duration(fields: Mapping[str, msgspec.Raw]) -> float:
    raw = fields.get("duration")
    if raw is None:
        raise RecordRejected(RejectReason.BAD_DURATION, "there is no duration")
    duration = number_of(raw)
    if duration == 0 and "conversations" in fields:  # of texts alone
        return 0.0
    if duration is None or not duration > 0:
        raise _bad(RejectReason.BAD_DURATION, "duration", raw, "a number of seconds above 0")
    if duration > MAX_SECONDS:
        raise _bad(RejectReason.BAD_DURATION, "duration", raw, f"at most {MAX_SECONDS:.0f} seconds")
    return duration


def offset_of(fields: Mapping[str, msgspec.Raw]) -> float | None:
    """The offset in seconds; None if it is missing or null. Raises `RecordRejected` for an invalid offset."""
    raw = fields.get("offset")
    if raw is None or bytes(raw) == b"null":
        return None
    offset = number_of(raw)
    if offset is None or offset < 0:
        raise _bad(RejectReason.BAD_OFFSET, "offset", raw, "a number of seconds, 0 or more")
    if offset > MAX_SECONDS:
        raise _bad(RejectReason.BAD_OFFSET, "offset", raw, f"at most {MAX_SECONDS:.0f} seconds")
    return offset


def number_of(raw: msgspec.Raw) -> float | None:
    """The value of a finite JSON number; None for anything else.

    msgspec itself refuses strings, booleans, NaN and numbers out of range.
    """
    try:
        number = _number_decoder.decode(raw)
    except msgspec.DecodeError:
        return None
    return number if math.isfinite(number) else None


def _bad(reason: RejectReason, name: str, raw: msgspec.Raw, wanted: str) -> RecordRejected:
    text = "null or NaN" if bytes(raw) == b"null" else shown(raw)
    kind = {'"': "a string", "{": "an object", "[": "a list"}.get(text[0], "")
    return RecordRejected(reason, f"{name} is {text}{f', {kind}' if kind else ''}; it must be {wanted}")


def _encode(value: Value) -> bytes | msgspec.Raw:
    if type(value) is str or type(value) is int:  # nearly all values: paths, and numbers of shards
        return _encode_json(value)
    if isinstance(value, (msgspec.Raw, bytes)):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} cannot be written as JSON")
    return _encode_json(value)


@lru_cache(maxsize=4096)
def _key(name: str) -> bytes:
    """The field's name in JSON, with the comma before it and the colon after it (cached: a manifest has few names)."""
    return b", " + json.dumps(name, ensure_ascii=False).encode() + b": "
