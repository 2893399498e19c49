"""Conversations as inputs: files of lines, NeMo's tars with manifests, and tars of pairs of JSON and audio."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from prepcli.audio.probe import Probes
from prepcli.engine.run.unfinished import refuse_unfinished
from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.formats.archives import tar_members
from prepcli.formats.conversations import ConversationSet, tar_of
from prepcli.formats.folders import regular_files
from prepcli.formats.names import absolute_folder, path_in
from prepcli.formats.sets import open_set
from prepcli.gate import is_missing
from prepcli.interface.options import PathText
from prepcli.jobs.inputs.catalogue import line, unusable
from prepcli.jobs.inputs.kinds import CONVERSATIONS
from prepcli.jobs.inputs.named import OtherInputs
from prepcli.manifest.conversations import PLACEHOLDERS, Turn, is_left_out, of_turn, other_fields, turns_of, values_of
from prepcli.manifest.fields import parse_fields
from prepcli.manifest.json_kinds import CONVERSATIONS as LINES
from prepcli.manifest.kinds import kind_of
from prepcli.manifest.remedies import conversion, new_name
from prepcli.manifest.scan import Range, lines_of
from prepcli.manifest.sources import check_file, expand_paths
from prepcli.storage.containers import Catalogue, name_in
from prepcli.storage.paths import AnyPath, absolute, is_dir, path_of

_MAX_LOOKED_AT = 20
_IN_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
"""JSON has line breaks only between its parts; in its texts they are `\\n`."""


def holds_conversations(path: str) -> bool:
    """Whether a file has conversations, one per line; raises `UsageError` if they are in a JSON list."""
    kind = kind_of(path)
    if kind is not None and kind.name == f"a JSON list of {LINES}":
        command = conversion(path, "jq -c '.[]'", new_name(path, suffix=".jsonl"))
        raise UsageError(f"{path} is {kind.name}; write one per line: {command}")
    return kind is not None and kind.lines == LINES


def conversation_file(path: str, audio_base_dir: AnyPath | None, placeholders: Sequence[str]) -> Catalogue:
    """The catalogue of a file of conversations, with the tar next to it if it is a manifest of a set.

    Relative paths of other files start from the folder of the file, or from `audio_base_dir`.
    """
    if (tar := tar_of(path_of(path))) is not None:
        return conversation_shard(path, tar, placeholders)
    folder = absolute_folder(str(audio_base_dir or path_of(path).parent))
    read = partial(conversation_lines, folder=folder, placeholders=tuple(placeholders))
    return Catalogue(path, read, (), f"conversations {folder} {list(placeholders)}", CONVERSATIONS, measures=True)


def conversation_tars(stored: ConversationSet, placeholders: Sequence[str]) -> list[Catalogue]:
    """The catalogues of the shards of a set of conversations."""
    if not stored.manifests:
        read = partial(_lines_of_pairs, placeholders=tuple(placeholders))
        how = f"conversations {list(placeholders)}"
        return [Catalogue(str(tar), read, (), how, CONVERSATIONS) for tar in stored.shards.values()]
    stored.check_complete()
    return [
        conversation_shard(str(stored.manifests[number]), tar, placeholders) for number, tar in stored.shards.items()
    ]


def conversation_shard(manifest: str, tar: AnyPath, placeholders: Sequence[str]) -> Catalogue:
    """The catalogue of a manifest of conversations whose audio lies in a tar."""
    read = partial(conversation_lines, tar=absolute(tar), placeholders=tuple(placeholders))
    return Catalogue(manifest, read, (str(tar),), f"conversations {list(placeholders)}", CONVERSATIONS)


def conversation_lines(
    path: str, placeholders: Sequence[str], folder: str = "", tar: str = "", start: int = 0, first: int = 1
) -> Iterator[bytes]:
    """The lines of a catalogue for those of a file, whose audio lies in `tar`, or below `folder`.

    `start`: the byte at which to begin, where line `first` begins.
    """
    maker, stem = _Maker(placeholders), os.path.basename(path).partition(".")[0]
    for number, text in enumerate(lines_of(Range(path, start, None)), first):
        where, id = f"{path}:{number}", f"{stem}-{number}"
        yield maker.line(text, where, id, lambda name: name_in(tar, name) if tar else path_in(folder, name))


def _lines_of_pairs(path: str, placeholders: Sequence[str]) -> Iterator[bytes]:
    """The conversation in each JSON of a tar, whose audio is the member before or after it with the same key."""
    maker = _Maker(placeholders)
    members = [(name, start, size) for name, start, size in tar_members(path)]
    by_key: dict[str, list[tuple[str, int, int | None]]] = {}
    for member in members:
        by_key.setdefault(os.path.splitext(member[0])[0], []).append(member)
    with path_of(path).open("rb") as file:
        for key, own in by_key.items():
            texts = [member for member in own if member[0].endswith(".json")]
            audio = [name for name, _, _ in own if not name.endswith(".json")]
            if len(texts) != 1 or len(audio) != 1 or texts[0][2] is None:
                what = f"{key} has {len(texts)} JSON and {len(audio)} other members; one of each is read"
                yield unusable(name_in(path, key), RecordRejected(RejectReason.BAD_FIELD, what))
                continue
            file.seek(texts[0][1])
            text = file.read(texts[0][2]).translate(_IN_ONE_LINE)
            yield maker.line(text, "", key, lambda _, name=audio[0]: name_in(path, name), sound=audio[0])


class _Maker:
    """Makes lines of a catalogue; files whose durations are not given are measured, each once in a row."""

    def __init__(self, placeholders: Sequence[str]) -> None:
        self._placeholders = placeholders
        self._probes = Probes(256)

    def line(self, text: bytes, where: str, id: str, place: Any, sound: str = "") -> bytes:
        """The line of a conversation. Blank lines and broken JSON stay as they are.

        Args:
            text: its JSON.
            where: its place, which names a conversation without audio.
            id: the id of a conversation that has none; NeMo needs one.
            place: gives the place of audio that it names.
            sound: the audio of a conversation that names none.
        """
        try:
            raw = parse_fields(text)
        except RecordRejected:
            return text.rstrip(b"\r\n") + b"\n"  # the reader of the line reports why it cannot be used
        marks: dict[str, Any] = {}
        try:
            fields = values_of(raw)
            if is_left_out(fields):
                marks["_skipme"] = True
            if sound and is_missing(fields.get("sound")):
                fields["sound"] = sound
            turns = turns_of(fields, self._placeholders)
            turns = [self._placed(turn, number, place) for number, turn in enumerate(turns, 1)]
        except RecordRejected as rejected:
            return unusable("", rejected, raw | marks)
        audio = [turn for turn in turns if turn.text is None]
        seconds = sum(turn.duration or 0.0 for turn in audio)
        more = {"id": id} | {name: raw[name] for name in other_fields(fields)} | marks
        made = {"conversations": [turn.document() for turn in turns]}
        return line(audio[0].audio if audio else where, round(seconds, 6), more | made)

    def _placed(self, turn: Turn, number: int, place: Any) -> Turn:
        """A turn whose audio has an absolute path and a duration; a reject names the turn."""
        if turn.text is not None:
            return turn
        path = place(turn.audio)
        if turn.duration is not None:
            return turn._replace(audio=path)
        try:
            seconds = self._probes(path).duration - turn.offset
            if not seconds > 0:
                raise RecordRejected(RejectReason.BEYOND_AUDIO, "it begins after the end of its audio")
        except RecordRejected as rejected:
            raise of_turn(number, rejected) from None
        return turn._replace(audio=path, duration=round(seconds, 9))


def _in_folder(folder: str, placeholders: Sequence[str]) -> list[Catalogue] | None:
    """The catalogues of the set in a folder; None if it holds none. Raises `UsageError` if it is not finished."""
    refuse_unfinished(path_of(folder))
    stored = open_set(path_of(folder))
    return conversation_tars(stored, placeholders) if isinstance(stored, ConversationSet) else None


def conversations_in(placeholders: Sequence[str], audio_base_dir: Any) -> OtherInputs:
    """Reads files and folders of conversations for a command; `placeholders`: none for the usual ones."""
    wanted = tuple(placeholders) or PLACEHOLDERS

    def found(path: str, _: bool) -> list[Catalogue]:
        catalogues = _catalogues(path, audio_base_dir, wanted)
        if catalogues is None and is_dir(path):
            first = map(str, regular_files(path_of(path))[:_MAX_LOOKED_AT])
            files = [file for file in first if holds_conversations(file)]
            some = f": name its files, {','.join(files[:3])}{', ...' * (len(files) > 3)}" if files else ""
            raise UsageError(f"{path} has no conversations in the form of a set{some}")
        if catalogues is None:
            raise UsageError(
                f"{path} has no conversations: JSON lines with conversations or messages (of a list, jq -c '.[]' makes "
                "lines), or tars of such lines"
            )
        return catalogues

    return found


def conversations_among(audio_base_dir: Any) -> OtherInputs:
    """Reads files and folders of conversations for a command that reads manifests and data sets, too."""
    return lambda path, _: _catalogues(path, audio_base_dir, PLACEHOLDERS)


def _catalogues(path: str, audio_base_dir: Any, placeholders: Sequence[str]) -> list[Catalogue] | None:
    """The catalogues of a file or a set of conversations; None if it is another one."""
    if is_dir(path):
        return _in_folder(path, placeholders)
    return [conversation_file(path, audio_base_dir, placeholders)] if holds_conversations(path) else None


def record_files(spec: str, audio_base_dir: PathText | None) -> list[str]:
    """The manifests that `spec` names (`expand_paths`); conversations are read as lines of NeMo's form.

    Raises:
        UsageError: as by `expand_paths`, of a folder that is not a set of conversations, and of a JSON list of them.
    """
    base = None if audio_base_dir is None else path_of(str(audio_base_dir))

    def of_folder(folder: str) -> list[str]:
        catalogues = _in_folder(folder, PLACEHOLDERS)
        return [check_file(folder)] if catalogues is None else [*catalogues]  # the check says what to do

    return [
        conversation_file(path, base, PLACEHOLDERS) if holds_conversations(path) else path
        for path in expand_paths(spec, of_folder)
    ]
