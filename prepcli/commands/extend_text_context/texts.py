"""The text that describes the voice of a cut, and the cut with this text as its context."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.formats.shar import decode_json

CONTEXT_TEXT = "context_text"
EMOTION = "emotion"
NORMALIZED = "normalized_text"

PRESETS = {
    # The fifth part of the id.
    "rivaLindyRodney": r"^(?:[^-]*-){4}([^-]*)",
    # The fifth part of the id without its first and its last _n.
    "rivaEmmaMeganSeanTom": r"^(?:[^-]*-){4}[^_-]*_([^-]*)_[^_-]*(?:-|$)",
    # The fourth part of the id.
    "jhsdGtc20Amp20Keynote": r"^(?:[^-]*-){3}([^-]*)",
}
"""Patterns for the ids of supervisions, which suffixes are taken from."""

Fields = Mapping[str, msgspec.Raw]
Suffix = Callable[[Fields, Fields], str]
"""From a supervision and its custom fields; raises `RecordRejected` where there is none."""


def parse_suffix(suffix: str | None) -> Suffix:
    """What a value of `--suffix` means.

    Raises:
        UsageError: it means nothing.
    """
    if suffix is None:
        return lambda supervision, custom: ""
    if suffix in PRESETS:
        return _Pattern(PRESETS[suffix])
    kind, _, value = suffix.partition(":")
    if kind == "field" and value:
        return _Field(value)
    if kind != "regex" or not value:
        raise UsageError(
            f"--suffix {suffix} is not known; give field:NAME, regex:PATTERN, or one of {', '.join(PRESETS)}"
        )
    try:
        groups = re.compile(value).groups
    except re.error as error:
        raise UsageError(f"--suffix {suffix}: {value} is not a regular expression: {error}") from None
    if not groups:
        raise UsageError(f"--suffix {suffix}: the pattern needs a group in parentheses, which is the suffix")
    return _Pattern(value)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str

    def __call__(self, supervision: Fields, custom: Fields) -> str:
        found = _value(custom.get(self.name) or supervision.get(self.name))
        if not isinstance(found, str | int) or found == "":
            raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no {self.name}, which --suffix names")
        return str(found)


@dataclass(frozen=True, slots=True)
class _Pattern:
    pattern: str

    def __call__(self, supervision: Fields, custom: Fields) -> str:
        id = str(_value(supervision.get("id")))
        match = re.search(self.pattern, id)
        found = "_".join(filter(None, match.groups())) if match else ""
        if not found:
            raise RecordRejected(RejectReason.BAD_FIELD, f"the id {id} of its supervision has no suffix (--suffix)")
        return found


def _value(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else decode_json(bytes(raw), Any)


@dataclass(frozen=True, slots=True)
class NewCut:
    """A cut as a line without line end.

    `rejected` says why it has no text as its context, `lost_text` whether its normalized text was left out.
    """

    line: bytes
    rejected: RecordRejected | None
    lost_text: bool


def with_text_context(line: bytes, suffix: Suffix, kept: Collection[str]) -> NewCut:
    """The cut in a line, with a text as its context; other custom fields but those in `kept` are left out.

    Raises:
        ValueError: the line is not a cut (`msgspec.DecodeError` is one).
    """
    cut: dict[str, msgspec.Raw] = decode_json(line, dict[str, msgspec.Raw])
    raw = cut.get("supervisions")
    supervisions: list[dict[str, msgspec.Raw]] = (
        [] if raw is None else decode_json(bytes(raw), list[dict[str, msgspec.Raw]])
    )
    if not supervisions:
        why = "the cut has no supervision, and so no speaker"
        return NewCut(line, RecordRejected(RejectReason.MISSING_FIELD, why), False)
    first = supervisions[0]
    custom = _value_fields(first.get("custom"))
    found: dict[str, Any] = {}
    rejected: RecordRejected | None = None
    try:
        found[CONTEXT_TEXT] = _text(first, custom, suffix)
    except RecordRejected as error:
        rejected = error
    found |= {name: custom[name] for name in (EMOTION, *kept) if name in custom}
    first["custom"] = msgspec.Raw(msgspec.json.encode(found))
    cut["supervisions"] = msgspec.Raw(msgspec.json.encode(supervisions))
    return NewCut(msgspec.json.encode(cut), rejected, NORMALIZED in custom and NORMALIZED not in kept)


def _value_fields(raw: msgspec.Raw | None) -> dict[str, msgspec.Raw]:
    if raw is None or bytes(raw) == b"null":
        return {}
    fields: dict[str, msgspec.Raw] = decode_json(bytes(raw), dict[str, msgspec.Raw])
    return fields


def _text(supervision: Fields, custom: Fields, suffix: Suffix) -> str:
    speaker = _value(supervision.get("speaker"))
    if not isinstance(speaker, str) or not speaker.strip("| "):
        raise RecordRejected(RejectReason.MISSING_FIELD, "there is no speaker")
    added = suffix(supervision, custom)
    return f"Speaker and Emotion: {speaker.rstrip('| ')}{added and f'_{added}'} |"
