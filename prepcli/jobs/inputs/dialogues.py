"""Recordings of two voices as inputs: the segments of each, next to each other in a manifest, are a conversation."""

import posixpath
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.formats.names import absolute_folder, path_in
from prepcli.jobs.inputs.catalogue import line, unusable
from prepcli.jobs.inputs.kinds import CONVERSATIONS
from prepcli.jobs.inputs.named import OtherInputs
from prepcli.manifest.conversations import of_turn, turns_of, values_of
from prepcli.manifest.fields import parse_fields
from prepcli.manifest.foreign import check_is_json_lines
from prepcli.manifest.scan import Range, lines_of
from prepcli.storage.containers import Catalogue
from prepcli.storage.paths import is_dir, path_of

_OWN = ("offset", "duration", "channel", "text", "words")


def dialogues_in(agent_channel: int, audio_base_dir: Any) -> OtherInputs:
    """Reads manifests whose records are segments with a `channel`, as `segment` writes them of stereo recordings.

    `agent_channel`: the channel of the assistant, whose other one is that of the user.
    """

    def found(path: str, _: bool) -> list[Catalogue]:
        if is_dir(path):
            raise UsageError(f"{path} is a folder; of two voices, a manifest of segments is read: prepcli segment")
        check_is_json_lines(path)
        folder = absolute_folder(str(audio_base_dir or path_of(path).parent))
        read = partial(_lines, folder=folder, agent_channel=agent_channel)
        return [Catalogue(path, read, (), f"dialogues {folder} {agent_channel}", CONVERSATIONS)]

    return found


def _lines(path: str, folder: str, agent_channel: int) -> Iterator[bytes]:
    """The line of a catalogue for each recording, in place of that of its first segment; the others become blank.

    Lines without a segment stay as they are: the reader reports why they cannot be used.
    """
    known = set[str]()
    segments: list[dict[str, Any]] = []
    others: list[bytes] = []
    for text in lines_of(Range(path, 0, None)):
        fields = _segment(text)
        if segments and fields and fields["audio_filepath"] != segments[0]["audio_filepath"]:
            yield _dialogue(segments, folder, agent_channel)
            yield from others
            segments, others = [], []
        if fields and not segments:
            name = fields["audio_filepath"]
            if name in known:
                raise UsageError(f"the segments of {name} are in several places of {path}: sort it by audio_filepath")
            known.add(name)
        elif segments:
            others.append(b"\n" if fields else text.rstrip(b"\r\n") + b"\n")
        else:
            yield text.rstrip(b"\r\n") + b"\n"
        if fields:
            segments.append(fields)
    if segments:
        yield _dialogue(segments, folder, agent_channel)
        yield from others


def _segment(text: bytes) -> dict[str, Any]:
    """The fields of a line; empty if they are not those of a segment."""
    try:
        fields = values_of(parse_fields(text)) if text.strip() else {}
    except RecordRejected:
        return {}
    name = fields.get("audio_filepath")
    return fields if isinstance(name, str) and name else {}


def _dialogue(segments: Sequence[dict[str, Any]], folder: str, agent_channel: int) -> bytes:
    """The line of a recording."""
    name = segments[0]["audio_filepath"]
    turns = [
        {"from": "Assistant" if fields.get("channel") == agent_channel else "User", "type": "audio", "value": name}
        | {key: fields[key] for key in _OWN if key in fields}
        for fields in segments
    ]
    document: dict[str, Any] = {"id": posixpath.splitext(posixpath.basename(name))[0], "conversations": turns}
    if any(fields.get("_skipme") for fields in segments):
        document["_skipme"] = True
    try:
        made = turns_of(document)
        for number, turn in enumerate(made, 1):
            if turn.duration is None:
                raise of_turn(number, RecordRejected(RejectReason.MISSING_FIELD, "the segment has no duration"))
        return line(path_in(folder, name), round(max(turn.offset + (turn.duration or 0) for turn in made), 6), document)
    except RecordRejected as rejected:
        return unusable(name, rejected, document)
