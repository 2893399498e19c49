"""Recognizes JSON and YAML of other kinds than NeMo records: of lhotse, pairs of audio and text, lists of objects."""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from prepcli.formats import tables
from prepcli.formats.yaml_text import parse_yaml
from prepcli.manifest.fields import OLD_AUDIO_KEYS
from prepcli.manifest.remedies import conversion, make_manifest_of, new_name
from prepcli.manifest.sources import open_bytes

RECORDS = "NeMo records"
CUTS, RECORDINGS, SUPERVISIONS = "lhotse cuts", "lhotse recordings", "lhotse supervisions"
PAIRS, CONVERSATIONS = "records with the audio in {!r}", "conversations"
ROWS, OTHER = "rows of unknown columns", "lines without an object"
ANY_LINES = (CUTS, RECORDINGS, SUPERVISIONS, PAIRS, CONVERSATIONS)
_LHOTSE = (CUTS, RECORDINGS, SUPERVISIONS)
_AUDIO_OF_CONVERSATIONS = {"audios": ".audios[0]", "audio": ".audio", "sound": ".sound", "audio_path": ".audio_path"}
_NESTED = re.compile(r'\{\s*("(?:[^"\\]|\\.)*")\s*:\s*([\[{])')
_SAMPLE = 100
_LONG_LINE = 8 << 20


class FileKind(NamedTuple):
    """The kind of a file.

    Attributes:
        name: its name in messages.
        advice: one remedy.
        source: the format of `make-manifest` that reads it; None if it reads no such file.
        lines: one of the kinds above, if the file has one such JSON object per line, or `ROWS` or `OTHER`.
    """

    name: str
    advice: str
    source: str | None = None
    lines: str | None = None


def kind_of_json(path: str, text: str, is_whole: bool) -> FileKind | None:
    """The kind of a file that begins with a bracket or a brace; None for NeMo records and objects of no known kind.

    Args:
        path: the path of the file.
        text: the beginning of the file, without white space around it.
        is_whole: whether `text` is the whole file.
    """
    lines = [line for line in text.split("\n", _SAMPLE) if line.strip()][:_SAMPLE]
    first = decoded(lines[0])
    if text[0] == "[":
        whole = decoded(text) if is_whole else None
        if not isinstance(whole, list) and (is_whole or first is not None):
            return None
        return _of_value(path, _first_value(text[1:].lstrip()), ".[]", "a JSON list")
    if len(lines) == 1 and not is_whole:  # the first line is long
        with open_bytes(path) as file:
            text = file.read(_LONG_LINE).decode("utf-8-sig", "replace").strip()
        is_whole = len(text) < _LONG_LINE // 4 and "\n" not in text
        lines = [text.partition("\n")[0]]
        first = decoded(lines[0])
    if isinstance(first, dict):
        nested = _kind_of_nested(path, text) if is_whole and len(lines) == 1 else None
        return nested or _kind_of_lines(path, [first, *map(decoded, lines[1:])])
    # Among lines with an object each, those of an object over several lines are broken.
    is_long = not is_whole and len(lines) > 1 and lines[0].strip() == "{" and lines[1].lstrip()[:1] == '"'
    value = _first_value(text)
    if is_long or (isinstance(value, dict) and not any(isinstance(decoded(line), dict) for line in lines)):
        command = conversion(path, "jq -c .", new_name(path, suffix=".jsonl"))
        several = FileKind("a JSON object over several lines", f"write one object per line: {command}")
        return _kind_of_nested(path, text) or (several if "\n" in text else None)
    return None


def kind_of_object(fields: dict[str, Any]) -> str | None:
    """The kind of a JSON object, by the names of its fields; None if they show nothing."""
    turns = fields.get("conversations")
    if isinstance(turns, list) and turns and isinstance(turns[0], dict) and "from" in turns[0]:
        return CONVERSATIONS  # filter and split write them with the path of their first audio
    if "audio_filepath" in fields:
        return RECORDS
    if isinstance(turns, list) or isinstance(fields.get("messages"), list):
        return CONVERSATIONS
    if "reject_reason" in fields:  # a reject without a place of audio can be one of records or of conversations
        return None
    if str(fields.get("type")).endswith("Cut"):
        return CUTS
    if isinstance(fields.get("sources"), list) and "id" in fields:
        return RECORDINGS
    if "recording_id" in fields:
        return SUPERVISIONS
    if any(name in fields for name in OLD_AUDIO_KEYS):
        return RECORDS
    key = next((name for name in tables.AUDIO if name in fields), None)
    return None if key is None else PAIRS.format(key)


def kind_of_yaml(path: str, text: str) -> FileKind:
    """The kind of a YAML file that begins with `text`: a manifest of lhotse, or a configuration."""
    if text.startswith("- "):
        import yaml

        end = text.find("\n- ")
        try:
            entries = parse_yaml(text if end < 0 else text[:end])
        except yaml.YAMLError:
            entries = None
        kind = kind_of_object(entries[0]) if isinstance(entries, list) and isinstance(entries[0], dict) else None
        if kind in _LHOTSE:
            new = new_name(path, suffix=".jsonl")
            copy = f"lhotse copy {shlex.quote(path)} {shlex.quote(new)}"
            return FileKind(f"{kind} in YAML", f"write them as JSON lines: {copy}, and then {_make(new, kind)}")
    return FileKind("a YAML file", "give the manifests or data sets that it names")


def _kind_of_lines(path: str, objects: Sequence[object]) -> FileKind | None:
    """The kind of JSON lines, if all of them that are objects are of one kind other than NeMo records.

    Among conversations, objects of no known kind are such without turns.
    """
    rows = [fields for fields in objects if isinstance(fields, dict)]
    kinds = [kind_of_object(fields) for fields in rows]
    if {*kinds} - {None} == {CONVERSATIONS}:
        fields = rows[kinds.index(CONVERSATIONS)]
        return FileKind(CONVERSATIONS, _advice_on_conversations(path, fields, ""), lines=CONVERSATIONS)
    kind, *others = dict.fromkeys(kinds)
    if kind is None or kind == RECORDS or (others and not {kind, *others} <= {*_LHOTSE}):
        return None
    advice = f"make a manifest of their audio: {_make(path, kind)}"
    return FileKind(kind, advice, *(("lhotse", kind) if kind in _LHOTSE else ("jsonl", PAIRS)))


def _kind_of_nested(path: str, text: str) -> FileKind | None:
    """The kind of a file that is one JSON object with all records in it; None if it is not, such as a single record."""
    fields = _first_value(text)
    if isinstance(fields, dict) and kind_of_object(fields) is not None:
        return None
    match = _NESTED.match(text)
    if match is None:
        return None
    key, bracket = match.groups()
    value = _first_value(text[match.end() :].lstrip() if bracket == "[" else text[match.end() - 1 :])
    if not isinstance(value, dict):
        return None
    if bracket == "[":
        return _of_value(path, value, f".[{key}][]", f"a JSON object that holds a list, {key},")
    if kind_of_object(value) is None:
        return None
    return _of_value(path, value, "to_entries[] | {id: .key} + .value", "a JSON object with an object for each id,")


def _of_value(path: str, value: object, rows: str, what: str) -> FileKind:
    """The kind of one JSON value with objects such as `value` in it, which the filter `rows` of jq separates."""
    new = new_name(path, suffix=".jsonl")
    kind = kind_of_object(value) if isinstance(value, dict) else None
    if kind == CONVERSATIONS:
        assert isinstance(value, dict)
        return FileKind(f"{what} of {kind}", _advice_on_conversations(path, value, f"{rows} | "))
    advice = f"write one object per line: {conversion(path, f'jq -c {shlex.quote(rows)}', new)}"
    if kind is None:
        return FileKind(what.rstrip(","), advice)
    return FileKind(f"{what} of {kind}", advice if kind == RECORDS else f"{advice}, and then {_make(new, kind)}")


def _advice_on_conversations(path: str, fields: dict[str, Any], rows: str) -> str:
    """Commands that read conversations, or make pairs of audio and last turn, if the fields show their places."""
    turns, value = ("messages", "content") if isinstance(fields.get("messages"), list) else ("conversations", "value")
    audio = next((place for name, place in _AUDIO_OF_CONVERSATIONS.items() if fields.get(name)), None)
    last = fields[turns][-1] if fields[turns] else None
    if audio is None or not isinstance(last, dict) or not isinstance(last.get(value), str):
        if not rows:
            return f"prepcli conversations-to-tarred {shlex.quote(path)} OUT reads conversations"
        new = new_name(path, suffix=".jsonl")
        lines = conversion(path, f"jq -c {shlex.quote(rows.removesuffix(' | '))}", new)
        return f"write one object per line: {lines}, and then prepcli conversations-to-tarred {shlex.quote(new)} OUT"
    new = new_name(path, ".pairs", suffix=".jsonl")
    pairs = f"{rows}{{audio: {audio}, text: .{turns}[-1].{value}}}"
    command = conversion(path, f"jq -c {shlex.quote(pairs)}", new)
    make = f"make pairs of the audio and the last turn: {command}, and then {make_manifest_of(new)}"
    return make if rows else f"prepcli conversations-to-tarred {shlex.quote(path)} OUT reads them whole; or {make}"


def _make(path: str, kind: str) -> str:
    return make_manifest_of(f"RECORDINGS,{path}" if kind == SUPERVISIONS else path)


def _first_value(text: str) -> object:
    """The JSON value with which `text` begins; None if it is not complete."""
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def decoded(text: str | bytes) -> Any:
    """The value of a JSON text, in which NaN may be; None if it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
