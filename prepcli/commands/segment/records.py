"""Writes what is made of the recordings of a unit: lines of segments, rejects of parts, and RTTM files of windows."""

import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from prepcli.audio.probe import Probes
from prepcli.audio.segments import Policy, Segment, locate
from prepcli.commands.make_manifest.source import PathNames
from prepcli.commands.score.command import FIELDS
from prepcli.commands.segment.account import add_rejected, add_sparse, add_to
from prepcli.commands.segment.packing import PAUSE, Piece
from prepcli.commands.segment.parts import PartUnit, part_of
from prepcli.commands.segment.recordings import Cut, SegmentSettings, cut, detail_of
from prepcli.commands.segment.texts import Item, fields_of
from prepcli.engine.publishing.publish import ADDED, UnitWriter
from prepcli.engine.state.plan import InputFile
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.names import plain_stem
from prepcli.formats.times.documents import timed_of
from prepcli.formats.times.timed import Timed, check_unit
from prepcli.formats.times.times import Times
from prepcli.gate import RATE_FIELDS, TEXT_FIELDS
from prepcli.interface.printing import number_of
from prepcli.jobs.line_job import LINES_NAME
from prepcli.jobs.record_job import RecordContents
from prepcli.jobs.records import Records
from prepcli.jobs.source import RecordItem, items
from prepcli.manifest.fields import REJECT_SECONDS
from prepcli.manifest.record import Record, Value

TIME_FIELDS = ("segments", "words", "alignment")
"""Fields of a record with texts and times, which are relative to the start of its audio; the first one counts."""
_OF_WHOLE = (
    *(*TEXT_FIELDS, *TIME_FIELDS, *RATE_FIELDS, "pred_text", "num_samples", "num_speakers", "rttm_filepath"),
    *(field for fields in FIELDS.values() for field in fields),
)
"""Fields that are not true of a part of a recording. NeMo cannot load a line with an offset and a sampling rate."""


class Texts:
    """The texts with times of recordings: files, or fields of the records themselves."""

    def __init__(self, by: str, path: Path | None, form: str) -> None:
        """`by`: the way of cutting; `path`, `form`: the values of `--times` and `--times-format`."""
        self._by, self._path, self._form = by, path, form
        self._times: Times | None = None
        self._folder = ""

    def opened(self, records: Records) -> tuple[list[InputFile], list[str]]:
        """Open the files for the recordings; returns them as inputs of the plan, and notes on what is not used."""
        if self._path is None:
            return [], []
        source = records.index.sources[0].path
        self._folder = os.path.abspath(source) if os.path.isdir(source) else ""
        paths = [self._name(records.record(number)) for number in range(len(records))]
        times = self._times = Times(str(self._path), self._form, paths)
        for number, path in enumerate(paths):
            times.look_up(path, _id(records.record(number)))
        unused = list(times.unused())
        match = "matches" if len(unused) == 1 else "match"
        names = f"{number_of(len(unused), 'name')} in {self._path} {match} no audio that could be read"
        return times.inputs, [f"{names}, the first is {min(unused)}"] if unused else []

    def _name(self, record: Record) -> str:
        """The path of a record's audio, below the folder that is the input."""
        path = record.audio_filepath
        return os.path.relpath(path, self._folder) if self._folder else path

    def of(self, record: Record, segment: Segment, counts: Counter[str]) -> "TextsOf":
        """The texts of a record.

        `segment` is its audio; `counts` gets what is left out of files of times (`Times.left_out`).

        Raises:
            RecordRejected: there are none although they decide, or they are damaged.
        """
        if self._by == "speech":
            return TextsOf()
        if self._times is not None:
            channel = segment.channel if isinstance(segment.channel, int) else None
            self._times.left_out.clear()
            lines = self._times.of(self._name(record), _id(record), channel, lambda: segment.info.duration)
            counts.update(+self._times.left_out)  # those that are not zero
            return TextsOf(lines, record.offset, self._times.read_from)
        for name in TIME_FIELDS:
            if (value := record.get(name)) is not None:
                check_unit(lines := timed_of({name: value}, name), lambda: segment.duration, name)
                return TextsOf(lines, None, name)
        if self._by == "windows":
            return TextsOf()
        detail = f"there are no {', '.join(TIME_FIELDS[:-1])} and no {TIME_FIELDS[-1]}, and no {option('--times')}"
        raise RecordRejected(RejectReason.MISSING_FIELD, detail)


class TextsOf(NamedTuple):
    """The texts with times of a recording.

    Attributes:
        lines: the texts; None if there are none.
        offset: the seconds at which the recording begins in the file whose times they have; None if the times are those
            of the recording.
        place: the file, or the field of the record, from which they are.
    """

    lines: Sequence[Timed] | None = None
    offset: float | None = None
    place: str = ""


def _id(record: Record) -> str | None:
    """The id of a record, which may be a number."""
    return None if record.get("id") is None else str(record.get("id"))


def rttm_folder(out: Path, folder: Path | None) -> str:
    """The path of `--rttm-out`, relative to the folder of `out`; empty if it is not given.

    Raises:
        UsageError: the folder is not in that of `out`.
    """
    if folder is None:
        return ""
    relative = os.path.relpath(folder, out.parent)
    if relative.split(os.sep)[0] in (os.curdir, os.pardir):
        raise UsageError(f"{option('--rttm-out', folder)} is not a folder in {out.parent}, where the manifest will be")
    return relative


class SegmentJob(NamedTuple):
    """How recordings are read and cut, and what is written.

    Attributes:
        policy: which channel is heard.
        settings: how they are cut.
        texts: their texts with times.
        rttms: the folder for RTTM files, relative to that of OUT; empty for none.
        names: makes the paths of audio in lines, if the input is a folder; None for manifests.
        paths_stay: whether relative paths of a manifest are right in OUT.
    """

    policy: Policy
    settings: SegmentSettings
    texts: Texts
    rttms: str
    names: PathNames | None
    paths_stay: bool


def write_recordings(contents: RecordContents, unit: PartUnit, writer: UnitWriter, job: SegmentJob) -> None:
    """Cut the recordings of a unit, or its part of one, and write their segments and rejects."""
    records, probes = contents.records, Probes(1)
    lines = SegmentLines(writer, records, job.settings, job.rttms)
    if unit.num_parts > 1:
        advance = writer.advance
        writer.advance = lambda *_: advance(unit.num_records, unit.cost)
    for item in items(contents, unit, writer):
        path = records.audio_path(item.number, item.record.audio_filepath)
        place = item.record.offset, item.record.duration, item.record.get("channel")
        audio = partial(_located, path, probes, place, job.policy)
        if unit.part and _is_rejected(audio):
            continue  # by the unit of its first part, as a whole
        with item:
            changes = {} if job.paths_stay else records.absolute_paths(item.number, item.record)
            if job.names is not None:
                changes["audio_filepath"] = job.names.name(path)
            try:
                part = part_of(audio(), unit.part, unit.num_parts)
                item.seconds = lines.add(item, part, job.texts.of(item.record, part, writer.extra), changes)
            except RecordRejected:
                add_rejected(writer.extra, item.record.duration)
                raise


def _located(path: str, probes: Probes, place: tuple[float, float, object], policy: Policy) -> Segment:
    return locate(path, probes(path), *place, policy, path)


def _is_rejected(audio: Callable[[], Segment]) -> bool:
    try:
        audio()
    except RecordRejected:
        return True
    return False


class SegmentLines:
    """Writes the segments of the recordings of a unit."""

    def __init__(self, writer: UnitWriter, records: Records, settings: SegmentSettings, rttms: str) -> None:
        """`rttms`: the folder for RTTM files, relative to that of OUT; empty for none."""
        self._writer, self._records, self._settings, self._rttms = writer, records, settings, rttms
        self._lines = writer.open_part(LINES_NAME.format(writer.unit.id))

    def add(
        self,
        item: RecordItem,
        segment: Segment,
        texts: TextsOf,
        changes: Mapping[str, Value],
    ) -> float:
        """Cut the audio of a record, and write its segments and rejects; returns the seconds of its segments.

        Args:
            item: the record, which counts as one record in and out; this counts all others.
            segment: its audio.
            texts: its texts with times.
            changes: fields with new values in all lines.

        Raises:
            RecordRejected: as `cut`, and MISSING_FIELD for RTTM without speakers.
        """
        unit = self._writer.unit
        is_part = isinstance(unit, PartUnit) and unit.num_parts > 1
        try:
            made = cut(segment, texts.lines, texts.offset, self._settings)
        except RecordRejected as rejected:
            if not is_part:
                raise
            made = Cut([Piece(0, segment.num_samples, 0, 0, rejected.reason)], [()], [None], detail=rejected.detail)
        if self._rttms and not any(one.speaker for own in made.items for one in own):
            raise RecordRejected(RejectReason.MISSING_FIELD, "its times name no speakers, whom RTTM files would show")
        rate, writer = segment.info.sampling_rate, self._writer
        by_start = _ByStart(made.items)
        longest = self._settings.rules(rate).longest
        add_to(writer.extra, made.pieces, segment.num_samples, rate, longest, is_first=unit.num_records > 0)
        if self._settings.by == "times":
            whose = f"{item.record.audio_filepath}, with the texts of {texts.place}"
            add_sparse(writer.extra, made.pieces, segment.num_samples, rate, whose)
        num_segments = num_rejects = 0
        for piece, own, text in zip(made.pieces, made.items, made.texts, strict=True):
            place = _place(piece, segment)
            if isinstance(segment.channel, int):
                place["channel"] = segment.channel
            if piece.reason is None:
                fields = place | fields_of(own, piece, rate) | ({} if text is None else {"text": text})
                if self._rttms:
                    fields |= self._rttm(item.number, item.record, segment, piece, by_start.within(piece))
                self._lines.write(_line(item.record, {**changes, **fields}) + b"\n")
                num_segments += 1
                continue
            detail = made.detail or detail_of(piece, own, rate, self._settings)
            self._reject(item, place, RecordRejected(piece.reason, detail))
            num_rejects += 1
        for outside in made.outside:
            reason = outside.reason or RecordRejected(RejectReason.BAD_DURATION, "it has no samples")
            named = RecordRejected(reason.reason, f"{texts.place}: {reason.detail}")
            self._reject(item, {REJECT_SECONDS: 0.0}, named)
            num_rejects += 1
        writer.records_out += num_segments - 1
        writer.extra[ADDED] += num_segments + num_rejects - (unit.num_records > 0)
        return sum(piece.length for piece in made.pieces if piece.reason is None) / rate

    def _reject(self, item: RecordItem, place: dict[str, Value], rejected: RecordRejected) -> None:
        line = item.record.to_json({**self._records.merged_changes(item.number, item.record), **place})
        self._writer.reject(line, rejected, self._records.origin(item.number))

    def _rttm(
        self, number: int, record: Record, segment: Segment, piece: Piece, items: Sequence[Item]
    ) -> dict[str, Value]:
        """Write the RTTM file of a window with the words or lines `items`.

        Its times are those of the audio file, as NeMo expects.
        """
        stem = "_".join(os.path.basename(plain_stem(record.audio_filepath)).split())
        rate = segment.info.sampling_rate
        turns = _turns(items, piece, rate)
        text = "".join(
            f"SPEAKER {stem} 1 {(segment.start + start) / rate:.3f} {(end - start) / rate:.3f} <NA> <NA> {speaker} "
            "<NA> <NA>\n"
            for start, end, speaker in turns
        )
        name = f"{self._rttms}/{stem}-{number:06d}-{round(1000 * (segment.start + piece.start) / rate):09d}.rttm"
        self._writer.add(name, text.encode())
        return {"rttm_filepath": name, "num_speakers": len({speaker for _, _, speaker in turns}), "speaker": None}


class _ByStart:
    """The words or lines of a recording by their starts, whose order is that of the speakers in NeMo's targets."""

    def __init__(self, parts: Sequence[Sequence[Item]]) -> None:
        """`parts`: the words or lines of each piece."""
        self._items = sorted((item for items in parts for item in items), key=lambda item: item.start)
        self._starts = [item.start for item in self._items]
        self._reach = list(accumulate((item.end for item in self._items), max))

    def within(self, piece: Piece) -> Sequence[Item]:
        """All that have a part in a piece, and a few others."""
        return self._items[bisect_right(self._reach, piece.start) : bisect_left(self._starts, piece.end)]


def _turns(items: Sequence[Item], piece: Piece, rate: int) -> list[tuple[int, int, str]]:
    """The turns of speakers in a window: first and last sample and speaker, by start.

    Words of a speaker with short pauses between them are one turn. `items` are sorted by their start.
    """
    turns: list[tuple[int, int, str]] = []
    last: dict[str, int] = {}
    for item in items:
        start, end = max(item.start, piece.start), min(item.end, piece.end)
        if start >= end or not item.speaker:
            continue
        speaker = "_".join(item.speaker.split())
        number = last.get(speaker)
        if number is not None and start - turns[number][1] <= (PAUSE * rate if item.is_word else 0):
            turns[number] = (turns[number][0], max(end, turns[number][1]), speaker)
            continue
        last[speaker] = len(turns)
        turns.append((start, end, speaker))
    return turns


def _place(piece: Piece, segment: Segment) -> dict[str, Value]:
    """The place of a piece in its file; six decimals of a second distinguish the samples of any rate."""
    rate = segment.info.sampling_rate
    return {"offset": round((segment.start + piece.start) / rate, 6), "duration": round(piece.length / rate, 6)}


def _line(record: Record, fields: dict[str, Any]) -> bytes:
    """The line of a segment: the fields of its record that are true of each part, and its own."""
    removed = {name for name in _OF_WHOLE if name not in fields}
    removed |= {name for name, value in fields.items() if value is None}
    if "id" in record.fields:
        start, seconds = fields["offset"], fields["duration"]
        fields["id"] = f"{record.get('id')}-{round(1000 * start):09d}-{round(1000 * (start + seconds)):09d}"
    return record.to_json(fields, removed)
