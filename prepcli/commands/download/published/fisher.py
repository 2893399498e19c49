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
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DestRoot
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
from prepcli.engine.run.options import JobArguments
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, PathText, listed
from prepcli.interface.printing import number_of

if TYPE_CHECKING:
    from prepcli.engine.run.report import Report

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


@command("download fisher")
def download_fisher(
    ldc_root: Annotated[
        Paths,
        Option(
            "Folder with LDC2004S13, LDC2005S13 or both, and their transcripts. Repeatable.",
            must_exist="folder",
            shapes_output=False,
        ),
    ],
    dest_root: DestRoot,
    *,
    min_slice_duration: Annotated[float, Option("Minimum seconds of speech per slice.", minimum=0)] = 10.0,
    keep_low_conf: Annotated[bool, Option("Keep lines with (( )), where the transcriber was not sure.")] = False,
    remove_noises: Annotated[bool, Option("Remove [laughter], [noise] and similar marks from the text.")] = False,
    noises_to_emoji: Annotated[bool, Option("Write laughter and other noises as emoji.")] = False,
    **more: Unpack[JobArguments],
) -> "Report":
    """Slice a licensed copy of Fisher English (1,960 hours, from the LDC) into utterances of one speaker.

    Reads LDC2004S13-Part1 and LDC2005S13-Part2 as the LDC ships them, or one of the two. Writes
    DEST/{train,val,test}/fe_03_NNNNN_A_001.wav (8 kHz, 16 bits) and DEST/manifest_{train,val,test}.json: 80, 10 and
    10 % of the conversations by their sorted numbers.

    A slice joins utterances of one speaker, without the silence between them, until --min-slice-duration is reached;
    the remainder at the end of a conversation is listed as a reject. A record is a line of a transcript. Recordings
    that are compressed with shorten need sph2pipe (`lhotse install-sph2pipe`); the others are read directly.

    Memory per worker: one slice, or one whole conversation (80 MB) if it is compressed. Run the same command again to
    continue after an interruption.

    Example: prepcli download fisher --ldc-root /corpora/LDC --dest-root fisher/ --remove-noises

    Returns:
        The report of the run; `outputs` are the manifests, `details["slices"]` is the number of slices.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_fisher("LDC", "fisher", remove_noises=True)
        >>> report.outputs["manifest_train"]
        '/.../fisher/manifest_train.json'
    """
    from prepcli.commands.download.slices import slice_corpus

    if remove_noises and noises_to_emoji:
        raise UsageError(f"{option('--remove-noises')} and {option('--noises-to-emoji')} exclude each other")
    noises = Noises.REMOVE if remove_noises else Noises.EMOJI if noises_to_emoji else Noises.KEEP
    corpus = SlicedCorpus(
        folders={"train": "train", "val": "val", "test": "test"},
        times=(0, 1),
        find=partial(_find, listed(ldc_root)),
        lines=_lines,
        utterance=partial(_utterance, keep_low_conf=keep_low_conf, noises=noises),
    )
    return slice_corpus(corpus, dest_root, min_slice_duration)


def _find(roots: Sequence[PathText]) -> CorpusFiles:
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
    val, test = len(ids) * 8 // 10, len(ids) * 9 // 10
    parts = chain(repeat("train", val), repeat("val", test - val), repeat("test"))
    conversations = [
        Conversation(name, part, recordings.get(name, f"{name}.sph"), transcripts[name], speakers.get(name, {}))
        for name, part in zip(ids, parts, strict=False)
    ]
    unused = [*others, *more, *unlisted(recordings, transcripts)]
    return CorpusFiles(conversations, unused, paths, notes)


def _lines(conversation: Conversation) -> Iterator[tuple[int, bytes]]:
    return transcript_lines(conversation.transcript, comment=b"#")


def _utterance(conversation: Conversation, line: str, keep_low_conf: bool, noises: Noises) -> TranscriptLine:
    """Parse a line `start end A: text`."""
    matched = _LINE.fullmatch(line.strip())
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
        left_out = f"{table}: {number_of(damaged, 'row', 'have')} another number of columns than its first line"
        notes.append(f"{left_out}; the speakers of these calls are named by call")
