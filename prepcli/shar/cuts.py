"""One manifest record as a cut: which audio, which text, whose voice; and what makes it unusable."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from prepcli.audio.limits import SAME_SECONDS
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.shar import CONTEXT, Cut, Recording, Supervision, recording_id, segment_id
from prepcli.manifest.fields import decode_value, shown
from prepcli.manifest.record import Record
from prepcli.shar.plan import CONTEXT_FIELDS

# As check_speaker_format in NeMo's text_to_speech_dataset_lhotse.py, which refuses all else.
_SPEAKER = re.compile(r"\| Language:(\w+) Dataset:[\w\W]+ Speaker:[\w\W]+ \|")
# What NeMo's script leaves out of a supervision's custom fields; everything else goes there.
_NOT_CUSTOM = frozenset({"audio_filepath", "context_audio_filepath", "text", "offset", "duration", "speaker"})


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an audio file as a manifest names it; `offset` and `duration` in seconds."""

    audio_filepath: str
    offset: float
    duration: float

    def is_near(self, other: "Part") -> bool:
        """Whether both would be the same audio if they were of one file."""
        starts = abs(self.offset - other.offset)
        ends = abs(self.offset + self.duration - other.offset - other.duration)
        return max(starts, ends) <= SAME_SECONDS + 1e-6


@dataclass(frozen=True, slots=True)
class Entry:
    """What a record's cut is made of. `id` is the cut's; `channel` is the manifest's, unchecked."""

    id: str
    target: Part
    context: Part | None
    channel: Any
    text: str
    speaker: str | None
    language: str | None
    lang: str | None
    custom: dict[str, str | msgspec.Raw]

    @property
    def context_id(self) -> str:
        """The id of the context's recording, as NeMo's script makes it."""
        assert self.context is not None
        part = self.context
        return segment_id("context_cut", recording_id(part.audio_filepath), part.offset, part.duration)

    @property
    def is_magpies(self) -> bool:
        """Whether the speaker is in the form without which MagpieTTSLhotseDataset raises."""
        return language_of(self.speaker or "") is not None

    def cut(self, sampling_rate: int, num_samples: int) -> Cut:
        """The cut, for stored audio of `num_samples` at `sampling_rate` (Hz)."""
        recording = Recording.of(recording_id(self.target.audio_filepath), sampling_rate, num_samples)
        supervision = Supervision(
            id=f"sup-{recording.id}",
            recording_id=recording.id,
            start=0.0,  # relative to the cut; NeMo's script writes the offset in the file
            duration=recording.duration,
            channel=0,
            text=self.text,
            language=self.language,
            speaker=self.speaker,
            custom=self.custom,
        )
        custom: dict[str, str | float | bool] = {}
        if self.lang is not None:
            custom["lang"] = self.lang
        if self.target.offset:
            custom["source_audio_offset"] = self.target.offset  # the cut starts at 0 of what is stored
        if self.context is not None:
            custom[f"{CONTEXT}_unaligned"] = True  # lets lhotse's cut.load_context_audio() read all of it
        return Cut(self.id, 0.0, recording.duration, 0, (supervision,), recording, custom)


def read_entry(record: Record, occurrence: int, has_context: bool) -> Entry:
    """What the record's cut is made of; `occurrence` (0 is the first) makes equal ids different.

    With `has_context` the record must name a context: readers read the fields of a shard in parallel.

    Raises:
        RecordRejected: MISSING_FIELD for text or context, and BAD_FIELD, BAD_DURATION and BAD_OFFSET for
            values that make no sense.
    """
    target = Part(record.audio_filepath, record.offset, record.duration)
    context = _context(record) if has_context else None
    text, normalized = text_field(record, "text"), text_field(record, "normalized_text")
    custom: dict[str, str | msgspec.Raw] = {name: raw for name, raw in record.fields.items() if name not in _NOT_CUSTOM}
    if not (normalized and normalized.strip()):
        # MagpieTTS puts normalized_text in the place of the text, even when there is nothing in it.
        custom.pop("normalized_text", None)
        normalized = None
    if not (text and text.strip()):
        text = normalized
    if text is None:
        raise RecordRejected(RejectReason.MISSING_FIELD, "there is no text, and no normalized_text either")
    if context is not None:
        custom["context_recording_id"] = recording_id(context.audio_filepath)
    speaker = speaker_of(record)
    language = language_of(speaker or "")
    lang = text_field(record, "lang") or language
    id = segment_id("cut", recording_id(target.audio_filepath), target.offset, target.duration)
    if occurrence:
        id = f"{id}-{occurrence + 1}"  # NeMo's ids end in a decimal point and two digits
    channel = record.get("channel")
    return Entry(id, target, context, channel, text, speaker, language or lang, lang, custom)


def _context(record: Record) -> Part:
    named = {name: raw for name in CONTEXT_FIELDS if (raw := record.fields.get(name)) and bytes(raw) != b"null"}
    missing = [name for name in CONTEXT_FIELDS if name not in named and name != "context_audio_offset"]
    if missing:
        why = "the context is incomplete" if named else "others have a context"
        raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no {' and no '.join(missing)}: {why}")
    try:
        part = Record({CONTEXT_FIELDS[name]: raw for name, raw in named.items()})
    except RecordRejected as rejected:
        raise of_context(rejected) from None
    return Part(part.audio_filepath, part.offset, part.duration)


def of_context(rejected: RecordRejected) -> RecordRejected:
    """The same reject, said of the record's context."""
    return RecordRejected(rejected.reason, f"context: {rejected.detail}")


def text_field(record: Record, name: str) -> str | None:
    """The text of a field, None where there is none; raises `RecordRejected(BAD_FIELD)` for what is not text."""
    value = record.get(name)
    if value is None or isinstance(value, str):
        return value
    raise RecordRejected(RejectReason.BAD_FIELD, f"{name} is {shown(record.fields[name])}; it must be a string")


def speaker_of(record: Record) -> str | None:
    """The speaker, a number as text; None where there is none. Raises `RecordRejected(BAD_FIELD)`."""
    raw = record.fields.get("speaker")
    if raw is not None and type(decode_value(raw)) is int:
        return str(decode_value(raw))  # NeMo's FastPitch manifests number their speakers
    return text_field(record, "speaker")


@lru_cache(maxsize=4096)
def language_of(speaker: str) -> str | None:
    """The language in a speaker of the form `| Language:xx Dataset:yy Speaker:zz |`; None for any other form."""
    match = _SPEAKER.match(speaker)
    return match[1] if match else None
