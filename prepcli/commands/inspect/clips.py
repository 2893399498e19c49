"""The audio of a few records, short enough to be embedded in a page."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from prepcli.audio.encode import encodable_rate, encode
from prepcli.audio.probe import probe
from prepcli.audio.segments import PAGE, decode, locate
from prepcli.commands.inspect.examples import MAX_TURNS, Dialogue, Example
from prepcli.commands.inspect.kinds import Subject
from prepcli.commands.inspect.record import Located, named_audio
from prepcli.engine.run.crashes import map_refusing_crashes
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.shar import RECORDING, TARGET
from prepcli.storage.paths import AnyPath, path_of

MAX_CLIP_SAMPLES = 300_000
"""Maximum number of samples of a clip, which is mono: a FLAC of about 300 kB, 19 s at 16 kHz."""


class AudioClip(NamedTuple):
    """The audio of a record as a FLAC or WAV file; or the reason why there is none.

    Attributes:
        data: the file, empty if there is none.
        format: "flac" or "wav".
        note: the part of the record that the clip holds, or the problem; empty for a whole record.
    """

    data: bytes = b""
    format: str = "flac"
    note: str = ""


class _Task(NamedTuple):
    name: str
    data: bytes | None
    offset: float
    duration: float | None
    channel: Any


def cut_clips(subject: Subject, examples: Sequence[Example], audio_base_dir: AnyPath | None) -> list[AudioClip]:
    """Return one clip per example, in the same order. Examples are records of a manifest, a tarred set or a Shar set.

    Raises:
        IncompleteError: a worker process was killed.
    """
    tasks = [_task_for(subject, example, audio_base_dir) for example in examples]
    clips = map_refusing_crashes(_cut, [task for task in tasks if isinstance(task, _Task)])
    return [next(clips) if isinstance(task, _Task) else task for task in tasks]


def clips_of_turns(dialogues: Sequence[Dialogue]) -> list[AudioClip]:
    """Return one clip for each turn with audio of the conversations, in their order; of each, the first `MAX_TURNS`.

    Raises:
        IncompleteError: a worker process was killed.
    """
    turns = [turn for dialogue in dialogues for turn in dialogue.turns[:MAX_TURNS] if turn.text is None]
    tasks = [_Task(turn.audio, None, turn.offset, turn.duration, turn.more.get("channel")) for turn in turns]
    return list(map_refusing_crashes(_cut, tasks))


def _task_for(subject: Subject, example: Example, audio_base_dir: AnyPath | None) -> _Task | AudioClip:
    fields = example.fields
    try:
        located = list(named_audio(subject, path_of(example.file), example.line - 1, fields, audio_base_dir))
    except UsageError as error:
        return AudioClip(note=str(error))
    if not located:
        return AudioClip(note="its audio lies in no file that is known here")
    audio: Located = next((place for place in located if place.field in (RECORDING, TARGET)), located[0])
    if audio.problem is not None:
        return AudioClip(note=audio.problem)
    if subject.kind == "shar":  # a tar of a Shar set holds the audio of the cut, not of its recording
        return _Task(audio.name, audio.data, 0.0, None, None)
    offset, duration = (_seconds(fields.get(name)) for name in ("offset", "duration"))
    return _Task(audio.name, audio.data, offset or 0.0, duration, fields.get("channel"))


def _seconds(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) else None


def _cut(task: _Task) -> AudioClip:
    """Decode the beginning of a record, and encode it as FLAC or WAV; called in a worker process."""
    try:
        source = task.name if task.data is None else task.data
        info = probe(source, task.name)
        segment = locate(source, info, task.offset, task.duration, task.channel, PAGE, task.name)
        num_samples = segment.num_samples
        count = min(num_samples, MAX_CLIP_SAMPLES)
        samples = decode(segment._replace(num_samples=count))
        format = "flac" if encodable_rate("flac", info.sampling_rate) == info.sampling_rate else "wav"
        data = encode(samples[:, 0], info.sampling_rate, format, "PCM_16")
    except RecordRejected as rejected:
        return AudioClip(note=rejected.detail)
    rate = info.sampling_rate
    part = f"the first {count / rate:.1f} s of {num_samples / rate:,.1f} s" if count < num_samples else ""
    return AudioClip(data, format, part)
