"""Recordings of two voices as inputs: the segments of each, next to each other in a manifest, are a conversation."""

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any

from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.formats.names import absolute_folder, path_in
from prepcli.jobs.inputs.catalogue import line, unusable
from prepcli.jobs.inputs.kinds import CONVERSATIONS
from prepcli.jobs.inputs.named import OtherInputs
from prepcli.manifest.conversations import turns_of
from prepcli.manifest.foreign import check_is_json_lines
from prepcli.manifest.json_kinds import decoded
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
    """The line of a catalogue for each recording."""
    known = set[str]()
    for name, of_one in groupby(_records(path), key=lambda fields: str(fields.get("audio_filepath"))):
        records = list(of_one)
        if name in known:
            raise UsageError(f"the segments of {name} are in several places of {path}: sort it by audio_filepath")
        known.add(name)
        turns = [
            {"from": "Assistant" if fields.get("channel") == agent_channel else "User", "type": "audio", "value": name}
            | {key: fields[key] for key in _OWN if key in fields}
            for fields in records
        ]
        document: dict[str, Any] = {"id": name.rpartition("/")[2].rpartition(".")[0], "conversations": turns}
        if any(fields.get("_skipme") for fields in records):
            document["_skipme"] = True
        try:
            if not all("duration" in turn for turn in turns):
                raise RecordRejected(RejectReason.MISSING_FIELD, "a segment has no duration")
            seconds = max(turn.offset + (turn.duration or 0.0) for turn in turns_of(document))
            yield line(path_in(folder, name), round(seconds, 6), document)
        except RecordRejected as rejected:
            yield unusable(name, rejected, document)


def _records(path: str) -> Iterator[dict[str, Any]]:
    """The records of a manifest; a line that is none becomes one without audio."""
    for text in lines_of(Range(path, 0, None)):
        if text.strip():
            fields = decoded(text)
            yield fields if isinstance(fields, dict) else {}
