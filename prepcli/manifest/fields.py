"""Splits one line of JSON into its fields with their original text."""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from prepcli.errors import RecordRejected, RejectReason
from prepcli.gate import FIELD_TYPES, check_field, is_missing
from prepcli.storage.containers import BEGINNING, MOVED, UNUSABLE, place_of

REJECT_SECONDS = "reject_seconds"
"""The field with the seconds of audio that a reject stands for, if these are not its duration: 0 for a line or word
that lies outside of its recording."""
# The fields that `rejects.jsonl` adds to a record. They are removed, so that a retried record is the original one.
REJECT_FIELDS = ("reject_reason", "reject_detail", "manifest_line", "manifest_filepath", REJECT_SECONDS, UNUSABLE)

AUDIO_FIELDS = ("audio_filepath", "context_audio_filepath", "ref_audio")
"""The fields whose value names audio: a relative path stays that of the same file if a line moves to another folder."""
OLD_AUDIO_KEYS = ("audio_filename", "audio_file")
"""The names of `audio_filepath` in manifests of older versions of NeMo."""

_BOM = b"\xef\xbb\xbf"
_OLD_AUDIO_KEY = re.compile(rb'"(?:audio_filename|audio_file)"(?=\s*:)')
_WHITESPACE = " \t\n\r"
_NULL = msgspec.Raw(b"null")
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
MAX_DIGITS = 4300
"""Maximum digits of an integer: Python, and so NeMo and lhotse, refuses longer ones (sys.set_int_max_str_digits)."""
_LONE_SURROGATE = re.compile(rb"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]")
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))


def decode_line(line: bytes) -> str:
    """The text of a line; raises `RecordRejected` with NOT_UTF8 if the line is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"byte 0x{line[error.start]:02x} at position {error.start}"
        detail = f"{place} is not UTF-8; if that is another encoding: iconv -f ENCODING -t UTF-8"
        raise RecordRejected(RejectReason.NOT_UTF8, detail) from None


def parse_fields(line: bytes) -> dict[str, msgspec.Raw]:
    """The top-level fields of one line, in order, each as its JSON text.

    If a field occurs several times, its last value is used.

    If the line has no `audio_filepath`, a field with one of `OLD_AUDIO_KEYS` gets this name. Fields that
    `rejects.jsonl` or a catalogue adds to a record are left out.

    Raises `RecordRejected` with NOT_UTF8 or BROKEN_JSON, with BAD_FIELD for half of a surrogate pair, and with
    MISSING_FIELD for a reject that has only the text of a line (`manifest_text`).
    """
    if not line.isascii():
        line = line.removeprefix(_BOM)
        decode_line(line)
    if b"\r" in line and b"\r" in line.rstrip(b"\r\n"):
        raise _broken("a carriage return within the line, which other readers take for its end")
    try:
        fields = _fields_decoder.decode(line)
        if may_hold_long_number(line):
            json.loads(line)
    except msgspec.ValidationError as error:
        raise _broken(f"the line is not a JSON object: {_lower(str(error))}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        fields = _fields_python_reads(line, str(error))
    except ValueError:
        raise _broken(f"broken JSON: a number of more than {MAX_DIGITS} digits") from None
    if "reject_reason" in fields and "reject_detail" in fields and "manifest_line" in fields:
        for name in REJECT_FIELDS:
            fields.pop(name, None)
        if fields.keys() == {"manifest_text"}:
            detail = "this reject has only the text of a line that cannot be read; correct the line in its manifest"
            raise RecordRejected(RejectReason.MISSING_FIELD, detail)
        _remove_place(fields)
    fields.pop(BEGINNING, None)
    fields.pop(MOVED, None)
    old = None if "audio_filepath" in fields else next((name for name in OLD_AUDIO_KEYS if name in fields), None)
    return fields if old is None else {"audio_filepath" if name == old else name: raw for name, raw in fields.items()}


def _remove_place(fields: dict[str, msgspec.Raw]) -> None:
    """Remove the fields of a reject that repeat the container and the member (or row) in `audio_filepath`."""
    path = decode_value(fields["audio_filepath"]) if "audio_filepath" in fields else None
    place = place_of(path) if isinstance(path, str) else None
    for name, value in (place.fields() if place else {}).items():
        if name in fields and decode_value(fields[name]) == value:
            del fields[name]


def with_audio_filepath(lines: bytes) -> bytes:
    """Lines with `audio_filepath` in place of `OLD_AUDIO_KEYS`.

    Returns the same object if the first line has none of the old keys, or if any line has the new one.
    """
    first = lines[: lines.find(b"\n") + 1] or lines
    if _OLD_AUDIO_KEY.search(first) is None or b'"audio_filepath"' in lines:
        return lines
    return _OLD_AUDIO_KEY.sub(b'"audio_filepath"', lines)


def may_hold_long_number(line: bytes) -> bool:
    """Whether the line has more consecutive digits (perhaps within a text) than Python may read as a number."""
    return len(line) > MAX_DIGITS and _LONG_NUMBER.search(line) is not None


def is_skipped(fields: Mapping[str, msgspec.Raw]) -> bool:
    """Whether the line is to be skipped: its `_skipme` is true in Python, the rule of NeMo's loader."""
    raw = fields.get("_skipme")
    return raw is not None and bool(decode_value(raw))


def check_fields(fields: Mapping[str, msgspec.Raw]) -> None:
    """Check the fields of a NeMo record that the gate knows, such as `text`.

    Raises:
        RecordRejected: BAD_FIELD if a field may not hold its value.
    """
    for name in FIELD_TYPES:
        raw = fields.get(name)
        if raw is not None and bytes(raw)[:1] != b'"' and not is_missing(value := decode_value(raw)):
            check_field(name, value)


def decode_value(raw: msgspec.Raw) -> Any:
    """The Python value of a field's JSON text."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:  # NaN or 1e5000, which `parse_fields` has checked that Python reads
        return json.loads(bytes(raw))


def shown(raw: msgspec.Raw) -> str:
    """The text of a field for a message: about the first 40 characters."""
    text = bytes(raw).decode("utf-8", "replace")
    return text if len(text) <= 40 else f"{text[:37]}..."


def _fields_python_reads(line: bytes, why: str) -> dict[str, msgspec.Raw]:
    """Fields of a line that is not strict JSON but that Python's `json`, and so NeMo, accepts.

    These are lines with `NaN` and `Infinity`, which `json.dump` writes. A field that is NaN is missing, and becomes
    null. Other lines are rejected with BROKEN_JSON; `why`, the error message of msgspec, is the detail. A line with a
    lone surrogate is rejected too, although Python reads it: a lone surrogate is not text, so it cannot be written as
    UTF-8, and other readers refuse the line.
    """
    text = line.decode("utf-8")
    decoder = json.JSONDecoder()
    try:
        if not isinstance(json.loads(text), dict):
            raise _broken("the line is not a JSON object")
    except (ValueError, RecursionError):
        raise _broken(_plain(why)) from None
    fields: dict[str, msgspec.Raw] = {}
    at = _next(text, text.index("{") + 1)
    while text[at] != "}":
        name, at = decoder.raw_decode(text, at)
        start = _next(text, text.index(":", at) + 1)
        value, at = decoder.raw_decode(text, start)
        fields[name] = _NULL if is_missing(value) else msgspec.Raw(text[start:at].encode())
        _refuse_surrogates(name, fields[name])
        at = _next(text, at)
        if text[at] == ",":
            at = _next(text, at + 1)
    return fields


def _refuse_surrogates(name: str, raw: msgspec.Raw) -> None:
    if not _is_text(name):
        where = f"the field name {json.dumps(name)}"
    elif _LONE_SURROGATE.search(bytes(raw).replace(rb"\\", b"__")):  # two backslashes are an escaped backslash
        where = name
    else:
        return
    raise RecordRejected(RejectReason.BAD_FIELD, f"{where} holds half of a surrogate pair")


def _is_text(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _next(text: str, at: int) -> int:
    while text[at] in _WHITESPACE:
        at += 1
    return at


def _broken(detail: str) -> RecordRejected:
    return RecordRejected(RejectReason.BROKEN_JSON, detail)


def _plain(why: str) -> str:
    if "truncated" in why:
        return "broken JSON: the line ends too early"
    return f"broken JSON: {_lower(why.removeprefix('JSON is malformed: '))}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
