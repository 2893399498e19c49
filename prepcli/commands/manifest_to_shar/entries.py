"""The fields of records from which `manifest-to-shar` makes cuts, and the ids of the cuts."""

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.audio.limits import SAME_SECONDS
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.shar import CONTEXT, Cut, Recording, Supervision, recording_id, segment_id
from prepcli.jobs.records import hash_segments
from prepcli.manifest.context import CONTEXT_FIELDS, context_channel, context_of
from prepcli.manifest.fields import decode_value, is_skipped, parse_fields
from prepcli.manifest.index import ManifestIndex
from prepcli.manifest.parts import Floats, Ints
from prepcli.manifest.record import Record
from prepcli.manifest.speakers import language_of, speaker_of
from prepcli.planning.arrays import Scratch
from prepcli.planning.hashing import chunks, occurrences

# Fields that NeMo's script does not copy to the supervision's custom fields; it copies all others.
_NOT_CUSTOM = frozenset({"audio_filepath", "context_audio_filepath", "text", "offset", "duration", "speaker"})


@dataclass(frozen=True, slots=True)
class AudioPart:
    """A segment of an audio file, as a manifest names it; `offset` and `duration` in seconds."""

    audio_filepath: str
    offset: float
    duration: float

    def is_near(self, other: "AudioPart") -> bool:
        """Whether both segments begin and end at the same times, to 20 ms; their files are not compared."""
        starts = abs(self.offset - other.offset)
        ends = abs(self.offset + self.duration - other.offset - other.duration)
        return max(starts, ends) <= SAME_SECONDS + 1e-6


@dataclass(frozen=True, slots=True)
class Entry:
    """The fields of a record from which its cut is made.

    `id` is the id of the cut. `channel` and `context_channel` are values from the manifest, not checked yet.
    """

    id: str
    target: AudioPart
    context: AudioPart | None
    channel: Any
    context_channel: Any
    text: str
    speaker: str | None
    language: str | None
    lang: str | None
    custom: dict[str, str | msgspec.Raw]

    @property
    def context_id(self) -> str:
        """The id of the recording of the context audio, made as in NeMo's script."""
        assert self.context is not None
        part = self.context
        return segment_id("context_cut", recording_id(part.audio_filepath), part.offset, part.duration)

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
    """Return the fields from which the cut of a record is made.

    `occurrence`: the number of earlier records with the same cut id; if it is not 0, the id gets a suffix. With
    `has_context` the record must name a context, because in a Shar set each field has audio for every cut.

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
    channels = record.get("channel"), None if context is None else context_channel(record)
    return Entry(id, target, context, *channels, text, speaker, language or lang, lang, custom)


def _context(record: Record) -> AudioPart:
    part = context_of(record)
    assert part is not None
    return AudioPart(part.audio_filepath, part.offset, part.duration)


_CONTEXT_KEY = b'"context_audio_'
# Up to this number of hundredths of a second, float64 is exact enough to see a difference of 1e-6 from a half.
_EXACT_HUNDREDTHS = 1e9


def occurrences_of_ids(index: ManifestIndex, scratch: Scratch | None = None) -> Ints:
    """For each record, the number of earlier records with the same cut id; so `(id, number)` is unique.

    An id consists of the recording id, and of the offset and the duration to 10 ms. Ids are compared by 64-bit hash:
    different ids with the same hash count as the same id.
    """
    scratch = scratch or Scratch()
    keys = scratch.empty(len(index), np.uint64)
    for chunk in chunks(len(index)):
        keys[chunk] = hash_segments(
            index.keys["recording"][chunk], hundredths(index.offset[chunk]), hundredths(index.duration[chunk])
        )
    return occurrences(keys, scratch.empty(len(index), np.int64))


def hundredths(seconds: Floats) -> Floats:
    """`seconds` in hundredths of a second, rounded exactly as `format(x, ".2f")` rounds: whole numbers in float64."""
    scaled = seconds * 100
    rounded: NDArray[np.float64] = np.rint(scaled)
    # Multiplication rounds too: near a half, or beyond the precision of a double, the decimal digits decide.
    doubtful = (np.abs(scaled - np.floor(scaled) - 0.5) < 1e-6) | (scaled > _EXACT_HUNDREDTHS)
    for position in np.flatnonzero(doubtful).tolist():
        rounded[position] = float(f"{seconds[position]:.2f}".replace(".", ""))
    return rounded


def names_context(lines: bytes) -> bool:
    """Whether one of the `lines` names a context; lines with the mark `_skipme` do not count.

    The search usually ends early: a manifest with contexts has one in its first line.
    """
    at = lines.find(_CONTEXT_KEY)
    while at >= 0:
        start = lines.rfind(b"\n", 0, at) + 1
        end = lines.find(b"\n", at)
        end = len(lines) if end < 0 else end
        if _has_context_field(lines[start:end]):
            return True
        at = lines.find(_CONTEXT_KEY, end)
    return False


def _has_context_field(line: bytes) -> bool:
    try:
        fields = parse_fields(line)
    except RecordRejected:
        return False
    named = any(name in fields and decode_value(fields[name]) is not None for name in CONTEXT_FIELDS)
    return named and not is_skipped(fields)
