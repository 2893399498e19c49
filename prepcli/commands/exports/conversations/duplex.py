"""Recordings of two voices for full-duplex models: a Shar with both channels, or stereo files with times of words."""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from prepcli.audio.info import AudioInfo
from prepcli.audio.opening import AudioSource, read_whole
from prepcli.audio.probe import probe
from prepcli.audio.segments import TargetFormat, convert, encoded, locate
from prepcli.commands.exports.records import AudioContents, Conversion
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.names import brace_text
from prepcli.formats.shar import (
    AUDIO_NAME,
    CUTS_NAME,
    RECORDING,
    TARGET,
    Cut,
    CutWriter,
    FieldWriter,
    Recording,
    Supervision,
    shard_text,
)
from prepcli.formats.train_ds import write_train_ds
from prepcli.formats.training_config import shar_entry
from prepcli.gate import MAX_SECONDS
from prepcli.interface.printing import number_of
from prepcli.jobs.record_job import RecordUnit
from prepcli.jobs.source import items
from prepcli.manifest.conversations import Turn, of_turn, turns_of
from prepcli.manifest.record import Record
from prepcli.storage.paths import NUMBER, absolute

SHAR_PATTERNS = tuple(
    name.format(NUMBER) for name in (CUTS_NAME, AUDIO_NAME.format(RECORDING, "{}"), AUDIO_NAME.format(TARGET, "{}"))
)
MOSHI_LINES, _MOSHI_NAME = "data_{}.jsonl", "audio/{}.{}"
MOSHI_PATTERNS = (MOSHI_LINES.format(NUMBER), *(_MOSHI_NAME.format(NUMBER, suffix) for suffix in ("wav", "json")))
_SPEAKERS = {"User": "user", "Assistant": "agent"}
"""The roles in NeMo's `DuplexS2SDataset`."""
_encode = msgspec.json.Encoder().encode


_Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)]


class _Word(msgspec.Struct):
    """A word, and its times in seconds from the start of its segment."""

    word: str
    start: _Seconds
    end: _Seconds


class _Dialogue(NamedTuple):
    """A stereo recording and its turns, in the order of their starts; `source` has the whole file."""

    source: AudioSource
    info: AudioInfo
    name: str
    turns: list[Turn]


def _dialogue(contents: AudioContents, number: int, record: Record, wanted: Conversion) -> _Dialogue:
    """The recording of a record.

    Raises:
        RecordRejected: it cannot be read or is not stereo, or a turn has no text, no channel, or ends after its end.
    """
    turns = turns_of({"conversations": record.get("conversations")})
    path = contents.records.audio_path(number, record.audio_filepath)
    source = read_whole(path, path)
    info = probe(source, path)
    if info.num_channels != 2:
        raise RecordRejected(
            RejectReason.BAD_FIELD, f"{path} has {number_of(info.num_channels, 'channel')}; two voices need two"
        )
    for number, turn in enumerate(turns, 1):
        text, channel = turn.more.get("text"), turn.more.get("channel")
        try:
            if not isinstance(text, str) or not text.strip() or channel not in (0, 1):
                what = f"the text {text!r} and the channel {channel!r}; a segment needs a text, and 0 or 1"
                raise RecordRejected(RejectReason.MISSING_FIELD, what)
            locate(source, info, turn.offset, turn.duration, channel, wanted.policy, path)
        except RecordRejected as rejected:
            raise of_turn(number, rejected) from None
    return _Dialogue(source, info, path, sorted(turns, key=lambda turn: turn.offset))


def write_shar(
    contents: AudioContents, unit: RecordUnit, writer: UnitWriter, wanted: Conversion, agent_channel: int
) -> None:
    """Write a shard: the channel of the user in the field `recording`, that of the agent in `target_audio`."""
    shard = shard_text(unit.number)
    fields = [FieldWriter(writer.open(AUDIO_NAME.format(field, shard))) for field in (RECORDING, TARGET)]
    cuts = CutWriter(writer.open(CUTS_NAME.format(shard)))
    for item in items(contents, unit, writer):
        with item:
            found, id = _dialogue(contents, item.number, item.record, wanted), f"{item.number:07d}"
            audio = [
                encoded(
                    locate(found.source, found.info, 0.0, None, channel, wanted.policy, found.name),
                    wanted.target,
                    wanted.policy,
                )
                for channel in (1 - agent_channel, agent_channel)
            ]
            recording = Recording.of(id, audio[0].sampling_rate, audio[0].num_samples)
            for field, one in zip(fields, audio, strict=True):
                field.add_recording(id, one.format, one.data, recording)
            turns = tuple(_supervision(turn, place, recording) for place, turn in enumerate(found.turns))
            cuts.add_cut(_encode(Cut(id, 0.0, recording.duration, 0, turns, recording, {})))
            item.seconds = recording.duration
    for field in fields:
        field.close()
    cuts.close()


def _supervision(turn: Turn, place: int, recording: Recording) -> Supervision:
    duration = min(turn.duration or 0.0, recording.duration - turn.offset)
    who, text = _SPEAKERS[turn.role], str(turn.more["text"])
    return Supervision(
        id=f"{recording.id}-{place}",
        recording_id=recording.id,
        start=turn.offset,
        duration=duration,
        channel=0,
        text=text,
        speaker=who,
        custom={},
    )


def write_moshi(
    contents: AudioContents, unit: RecordUnit, writer: UnitWriter, wanted: Conversion, agent_channel: int
) -> None:
    """Write a list of stereo files, and the files: the agent on the left, with the times of the words of the agent."""
    lines = writer.open(MOSHI_LINES.format(unit.number))
    for item in items(contents, unit, writer):
        with item:
            found, id = _dialogue(contents, item.number, item.record, wanted), f"{item.number:07d}"
            words = [word for turn in found.turns for word in _words(turn)]
            whole = locate(found.source, found.info, 0.0, None, None, wanted.policy, found.name)._replace(channel=None)
            order = (agent_channel, 1 - agent_channel)
            audio = convert(whole, TargetFormat("wav", wanted.target.sampling_rate), order)
            path = _MOSHI_NAME.format(id, "wav")
            item.seconds = audio.num_samples / audio.sampling_rate
            for name, data in (
                (path, audio.data),
                (_MOSHI_NAME.format(id, "json"), _encode({"alignments": sorted(words, key=lambda word: word[1])})),
            ):
                file = writer.open(name)
                file.write(data)
                file.close()
            lines.write(_encode({"path": path, "duration": item.seconds}) + b"\n")


def _words(turn: Turn) -> list[tuple[str, tuple[float, float], str]]:
    """The words of a turn of the agent with their times in the recording, as Moshi's trainer reads them.

    Raises:
        RecordRejected: MISSING_FIELD if a segment has no words with times, also one of the user.
    """
    try:
        words = msgspec.convert(turn.more.get("words"), list[_Word])
    except msgspec.ValidationError:
        what = "a segment has no words with times: cut it by words, such as those of a CTM"
        raise RecordRejected(RejectReason.MISSING_FIELD, what) from None
    return [
        (word.word, (round(turn.offset + word.start, 6), round(turn.offset + word.end, 6)), "SPEAKER_MAIN")
        for word in words
        if turn.role == "Assistant"
    ]


def finished(units: Sequence[RecordUnit], writer: UnitWriter, form: str) -> dict[str, Any]:
    """The paths for a training config; for NeMo, also its section."""
    out = writer.workspace.out
    if form == "moshi":
        return {"train_data": out}
    shards = brace_text(shard_text(0), shard_text(len(units) - 1)) if len(units) > 1 else shard_text(0)
    names = {"cuts": CUTS_NAME, RECORDING: AUDIO_NAME.format(RECORDING, "{}"), TARGET: AUDIO_NAME.format(TARGET, "{}")}
    paths = {field: out / name.format(shards) for field, name in names.items()}
    entry = shar_entry({field: absolute(path) for field, path in paths.items()})
    section = write_train_ds(writer, "conversations-to-tarred", {"input_cfg": [entry]}, use="for DuplexS2SDataset")
    return paths | {"train_ds": section}
