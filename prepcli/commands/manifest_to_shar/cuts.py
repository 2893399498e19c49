"""Reads a manifest record as a cut: audio, text and speaker; an unusable record is rejected."""

from dataclasses import dataclass
from typing import Any

import msgspec

from prepcli.audio.limits import SAME_SECONDS
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.shar import CONTEXT, Cut, Recording, Supervision, recording_id, segment_id
from prepcli.manifest.context import context_of
from prepcli.manifest.record import Record
from prepcli.manifest.speakers import language_of, speaker_of

# Fields that NeMo's script does not copy to the supervision's custom fields; it copies all others.
_NOT_CUSTOM = frozenset({"audio_filepath", "context_audio_filepath", "text", "offset", "duration", "speaker"})


@dataclass(frozen=True, slots=True)
class AudioPart:
    """A segment of an audio file, as a manifest names it; `offset` and `duration` in seconds."""

    audio_filepath: str
    offset: float
    duration: float

    def is_near(self, other: "AudioPart") -> bool:
        """Whether both name the same audio, provided that their files are the same."""
        starts = abs(self.offset - other.offset)
        ends = abs(self.offset + self.duration - other.offset - other.duration)
        return max(starts, ends) <= SAME_SECONDS + 1e-6


@dataclass(frozen=True, slots=True)
class Entry:
    """The parts of a record's cut. `id` is the cut's id; `channel` is the value in the manifest, unchecked."""

    id: str
    target: AudioPart
    context: AudioPart | None
    channel: Any
    text: str
    speaker: str | None
    language: str | None
    lang: str | None
    custom: dict[str, str | msgspec.Raw]

    @property
    def context_id(self) -> str:
        """The id of the context's recording, as in NeMo's script."""
        assert self.context is not None
        part = self.context
        return segment_id("context_cut", recording_id(part.audio_filepath), part.offset, part.duration)

    @property
    def is_magpies(self) -> bool:
        """Whether the speaker has the form that MagpieTTSLhotseDataset requires."""
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
            custom["source_audio_offset"] = self.target.offset  # the cut starts at 0 of the stored audio
        if self.context is not None:
            custom[f"{CONTEXT}_unaligned"] = True  # lets lhotse's cut.load_context_audio() read the whole context
        return Cut(self.id, 0.0, recording.duration, 0, (supervision,), recording, custom)


def read_entry(record: Record, occurrence: int, has_context: bool) -> Entry:
    """Return the parts of the record's cut; `occurrence` (from 0) makes equal ids different.

    With `has_context` the record must name a context: readers read the fields of a shard in parallel.

    Raises:
        RecordRejected: MISSING_FIELD for text or context, and BAD_FIELD, BAD_DURATION and BAD_OFFSET for invalid
            values.
    """
    target = AudioPart(record.audio_filepath, record.offset, record.duration)
    context = _context(record) if has_context else None
    text, normalized = record.text("text"), record.text("normalized_text")
    custom: dict[str, str | msgspec.Raw] = {name: raw for name, raw in record.fields.items() if name not in _NOT_CUSTOM}
    if not (normalized and normalized.strip()):
        # MagpieTTS replaces the text by normalized_text, even by an empty one.
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
    lang = record.text("lang") or language
    id = segment_id("cut", recording_id(target.audio_filepath), target.offset, target.duration)
    if occurrence:
        id = f"{id}-{occurrence + 1}"  # NeMo's ids end in a decimal point and two digits
    channel = record.get("channel")
    return Entry(id, target, context, channel, text, speaker, language or lang, lang, custom)


def _context(record: Record) -> AudioPart:
    part = context_of(record)
    assert part is not None
    return AudioPart(part.audio_filepath, part.offset, part.duration)
