"""The result of `inspect`, which can be printed, plotted and written as JSON."""

from dataclasses import dataclass, field, fields
from typing import Any

import msgspec

from prepcli.commands.inspect.audio import AudioFacts
from prepcli.commands.inspect.examples import Dialogue, Example
from prepcli.commands.inspect.groups import Group
from prepcli.commands.inspect.runs import RunFacts
from prepcli.commands.inspect.sections import quantiles_of, sections_of, text_of
from prepcli.commands.inspect.tally import Floats32, Share
from prepcli.commands.inspect.tars import CodeFacts, TarFacts
from prepcli.interface.printing import as_text, encodable
from prepcli.interface.reports import ShownInNotebooks, brief

_NUM_FIRST = 3
_NUM_SPEAKERS = 8


def lines_of(report: "Inspection") -> list[str]:
    """The lines that the command prints: facts about a file or a set, or about one of its records."""
    if report.record is not None:
        return _lines_of_record(report.record)
    lines = [f"{report.path}: {report.title}"]
    for title, rows in sections_of(report):
        if title == "Speakers by hours" and len(rows) > _NUM_SPEAKERS:
            rows = [*rows[:_NUM_SPEAKERS], ("...", f"{report.speakers - _NUM_SPEAKERS:,} more")]
        width = max(len(name) for name, _ in rows)
        lines += [title, *(f"  {name:<{width}}  {text}".rstrip() for name, text in rows)]
        if title == "Contents":
            lines += _quantiles(quantiles_of(report))
    if report.first_records:
        lines += ["First records", *(f"  {_record(record)}" for record in report.first_records[:_NUM_FIRST])]
    return lines


def _quantiles(table: list[list[str]]) -> list[str]:
    names = ["Quantiles", *(f"  {row[0]}" for row in table[1:])]
    values = ["".join(f"{value:>9}" for value in row[1:]) for row in table]
    return [f"{name:<22}{numbers}" for name, numbers in zip(names, values, strict=False)]


def _record(record: dict[str, Any]) -> str:
    name = record.get("audio_filepath") or record.get("id") or ""
    text = " ".join(str(record.get("reject_detail") or record.get("text") or "").split())
    shown = f"{record.get('duration', '')} s  {name}  {text}"
    return shown if len(shown) <= 120 else shown[:117] + "..."


def _lines_of_record(record: "FoundRecord") -> list[str]:
    """The lines that the command prints for a record."""
    lines = [f"record {record.number:,}: {record.file}:{record.line}"]
    values = {name: text_of(value) for name, value in record.fields.items()}
    for number, turn in enumerate(record.turns, 1):
        place = [f"{name} {turn[name]:g} s" for name in ("offset", "duration") if name in turn]
        values[f"turn {number}, {turn['from']}"] = ", ".join([text_of(turn["value"]), *place])
    for name, text in values.items():
        lines.append(f"  {name:<22}{text if len(text) <= 200 else text[:197] + '...'}")
    for audio in record.audio:
        lines.append(f"audio  {audio.where}")
        lines.append(f"  {audio.name}  {audio.problem or audio.description}")
    return lines


NUM_TOP = 20
"""Maximum number of speakers, and of languages, in the report."""
_ONLY_HERE = ("columns", "sample", "groups", "dialogues")


class FoundAudio(msgspec.Struct):
    """The audio or the codes of a record: their file, and a description from their header.

    If they cannot be read, there is a `problem` and no description.
    """

    where: str
    name: str = ""
    description: str = ""
    problem: str | None = None


class FoundRecord(msgspec.Struct, omit_defaults=True):
    """Record `number` (from 0) of a set, in `line` (from 1) of `file`; `turns` of a conversation are in NeMo's form."""

    number: int
    file: str
    line: int
    fields: dict[str, Any]
    audio: list[FoundAudio]
    turns: list[dict[str, Any]] = []


class NamedShare(msgspec.Struct):
    """The records and hours of a speaker or a language."""

    name: str
    records: int
    hours: float


class PartOfMix(msgspec.Struct):
    """A data set of a mix: its files, its weight if it has one, its records and hours."""

    files: str
    num_files: int
    weight: float | None
    records: int
    hours: float


@dataclass
class Inspection(ShownInNotebooks):
    """Facts about `path`. Facts that its kind of data does not have are empty or 0.

    Durations are in seconds, sampling rates and `bandwidth` in Hz, `snr` in dB, `loudness` in LUFS. `chars_per_second`
    counts the characters of `text`; `speech_share` is from 0 to 1. Mappings from names to `float`, such as `duration`,
    hold percentiles over the records, from `p0` (the smallest value) to `p100` (the largest).
    """

    path: str
    kind: str
    title: str
    runs: list[RunFacts] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: int = 0
    lines: int = 0
    records: int = 0
    skipped: int = 0
    segments: int = 0
    without_text: int = 0
    hours: float = 0.0
    duration: dict[str, float] = field(default_factory=dict)
    chars_per_second: dict[str, float] = field(default_factory=dict)
    context_similarity: dict[str, float] = field(default_factory=dict)
    bandwidth: dict[str, float] = field(default_factory=dict)
    snr: dict[str, float] = field(default_factory=dict)
    loudness: dict[str, float] = field(default_factory=dict)
    speech_share: dict[str, float] = field(default_factory=dict)
    with_context_similarity: int = 0
    fields: dict[str, int] = field(default_factory=dict)
    extensions: dict[str, int] = field(default_factory=dict)
    cut_sampling_rates: dict[int, int] = field(default_factory=dict)
    speakers: int = 0
    top_speakers: list[NamedShare] = field(default_factory=list)
    num_languages: int = 0
    languages: list[NamedShare] = field(default_factory=list)
    reject_reasons: dict[str, int] = field(default_factory=dict)
    unusable: dict[str, int] = field(default_factory=dict)
    first_unusable: str | None = None
    parts: list[PartOfMix] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    tars: list[TarFacts] = field(default_factory=list)
    audio: list[AudioFacts] = field(default_factory=list)
    codes: list[CodeFacts] = field(default_factory=list)
    first_records: list[dict[str, Any]] = field(default_factory=list)
    outliers: list[Example] = field(default_factory=list)
    """Records with extreme values: the shortest and longest, those with the slowest and fastest speech, and so on."""
    record: FoundRecord | None = None
    """The record that `--record` asks for, else None. If there is a record, all facts on the whole data are empty."""
    columns: dict[str, Floats32] = field(default_factory=dict, repr=False)
    """The values of `duration`, `chars_per_second` and the other measures in ascending order, for plots."""
    sample: list[Example] = field(default_factory=list, repr=False)
    """A few records, evenly spread over the data."""
    groups: list[Group] = field(default_factory=list, repr=False)
    """The records of each speaker in each language, in descending order of hours of audio."""
    turns: dict[str, int] = field(default_factory=dict)
    """The turns of conversations by role and type, such as `User audio`; only they have it in the document."""
    dialogues: list[Dialogue] = field(default_factory=list, repr=False)
    """A few conversations, evenly spread over the data."""

    def __repr__(self) -> str:
        return brief(self, "path", "kind", "title", "records", "hours", "speakers", "notes")

    def __str__(self) -> str:
        """The text that the command line prints."""
        return as_text(lines_of(self))

    def document(self) -> Any:
        """The document for `--json`: the record of `--record`, or all facts but those in `_ONLY_HERE`."""
        if self.record is not None:
            return self.record
        shown = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _ONLY_HERE}
        if not self.turns:
            del shown["turns"]
        document = encodable(msgspec.to_builtins(shown))
        assert isinstance(document, dict)
        return document


def largest(shares: dict[str, Share], limit: int = NUM_TOP) -> list[NamedShare]:
    """The `limit` names with the most audio, in descending order of audio; ties are in the order of the names."""
    top = sorted(shares.items(), key=lambda item: (-item[1].seconds, item[0]))[:limit]
    return [NamedShare(name, share.records, round(share.seconds / 3600, 6)) for name, share in top]
