"""Conversations: lines with turns of text and audio, in the forms of NeMo, ShareGPT, ms-swift and Qwen.

All forms become turns here, so that every command reads them alike. A conversation of which one turn cannot be used is
a reject as a whole.
"""

import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.audio_names import is_audio_name
from prepcli.gate import MAX_SECONDS, is_missing
from prepcli.interface.printing import number_of
from prepcli.manifest.fields import decode_value
from prepcli.manifest.normal_text import normal_text

ROLES = {
    **dict.fromkeys(("user", "human"), "User"),
    **dict.fromkeys(("assistant", "gpt", "model", "chatbot", "bot"), "Assistant"),
    "system": "System",
}
"""The roles of all forms, each with NeMo's name. NeMo takes every role but human and user for the assistant."""
PLACEHOLDERS = ("<sound>", "<speech>", "<audio>")
"""The texts that stand for audio: the first two in NeMo's ShareGPT, the third in ms-swift."""
_SOUND = ("sound", "ori_sound")
_KINDS_OF_CONTENT = ("text", "audio", "audio_url", "input_audio")
_AUDIO_KEYS = ("audio_url", "audio", "audio_path", "path")
_OWN = ("conversations", "messages", "audios", *_SOUND, "audio_filepath", "duration", "offset")


class Turn(NamedTuple):
    """A turn of a conversation.

    Attributes:
        role: `User`, `Assistant` or `System`.
        text: its text; None for audio.
        audio: the path of its audio, as the line names it; empty for text.
        offset: seconds from the start of the audio.
        duration: seconds of audio; None: to the end.
        more: further fields of the turn.
    """

    role: str
    text: str | None
    audio: str = ""
    offset: float = 0.0
    duration: float | None = None
    more: Mapping[str, Any] = {}

    def document(self) -> dict[str, Any]:
        """The turn in NeMo's form."""
        if self.text is not None:
            return {"from": self.role, "type": "text", "value": self.text, **self.more}
        place = {"offset": self.offset} if self.offset else {}
        length = {} if self.duration is None else {"duration": self.duration}
        return {"from": self.role, "type": "audio", "value": self.audio, **length, **place, **self.more}


def values_of(raw: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    """The values of the fields of a line (`prepcli.manifest.fields.parse_fields`).

    Raises:
        RecordRejected: BROKEN_JSON for values that are nested too deeply.
    """
    try:
        return {name: decode_value(text) for name, text in raw.items()}
    except RecursionError:
        raise RecordRejected(RejectReason.BROKEN_JSON, "broken JSON: it is nested too deeply") from None


def turns_of(fields: Mapping[str, Any], placeholders: Sequence[str] = PLACEHOLDERS) -> list[Turn]:
    """The turns of a line.

    Raises:
        RecordRejected: MISSING_FIELD or BAD_FIELD, with the number of the turn, if one cannot be used: its role is
            unknown, a placeholder has no audio, audio has no placeholder, or there are no turns.
    """
    name = next((name for name in ("conversations", "messages") if isinstance(fields.get(name), list)), None)
    if name is None or not fields[name]:
        raise RecordRejected(RejectReason.MISSING_FIELD, f"{name or 'conversations'} has no turns")
    custom = fields.get("custom")
    if not (is_missing(custom) or isinstance(custom, dict)):
        raise _bad(f"custom is {_shown(custom)}; NeMo reads only an object")
    sounds = _Sounds(fields, placeholders)
    turns: list[Turn] = []
    made = (turn for given in fields[name] for turn in _turns(given, sounds))
    while True:
        try:
            turns.append(next(made))
        except StopIteration:
            break
        except RecordRejected as rejected:
            raise of_turn(len(turns) + 1, rejected) from None
    sounds.check_all_used()
    return turns


def of_turn(number: int, rejected: RecordRejected) -> RecordRejected:
    """The reject of a conversation because of one turn.

    `number`: the number of the turn among those of `turns_of`, from 1. A text with placeholders is several turns.
    """
    return RecordRejected(rejected.reason, f"turn {number}: {rejected.detail}")


class _Sounds:
    """The audio of a line that its placeholders stand for, in their order."""

    def __init__(self, fields: Mapping[str, Any], placeholders: Sequence[str]) -> None:
        self._pattern = re.compile("|".join(map(re.escape, sorted(placeholders, key=len, reverse=True))))
        audios = fields.get("audios", fields.get("audio") if "messages" in fields else None)  # ms-swift reads both
        sound = next((fields[name] for name in _SOUND if not is_missing(fields.get(name))), None)
        self._is_shared = audios is None and sound is not None
        several = audios if isinstance(audios, list) else [] if is_missing(audios) else [audios]
        named = [sound] if self._is_shared else several
        if isinstance(sound, list) and self._is_shared:
            raise _bad(
                f"sound has {number_of(len(sound), 'file')}, and this form has one: name several in audios, in their "
                "order"
            )
        if not isinstance(named, list):
            raise _bad(f"audios is {_shown(named)}, not a list of files")
        self._named = [_path(item) for item in named]
        self._num_used = 0

    def split(self, text: str) -> Iterator[str | None]:
        """Yield the parts of a text, stripped, and None for each placeholder; a text without any as it is."""
        if not self._pattern.search(text):
            yield text
            return
        at = 0
        for match in self._pattern.finditer(text):
            if part := text[at : match.start()].strip():
                yield part
            yield None
            at = match.end()
        if part := text[at:].strip():
            yield part

    def next(self) -> str:
        """The audio of the next placeholder."""
        used = 0 if self._is_shared else self._num_used
        if used >= len(self._named):
            raise _bad("a placeholder for audio, and the line names no audio for it")
        self._num_used += 1
        return self._named[used]

    def check_all_used(self) -> None:
        """Raise `RecordRejected` if the line names audio for which there is no placeholder."""
        if self._num_used < len(self._named):
            raise _bad(f"the line has {len(self._named)} audio, and its turns have {self._num_used} placeholders")


def _turns(given: Any, sounds: _Sounds) -> Iterator[Turn]:
    """The turns that one item of the list is: several, if its text has placeholders, or its content is a list."""
    if not isinstance(given, dict):
        raise _bad(f"{_shown(given)} is not an object")
    named = given.get("from", given.get("role"))
    role = ROLES.get(named.lower()) if isinstance(named, str) else None
    if role is None:
        raise _bad(f"the role {_shown(named)}; known are {', '.join(ROLES)}")
    value = given.get("value", given.get("content"))
    if "type" in given:
        yield _typed(given, role, value)
        return
    if value == []:
        raise _bad("an empty content")
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            yield _of_content(item, role, given)
            continue
        if not isinstance(item, str):
            raise _bad(f"{_shown(item)} in place of a text")
        if is_audio_name(item) and not any(map(str.isspace, item)):
            what = f"the text {_shown(item)} is the name of an audio file"
            raise _bad(f'{what}: in NeMo\'s form, the turn needs "type": "audio"; in others, a placeholder')
        for part in sounds.split(item):
            yield Turn(role, part, more=_more(given)) if part is not None else _audio(given, role, sounds.next())


def _typed(given: Mapping[str, Any], role: str, value: Any) -> Turn:
    """A turn in NeMo's form."""
    if given["type"] == "audio":
        return _audio(given, role, _path(value))
    if given["type"] != "text" or not isinstance(value, str):
        raise _bad(f"the type {_shown(given['type'])} with the value {_shown(value)}; known are audio and text")
    return Turn(role, value, more=_more(given))


def _of_content(item: Mapping[str, Any], role: str, given: Mapping[str, Any]) -> Turn:
    """An item of a list of contents in Qwen's form, with the further fields of its turn and its own."""
    text, key = item.get("text"), next((key for key in _AUDIO_KEYS if not is_missing(item.get(key))), None)
    kind = item.get("type")
    if not (is_missing(kind) or kind in _KINDS_OF_CONTENT):
        raise _bad(f"a content of type {_shown(kind)}; text and audio are read")
    if (key is None) is not isinstance(text, str):
        what = f"it has no text, and no {', '.join(_AUDIO_KEYS)}" if key is None else "it is either text or audio"
        raise _bad(f"a content of type {_shown(kind)}; {what}")
    both = {**given, **{name: value for name, value in item.items() if name not in (*_AUDIO_KEYS, "text")}}
    return Turn(role, text, more=_more(both)) if key is None else _audio(both, role, _path(item[key]))


def _audio(given: Mapping[str, Any], role: str, path: str) -> Turn:
    offset, duration = (_seconds(given.get(name), name) for name in ("offset", "duration"))
    if duration == 0:
        raise RecordRejected(RejectReason.BAD_DURATION, "duration is 0")
    return Turn(role, None, path, offset or 0.0, duration, _more(given))


def _more(given: Mapping[str, Any]) -> dict[str, Any]:
    known = ("from", "role", "type", "value", "content", "offset", "duration")
    return {name: value for name, value in given.items() if name not in known and not is_missing(value)}


def _path(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("path", value.get("url"))
    if not isinstance(value, str) or not value or "\0" in value or value.startswith("data:"):
        raise _bad(f"{_shown(value)} in place of a path")
    return value.removeprefix("file://")


def _seconds(value: Any, name: str) -> float | None:
    if is_missing(value):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_SECONDS:
        raise RecordRejected(RejectReason.BAD_DURATION, f"{name} is {_shown(value)}; it must be a number of seconds")
    return float(value)


def _bad(what: str) -> RecordRejected:
    return RecordRejected(RejectReason.BAD_FIELD, what)


def _shown(value: Any) -> str:
    """A value for a message, with an ellipsis in place of most of a long one."""
    return reprlib.repr(value)


def other_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a line besides its turns, their audio, and its place and duration, which `filter` writes."""
    return {name: value for name, value in fields.items() if name not in _OWN and not is_missing(value)}


def text_of(turns: Sequence[Turn]) -> str:
    """The roles and normal texts of a conversation, a line for consecutive turns of a role; empty without any text.

    Conversations that say the same in different forms have the same text, whatever their audio.
    """
    said = [
        (role, normal_text(" ".join(turn.text or "" for turn in of_role)))
        for role, of_role in groupby(turns, attrgetter("role"))
    ]
    return "\n".join(f"{role}: {text}" for role, text in said) if any(text for _, text in said) else ""


def is_left_out(fields: Mapping[str, Any]) -> bool:
    """Whether the user has marked a conversation to be skipped, as NeMo does: `custom._skipme`, or `_skipme`."""
    custom = fields.get("custom")
    return bool(fields.get("_skipme") or (isinstance(custom, dict) and custom.get("_skipme")))
