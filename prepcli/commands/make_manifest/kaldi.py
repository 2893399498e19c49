"""Kaldi data directories as sources: their files wav.scp, segments, text, utt2spk and utt2lang."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prepcli.audio.info import unreadable
from prepcli.commands.make_manifest.entries import SourceEntry, rejected_entry
from prepcli.commands.make_manifest.source import EntrySource, text_lines
from prepcli.commands.make_manifest.tables import by_white_space, read_table
from prepcli.errors import RejectReason, UsageError, option
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
    segments = str(folder / "segments")
    has_segments = os.path.exists(segments)
    main = segments if has_segments else scp
    notes = []
    if (folder / "reco2file_and_channel").is_file():
        notes.append("reco2file_and_channel is not read: its channels are for scoring, not for the files of wav.scp")
    return EntrySource(
        path=str(folder),
        kind="kaldi",
        how=how,
        base=base,
        entries=lambda: _segments(segments) if has_segments else _recordings(scp),
        files=(main,),
        tables=tables,
        recordings=read_table(Path(scp), WAV_SCP, by_white_space) if has_segments else None,
        has_commands=True,
        needs_unique_keys=True,
        notes=lambda: iter(notes),
        hint=f"Kaldi's relative paths start from the folder in which its recipe ran, mostly two above the data "
        f"directory; name it with {option('--audio-base-dir')}",
    )


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
    found = _IN_ARCHIVE.fullmatch(value)
    if found is not None and found[3]:
        unreadable(value, "is a range of an entry of Kaldi's archive; write it to segments instead")
    return None if found is None else name_in(found[1], found[2])


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


def _segments(segments: str) -> Iterator[SourceEntry]:
    for number, line in text_lines(segments):
        parts = line.split()
        key, recording, start, end, channel = (*parts, *"-----")[:5]
        if len(parts) not in (4, 5) or not (channel.isdecimal() or channel == "-"):
            detail = f"the line has {len(parts)} words; it must be: utterance recording start end [channel from 0]"
            yield rejected_entry(RejectReason.BAD_FIELD, detail, number, line)
            continue
        fields: dict[str, Any] = {"id": key} | ({"channel": int(channel)} if channel != "-" else {})
        try:
            begin, stop = float(start), float(end)
        except ValueError:
            begin = stop = float("nan")
        # An end of -1 means the end of the file.
        if not 0 <= begin < float("inf") or not (begin < stop < float("inf") or stop == -1):
            detail = f"the segment from {start} to {end} is not one of seconds above 0"
            yield rejected_entry(RejectReason.BAD_OFFSET, detail, number, line)
        else:
            duration = 0.0 if stop == -1 else round(stop - begin, 9)  # 2.3 - 1.1 is 1.2
            yield SourceEntry(recording, number, key, fields, begin, duration)
