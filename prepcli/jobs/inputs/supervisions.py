"""The supervisions of lhotse's cuts as records: which span a record has, and which fields.

A cuts file, a Lhotse Shar, and recordings with supervisions give the same records, because all of them are read here.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import msgspec

from prepcli.errors import RecordRejected, RejectReason
from prepcli.gate import Span, checked_fields, fit, is_missing, note_on_moved
from prepcli.manifest.languages import language_code

_SAME = 1e-3
"""Up to this difference in seconds, a supervision that begins and ends like its cut covers the whole cut."""
_OF_AUDIO = frozenset({"audio_filepath", "duration", "offset"})
"""Fields that say where the audio of a record lies: those of `custom` are left out."""


class SourceSupervision(msgspec.Struct, gc=False):
    """A supervision of lhotse; times in seconds. The gate checks the values whose type is `Any`."""

    id: str = ""
    recording_id: str = ""
    start: float | None = None
    duration: float | None = None
    channel: Any = 0
    text: Any = None
    speaker: Any = None
    language: Any = None
    gender: Any = None
    custom: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """The supervision in messages."""
        return f"the supervision {self.id}".rstrip()


class SourceCut(msgspec.Struct, gc=False):
    """The fields of a cut of lhotse that its records need; times in seconds."""

    id: str
    type: str = ""
    start: float = 0.0
    duration: float = 0.0
    channel: Any = 0
    supervisions: list[SourceSupervision] | None = None


class CutRecord(NamedTuple):
    """A record of a cut. `id` is that of the cut or of the supervision, `span` is within the cut.

    `supervision`: None for the record of a cut without supervisions.
    """

    id: str
    fields: dict[str, Any]
    span: Span
    supervision: SourceSupervision | None


@dataclass
class SupervisionReader:
    """Reads the records of cuts and of supervisions. Counts what is changed or left out, for notes to the user."""

    num_moved: int = 0
    _unknown: Counter[str] = field(default_factory=Counter)
    _num_arrays: int = 0

    def notes(self) -> Iterator[str]:
        """Notes on segments that were changed, on data that were left out, and on unknown languages."""
        if self.num_moved:
            yield note_on_moved(self.num_moved, "their cuts or recordings")
        if self._unknown:
            names = ", ".join(f"{name} ({count:,})" for name, count in self._unknown.most_common(4))
            yield f"languages without a known code are kept as `language`, not as `lang`: {names}"
        if self._num_arrays:
            yield f"{self._num_arrays:,} custom fields refer to arrays or recordings of lhotse and are left out"

    def records(self, cut: SourceCut) -> Iterator[CutRecord | RecordRejected]:
        """Yield a record, or the reason why there is none, for each supervision of a cut; without any, for the cut.

        The id of a record is that of the cut. If the cut has several supervisions, it is that of the supervision, as
        lhotse's `trim_to_supervisions` names its cuts; if these ids are not different, it is `CUT`, `CUT-2`, `CUT-3`.
        """
        if not cut.supervisions:
            yield CutRecord(cut.id, {"id": cut.id}, Span(0.0, cut.duration, moved=False), None)
            return
        for id, supervision in zip(_ids(cut, cut.supervisions), cut.supervisions, strict=True):
            try:
                span = self.span_in_cut(supervision, cut)
                yield CutRecord(id, self.fields(id, supervision), span, supervision)
            except RecordRejected as rejected:
                yield rejected

    def span_in_cut(self, supervision: SourceSupervision, cut: SourceCut) -> Span:
        """The span of a supervision in its cut, the whole cut if it has no times; raises `RecordRejected` as `fit`."""
        whole = Span(0.0, cut.duration, moved=False)
        if supervision.start is None and supervision.duration is None:
            return whole
        span = self.span(supervision, cut.duration, "its cut ", cut.id)
        return whole if span[0] <= _SAME and abs(span[1] - cut.duration) <= _SAME else span

    def span(self, supervision: SourceSupervision, length: float, container: str, id: str) -> Span:
        """The span of a supervision in a container of `length` seconds; raises `RecordRejected` as `fit` does.

        `container` and `id` are its name in messages, such as `its cut ` and `c7`.
        """
        start, duration = supervision.start or 0.0, supervision.duration
        if duration is None:
            raise RecordRejected(RejectReason.BAD_DURATION, f"{supervision.name} has no duration")
        if start >= 0 and 0 < duration < inf and start + duration <= length:
            return Span(start, duration, False)  # nearly all; names for messages are not made
        span = fit(start, duration, length, supervision.name, container + id)
        self.num_moved += span.moved
        return span

    def fields(self, id: str, supervision: SourceSupervision) -> dict[str, Any]:
        """The fields of a record: `id`, text, speaker, gender and language, and the `custom` fields of the supervision.

        If `custom` has an `id`, it replaces the argument `id`: in a Shar that prepcli made from a manifest, `custom`
        has the id that the record had in the manifest.

        Raises:
            RecordRejected: BAD_FIELD if a field may not hold its value.
        """
        text, speaker, language = supervision.text, supervision.speaker, supervision.language
        fields = {"id": id, "text": text, "speaker": speaker, "gender": supervision.gender}
        if isinstance(language, str):
            code = language_code(language)
            if language and code is None:
                self._unknown[language] += 1
            fields["lang" if code else "language"] = code or language or None
        else:
            fields["lang"] = language
        is_plain = type(text) is str and type(speaker) is str and type(language) is str and language
        if is_plain and supervision.gender is None and not supervision.custom:  # nearly all: there is nothing to check
            del fields["gender"]
            return fields
        for name, value in supervision.custom.items() if supervision.custom else ():
            if _refers_to_data(value):
                self._num_arrays += 1
            elif name not in _OF_AUDIO and (is_missing(fields.get(name)) or (name == "id" and not is_missing(value))):
                fields[name] = value
        return checked_fields(fields)


def _ids(cut: SourceCut, supervisions: Sequence[SourceSupervision]) -> list[str]:
    """The ids of the records of a cut, one for each supervision."""
    if len(supervisions) == 1:
        return [cut.id]
    ids = [supervision.id for supervision in supervisions]
    if all(ids) and len(set(ids)) == len(ids):
        return ids
    return [cut.id, *(f"{cut.id}-{number}" for number in range(2, len(ids) + 1))]


def _refers_to_data(value: object) -> bool:
    """Whether a custom value refers to an array or a recording of lhotse, which a manifest cannot hold."""
    if not isinstance(value, dict):
        return False
    inner = value.get("array")
    return "storage_type" in value or "sources" in value or (isinstance(inner, dict) and "storage_type" in inner)
