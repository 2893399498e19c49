"""Kaldi data directories as sources: their files wav.scp, segments, text, utt2spk and utt2lang."""

import os
import re
import shlex
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from prepcli.audio.info import unreadable
from prepcli.commands.make_manifest.entries import SourceEntry, rejected_entry
from prepcli.commands.make_manifest.source import EntrySource, text_lines
from prepcli.commands.make_manifest.tables import Table, by_white_space, read_table, repeated_lines
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.gate import fit, note_on_moved, text_hash
from prepcli.interface.printing import number_of
from prepcli.storage.containers import name_in

WAV_SCP = "wav.scp"
_TABLES = (("text", "text"), ("speaker", "utt2spk"), ("lang", "utt2lang"))
_IN_ARCHIVE = re.compile(r"(.+\.ark):(\d+)(\[.*\])?$", re.DOTALL)


def kaldi_source(folder: Path, how: str, base: str, run_commands: bool) -> EntrySource:
    """The utterances of a data directory: those of `segments` if it exists, else the recordings of `wav.scp`.

    Raises:
        UsageError: a file is missing, or recordings come from commands and `run_commands` is false.
    """
    scp = str(folder / WAV_SCP)
    if not run_commands:
        _refuse_commands(scp)
    tables = {
        field: read_table(folder / name, name, by_white_space) for field, name in _TABLES if (folder / name).is_file()
    }
    segments = folder / "segments"
    recordings = read_table(Path(scp), WAV_SCP, by_white_space) if segments.exists() else None
    reader = _Reader(scp, str(segments), recordings, [*tables.values(), *([recordings] if recordings else [])])
    return EntrySource(
        path=str(folder),
        kind="kaldi",
        how=how,
        base=base,
        entries=reader.entries,
        files=(scp if recordings is None else str(segments),),
        tables=tables,
        recordings=recordings,
        has_commands=True,
        has_ids=True,
        notes=reader.notes,
        hint=f"Kaldi's relative paths start from the folder in which its recipe ran, mostly two above the data "
        f"directory; name it with {option('--audio-base-dir')}",
    )


@dataclass
class _Reader:
    """Reads the utterances of a data directory. Counts what is changed or left out, for notes to the user.

    `recordings`: `wav.scp`, if there are segments. `tables`: all files that are looked up by their ids.
    """

    scp: str
    segments: str
    recordings: Table | None
    tables: list[Table]
    used: "array[int]" = field(default_factory=lambda: array("q"))  # hashes of ids of recordings
    num_moved: int = 0

    def entries(self) -> Iterator[SourceEntry]:
        """The utterances, then an entry for each line of another file whose id was there before."""
        self.used, self.num_moved = array("q"), 0
        yield from _recordings(self.scp) if self.recordings is None else self._segments()
        for table in self.tables:
            lines = ((number, by_white_space(line)[0], line) for number, line in text_lines(table.path))
            yield from repeated_lines(table, lines)

    def notes(self) -> Iterator[str]:
        """Notes on files that are not read, on segments that were changed, and on recordings that are left out."""
        if os.path.isfile(os.path.join(os.path.dirname(self.scp), "reco2file_and_channel")):
            yield "reco2file_and_channel is not read: its channels are for scoring, not for the files of wav.scp"
        if self.num_moved:
            yield note_on_moved(self.num_moved, "their recordings")
        if self.recordings is not None:
            import numpy as np

            left = self.recordings.num_unused(np.array(self.used, np.int64))
            if left:
                of = number_of(len(self.recordings), "recording")
                yield f"left out of wav.scp: {left:,} of {of}, without a segment"

    def _segments(self) -> Iterator[SourceEntry]:
        last = ""
        for number, line in text_lines(self.segments):
            try:
                entry = self._segment(line, number)
            except RecordRejected as rejected:
                yield rejected_entry(rejected.reason, rejected.detail, number, line)
                continue
            if entry.path != last:
                last = entry.path
                self.used.append(text_hash(last))
            yield entry

    def _segment(self, line: str, number: int) -> SourceEntry:
        parts = line.split()
        key, recording, start, end, channel = (*parts, *"-----")[:5]
        if len(parts) not in (4, 5) or not (channel.isdecimal() or channel == "-"):
            detail = f"the line has {len(parts)} words; it must be: utterance recording start end [channel from 0]"
            raise RecordRejected(RejectReason.BAD_FIELD, detail)
        fields: dict[str, Any] = {"id": key} | ({"channel": int(channel)} if channel != "-" else {})
        try:
            begin, stop = float(start), float(end)
        except ValueError:
            detail = f"the segment {key} lies from {start} to {end}, which are not numbers of seconds"
            raise RecordRejected(RejectReason.BAD_OFFSET, detail) from None
        # An end of -1 means the end of the file.
        seconds = 1.0 if stop == -1 else round(stop - begin, 9)  # 2.3 - 1.1 is 1.2
        span = fit(begin, seconds, inf, f"the segment {key}", f"its recording {recording}")
        self.num_moved += span.moved
        return SourceEntry(recording, number, key, fields, span.start, 0.0 if stop == -1 else span.duration)


def is_command(value: str) -> bool:
    """Whether a value of wav.scp is a command whose output is the audio."""
    return value.rstrip().endswith("|")


def words_of_command(value: str) -> list[str]:
    """Split a command into its words as a shell does; some words may be paths of files that the command reads."""
    lexer = shlex.shlex(value, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:  # the shell cannot parse such a command either
        return value.split()


def in_archive(value: str) -> str | None:
    """Convert a value of wav.scp that names a byte of a Kaldi archive: `FILE.ark:BYTE` -> `FILE.ark::BYTE`.

    Returns:
        None for other values.

    Raises:
        RecordRejected: the value names a range of samples, such as `FILE.ark:BYTE[0:100]`.
    """
    match = _IN_ARCHIVE.fullmatch(value)
    if match is not None and match[3]:
        unreadable(value, "is a range of an entry of Kaldi's archive; write it to segments instead")
    return None if match is None else name_in(match[1], match[2])


def _refuse_commands(scp: str) -> None:
    for number, line in text_lines(scp):
        if is_command(line):
            _, command = by_white_space(line)
            shown = command if len(command) <= 80 else f"{command[:77]}..."
            raise UsageError(
                f"{scp}:{number} is a command, not a file: {shown}. prepcli runs no commands out of data unless you "
                f"ask for it: give {option('--run-commands')} if you trust this file; the audio is then written "
                "beside OUT.json"
            )


def _recordings(scp: str) -> Iterator[SourceEntry]:
    for number, line in text_lines(scp):
        key, value = by_white_space(line)
        if not value:
            yield rejected_entry(RejectReason.MISSING_FIELD, f"the line for {key} has no path", number, line)
        else:
            yield SourceEntry(value, number, key, {"id": key})
