"""Recordings with texts with times (`--times`): a record for each line of their times, such as a cue of subtitles."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf, isinf
from typing import Any

from prepcli.audio.probe import Probes
from prepcli.commands.make_manifest.entries import SourceEntry
from prepcli.commands.make_manifest.source import EntrySource
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.times.timed import WITHOUT_TEXT, Timed
from prepcli.formats.times.times import Times, notes_on_left_out
from prepcli.gate import fit, note_on_moved
from prepcli.interface.printing import number_of

_KINDS = ("folder", "list")
"""Formats of sources whose entries are whole recordings, without texts of their own."""


def with_times(source: EntrySource, path: str, format: str) -> EntrySource:
    """The source with a segment for each line of the times of each recording.

    `path` and `format`: see `prepcli.formats.times.times.Times`.

    Raises:
        UsageError: the source has other entries than recordings, or there are no times.
    """
    if source.kind not in _KINDS:
        raise UsageError(
            f"{option('--times')} makes records of the recordings of a folder or of a list of paths, and {source.path} "
            f"is read as {source.kind}; leave it out, or give the folder of the audio as SOURCE"
        )
    times = Times(path, format, (entry.path for entry in source.entries() if not entry.reason))
    reader = _Reader(source, times)
    return replace(source, entries=reader.entries, times=times, notes=reader.notes)


@dataclass
class _Reader:
    """Reads the lines of all recordings. Counts those that are moved, for a note to the user."""

    source: EntrySource
    times: Times
    num_moved: int = 0
    probes: Probes = field(default_factory=lambda: Probes(1))

    def entries(self) -> Iterator[SourceEntry]:
        """An entry for each line of each recording, and a rejected one for a recording whose times cannot be used."""
        self.num_moved = 0
        self.times.left_out.clear()
        for entry in self.source.entries():
            try:
                lines = [] if entry.reason else self._lines(entry.path)
            except RecordRejected as rejected:
                entry.reason, entry.detail = rejected.reason.value, rejected.detail
            if entry.reason:
                yield entry
                continue
            has_texts = any(line.text is not None for line in lines)
            for line in lines:
                yield self._segment(entry, line, has_texts)

    def _lines(self, path: str) -> list[Timed]:
        lines = self.times.of(path, seconds=lambda: self.probes(os.path.join(self.source.base, path)).duration)
        if not lines:
            raise RecordRejected(RejectReason.MISSING_TRANSCRIPT, f"the times of {path} have no line with a text")
        if any(line.is_word for line in lines):
            raise UsageError(
                f"{self.times.path} has words with times for {path}, not lines that are records; cut the recordings "
                f"by them: prepcli segment {option('--by', 'times')} {option('--times', self.times.path)}"
            )
        return lines

    def _segment(self, entry: SourceEntry, line: Timed, has_texts: bool) -> SourceEntry:
        fields: dict[str, Any] = {"text": line.text, "speaker": line.speaker, "channel": line.channel}
        segment = SourceEntry(
            entry.path,
            entry.line,
            entry.key,
            {**(entry.fields or {}), **{name: value for name, value in fields.items() if value is not None}},
            line.start,
            0.0 if isinf(line.end) else round(line.end - line.start, 9),  # 2.3 - 1.1 is 1.2
        )
        try:
            what = "the line of the times" if line.text is None else f"the line {line.text[:40]!r}"
            seconds = 1.0 if isinf(line.end) else segment.duration  # the end is that of the recording
            span = fit(line.start, seconds, inf, what, "its recording")
            if has_texts and line.text is None:
                raise RecordRejected(RejectReason.MISSING_TRANSCRIPT, WITHOUT_TEXT)
        except RecordRejected as rejected:
            segment.reason, segment.detail = rejected.reason.value, rejected.detail
            return segment
        self.num_moved += span.moved
        segment.offset = span.start
        segment.duration = 0.0 if isinf(line.end) else span.duration
        return segment

    def notes(self) -> Iterator[str]:
        """The notes of the source, and those on names without audio and on lines that were changed."""
        yield from self.source.notes()
        count, first = 0, ""
        for name in self.times.unused():
            count, first = count + 1, min(first or name, name)
        if count:
            match = "matches" if count == 1 else "match"
            yield f"{number_of(count, 'name')} in {self.times.path} {match} no audio, the first is {first}"
        if self.num_moved:
            yield note_on_moved(self.num_moved, "their recordings")
        yield from notes_on_left_out(self.times.left_out).values()
