"""Writes what is made of the recordings of a unit: lines of segments, rejects of parts, and RTTM files of windows."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prepcli.audio.segments import Segment
from prepcli.commands.segment.account import add_to
from prepcli.commands.segment.packing import PAUSE, Piece
from prepcli.commands.segment.recordings import Cut, SegmentSettings, cut, detail_of
from prepcli.commands.segment.texts import Item, fields_of
from prepcli.engine.publishing.publish import ADDED, UnitWriter
from prepcli.engine.state.plan import InputFile
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.names import plain_stem
from prepcli.formats.times.documents import timed_of
from prepcli.formats.times.timed import Timed
from prepcli.formats.times.times import Times
from prepcli.gate import RATE_FIELDS, TEXT_FIELDS
from prepcli.jobs.line_job import LINES_NAME
from prepcli.jobs.records import Records
from prepcli.jobs.source import RecordItem
from prepcli.manifest.record import Record, Value

TIME_FIELDS = ("segments", "words", "alignment")
"""Fields of a record with texts and times, which are relative to the start of its audio; the first one counts."""
_OF_WHOLE = (*TEXT_FIELDS, *TIME_FIELDS, *RATE_FIELDS, "num_samples", "num_speakers", "rttm_filepath")
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
            times.look_up(path, records.record(number).get("id"))
        unused = list(times.unused())
        note = f"{len(unused):,} names in {self._path} match no audio, the first is {min(unused)}" if unused else ""
        return times.inputs, [note] if note else []

    def _name(self, record: Record) -> str:
        """The path of a record's audio, below the folder that is the input."""
        path = record.audio_filepath
        return os.path.relpath(path, self._folder) if self._folder else path

    def of(self, record: Record) -> tuple[Sequence[Timed] | None, float | None]:
        """The texts of a record, or None; and the seconds at which it begins in the file whose times they have.

        The second value is None if the times are those of the record.

        Raises:
            RecordRejected: there are none although they decide, or they are damaged.
        """
        if self._by == "speech":
            return None, None
        if self._times is not None:
            return self._times.of(self._name(record), record.get("id")), record.offset
        for name in TIME_FIELDS:
            if (value := record.get(name)) is not None:
                return timed_of({name: value}, name), None
        if self._by == "windows":
            return None, None
        detail = f"there are no {', '.join(TIME_FIELDS[:-1])} and no {TIME_FIELDS[-1]}, and no {option('--times')}"
        raise RecordRejected(RejectReason.MISSING_FIELD, detail)


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
        lines: Sequence[Timed] | None,
        offset: float | None,
        changes: Mapping[str, Value],
    ) -> float:
        """Cut the audio of a record, and write its segments and rejects; returns the seconds of its segments.

        Args:
            item: the record, which counts as one record in and out; this counts all others.
            segment: its audio.
            lines: its texts with times, or None.
            offset: as in `cut`.
            changes: fields with new values in all lines.

        Raises:
            RecordRejected: as `cut`, and MISSING_FIELD for RTTM without speakers.
        """
        made = cut(segment, lines, offset, self._settings)
        if self._rttms and not any(one.speaker for items in made.items for one in items):
            raise RecordRejected(RejectReason.MISSING_FIELD, "its times name no speakers, whom RTTM files would show")
        rate, writer = segment.info.sampling_rate, self._writer
        longest = round(self._settings.longest * rate)
        add_to(writer.extra, made.pieces, segment.num_samples, rate, longest)
        num_segments = num_rejects = 0
        for piece, items, text in zip(made.pieces, made.items, made.texts, strict=True):
            place = _place(piece, segment)
            if isinstance(segment.channel, int):
                place["channel"] = segment.channel
            if piece.reason is None:
                fields = place | fields_of(items, piece, rate) | ({} if text is None else {"text": text})
                if self._rttms:
                    fields |= self._rttm(item.number, item.record, segment, piece, made)
                self._lines.write(_line(item.record, {**changes, **fields}) + b"\n")
                num_segments += 1
                continue
            detail = detail_of(piece, items, rate, self._settings)
            self._reject(item, place, RecordRejected(piece.reason, detail))
            num_rejects += 1
        for outside in made.outside:
            self._reject(item, {}, outside.reason or RecordRejected(RejectReason.BAD_DURATION, "it has no samples"))
            num_rejects += 1
        writer.records_out += num_segments - 1
        writer.extra[ADDED] += num_segments + num_rejects - 1
        return sum(piece.length for piece in made.pieces if piece.reason is None) / rate

    def _reject(self, item: RecordItem, place: dict[str, Value], rejected: RecordRejected) -> None:
        line = item.record.to_json({**self._records.merged_changes(item.number, item.record), **place})
        self._writer.reject(line, rejected, self._records.origin(item.number))

    def _rttm(self, number: int, record: Record, segment: Segment, piece: Piece, made: Cut) -> dict[str, Value]:
        """Write the RTTM file of a window; its times are those of the audio file, as NeMo expects."""
        stem = "_".join(os.path.basename(plain_stem(record.audio_filepath)).split())
        rate = segment.info.sampling_rate
        turns = _turns([one for items in made.items for one in items], piece, rate)
        text = "".join(
            f"SPEAKER {stem} 1 {(segment.start + start) / rate:.3f} {(end - start) / rate:.3f} <NA> <NA> {speaker} "
            "<NA> <NA>\n"
            for start, end, speaker in turns
        )
        name = f"{self._rttms}/{stem}-{number:06d}-{round(1000 * (segment.start + piece.start) / rate):09d}.rttm"
        self._writer.add(name, text.encode())
        return {"rttm_filepath": name, "num_speakers": len({speaker for _, _, speaker in turns}), "speaker": None}


def _turns(items: Sequence[Item], piece: Piece, rate: int) -> list[tuple[int, int, str]]:
    """The turns of speakers in a window: first and last sample and speaker, by start; short pauses are not shown."""
    turns: list[tuple[int, int, str]] = []
    last: dict[str, int] = {}
    for item in items:
        start, end = max(item.start, piece.start), min(item.end, piece.end)
        if start >= end or not item.speaker:
            continue
        speaker = "_".join(item.speaker.split())
        number = last.get(speaker)
        if number is not None and start - turns[number][1] <= PAUSE * rate:
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
