"""Fisher English Training Speech: LDC2004S13 and LDC2005S13 with their transcripts, as distributed by the LDC.

The roots contain, in any folders, recordings `fe_03_NNNNN.sph` (two channels, mu-law at 8 kHz, also compressed with
shorten), transcripts `fe_03_NNNNN.txt` with lines of `start end A: text`, and `fe_03_p?_calldata.tbl`, which has the
speakers' numbers.
"""

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from prepcli.commands.download.conversations import (
    Conversation,
    CorpusFiles,
    SlicedCorpus,
    TranscriptLine,
    find_files,
    parse_span,
    transcript_lines,
    unlisted,
)
from prepcli.commands.download.data_set import speaker_name
from prepcli.commands.download.spoken_text import Noises, spoken_text
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.manifest.fields import decode_line

_AUDIO = re.compile(r"(fe_03_\d{5})\.(?:sph|wav)", re.IGNORECASE)
_TRANSCRIPT = re.compile(r"(fe_03_\d{5})\.txt", re.IGNORECASE)
_TABLE = re.compile(r"(fe_03_p\d+)_calldata\.tbl", re.IGNORECASE)
_LINE = re.compile(r"(\S+)\s+(\S+)\s+([AB])\s*:\s*(.*)", re.DOTALL)

# Known errors in the transcripts, by conversation, channel and centiseconds of start and end: the correct text, or None
# for an unusable line. From Mozilla's DeepSpeech import, through NeMo's process_fisher_data.py.
_CORRECTIONS: dict[tuple[str, str, int, int], str | None] = {
    ("fe_03_00265", "B", 3353, 3381): "correct",
    ("fe_03_00991", "B", 52739, 52829): "that's one of those",
    ("fe_03_10282", "A", 34442, 34484): "they don't want",
    (
        "fe_03_10677",
        "B",
        10104,
        10641,
    ): "uh my mine yeah the german shepherd pitbull mix he snores almost as loud as i do",
    ("fe_03_00027", "B", 39380, 39405): None,
    ("fe_03_11487", "B", 3109, 23406): None,
    ("fe_03_01326", "A", 30742, 30793): None,
}


def corpus(roots: Sequence[Path], keep_low_conf: bool, noises: Noises) -> SlicedCorpus:
    """The corpus under `roots`."""
    return SlicedCorpus(
        folders={"train": "train", "val": "val", "test": "test"},
        times=(0, 1),
        find=partial(_find, roots),
        lines=_lines,
        utterance=partial(_utterance, keep_low_conf=keep_low_conf, noises=noises),
    )


def _find(roots: Sequence[Path]) -> CorpusFiles:
    """All conversations that have a transcript, sorted by id: the first 80 % are train, the next 10 % val."""
    (recordings, others), (transcripts, more), (tables, _) = find_files(roots, (_AUDIO, _TRANSCRIPT, _TABLE))
    named = ", ".join(map(str, roots))
    for found, what in ((transcripts, "transcripts (fe_03_NNNNN.txt)"), (recordings, "recordings (fe_03_NNNNN.sph)")):
        if not found:
            raise UsageError(f"no Fisher {what} under {named}; {option('--ldc-root')} takes LDC2004S13 or more")
    notes: list[str] = []
    speakers: dict[str, dict[str, str]] = defaultdict(dict)
    paths = [tables[name] for name in sorted(tables)]
    for table in paths:
        for call, channel, pin in _pins(table, notes):
            speakers[call][channel] = pin
    ids = sorted(transcripts)
    parts = [("train", ids[: len(ids) * 8 // 10]), ("val", ids[len(ids) * 8 // 10 : len(ids) * 9 // 10])]
    parts.append(("test", ids[len(ids) * 9 // 10 :]))
    conversations = [
        Conversation(name, part, recordings.get(name, f"{name}.sph"), transcripts[name], speakers.get(name, {}))
        for part, names in parts
        for name in names
    ]
    unused = [*others, *more, *unlisted(recordings, transcripts)]
    return CorpusFiles(conversations, unused, paths, notes)


def _lines(conversation: Conversation) -> Iterator[tuple[int, bytes]]:
    return transcript_lines(conversation.transcript, comment=b"#")


def _utterance(conversation: Conversation, line: bytes, keep_low_conf: bool, noises: Noises) -> TranscriptLine:
    """Parse a line `start end A: text`."""
    matched = _LINE.fullmatch(decode_line(line).strip())
    if matched is None:
        raise RecordRejected(RejectReason.BAD_FIELD, "the line is not of the form 'start end A: text'")
    start, end = parse_span(matched[1], matched[2])
    name, channel, text = conversation.id, matched[3], matched[4]
    correction = _CORRECTIONS.get((name, channel, round(start * 100), round(end * 100)), "")
    if correction is None:
        raise RecordRejected(RejectReason.BAD_FIELD, "a known mistake of the published transcript")
    if "((" in text and not correction and not keep_low_conf:
        raise RecordRejected(RejectReason.LOW_CONFIDENCE, "the transcriber was not sure: (( ))")
    spoken = spoken_text(correction or text, noises)
    label = f"{name}_{channel}"
    speaker = speaker_name("en", "Fisher", conversation.speakers.get(channel, label))
    return TranscriptLine(label, speaker, "AB".index(channel), start, end, spoken)


def _pins(table: str, notes: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (conversation, channel, number of the speaker) from the columns CALL_ID, APIN and BPIN of a table.

    Rows with another number of columns than the first line are left out, with a note in `notes`.
    """
    with Path(table).open(encoding="utf-8", errors="replace", newline="") as file:
        rows, damaged = csv.DictReader(file), 0
        try:
            if not {"CALL_ID", "APIN", "BPIN"} <= set(rows.fieldnames or ()):
                raise UsageError(f"{table} has no columns CALL_ID, APIN and BPIN in its first line")
            for row in rows:
                if None in row or None in row.values():
                    damaged += 1
                    continue
                call = (row["CALL_ID"] or "").strip()
                for channel in "AB":
                    pin = (row[f"{channel}PIN"] or "").strip()
                    if call and pin:
                        yield f"fe_03_{call:0>5}", channel, pin
        except csv.Error as error:
            raise UsageError(f"{table} cannot be read as a table (line {rows.line_num}: {error})") from None
    if damaged:
        left_out = f"{table}: {damaged:,} rows have another number of columns than its first line"
        notes.append(f"{left_out}; the speakers of these calls are named by call")
