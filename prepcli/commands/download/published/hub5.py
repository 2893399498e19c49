"""2000 HUB5 English Evaluation: speech LDC2002S09, transcripts LDC2002T43.

The root contains, in any folders, recordings such as `hub5e_00/english/en_4156.sph` and the reference
`hub5e00.english.000405.stm`, with lines of `file channel speaker start end <labels> text`.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
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

if TYPE_CHECKING:
    from prepcli.engine.run.report import Report

_AUDIO = re.compile(r"((?:en|sw)_?\w+)\.(?:sph|wav)", re.IGNORECASE)
_REFERENCE = re.compile(r"(hub5e00\.english\.[\w.]*)stm", re.IGNORECASE)
_LINE = re.compile(r"(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)(?:\s+<(?![BE]_ASIDE)[^<>]*>)?(?:\s+(.*))?", re.DOTALL | re.I)
_IGNORED = b"ignore_time_segment"
_CHANNELS = {"a": 0, "1": 0, "b": 1, "2": 1}
_ASIDE = re.compile(r"<[be]_aside>", re.IGNORECASE)
# { a / b }: both are correct, and the first is used; @ means an empty alternative.
_ALTERNATIVES = re.compile(r"\{([^{}/]*)/[^{}]*\}")
_FILLED_PAUSE = re.compile(r"%(\w+)")
_PAUSE_WORDS = {"hesitation": "uh", "ah": "uh"}
# By recording, channel and centiseconds, as in NeMo's process_hub5_data.py.
_CORRECTIONS = {("en_4622", 1, 12079, 12187): "kind of weird but"}


@command("download hub5")
def download_hub5(
    data_root: Annotated[
        Paths,
        Option(
            "Folder with LDC2002S09 and LDC2002T43. Repeatable.",
            must_exist="folder",
            shapes_output=False,
        ),
    ],
    dest_root: DestRoot,
    *,
    min_slice_duration: Annotated[
        float, Option("Minimum seconds of speech per slice; 0: one slice per utterance.", minimum=0)
    ] = 10.0,
    **more: Unpack[JobArguments],
) -> "Report":
    """Slice a licensed copy of the 2000 HUB5 English evaluation (11 hours, from the LDC) into a test set.

    Reads hub5e_00/english/*.sph and the reference hub5e00.english.000405.stm, without the segments that it
    excludes from scoring. Writes DEST/audio/en_4156_a_001.wav (8 kHz, 16 bits), DEST/manifest_hub5.json and
    DEST/vocab.txt, the characters of the texts.

    Slices are made as in `download fisher`. Recordings that are compressed with shorten need sph2pipe
    (`lhotse install-sph2pipe`). Run the same command again to continue after an interruption.

    Example: prepcli download hub5 --data-root /corpora/LDC --dest-root hub5/

    Returns:
        The report of the run; `outputs` are the manifests, `details["slices"]` is the number of slices.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_hub5("LDC", "hub5")
        >>> report.outputs["manifest_hub5"]
        '/.../hub5/manifest_hub5.json'
    """
    from prepcli.commands.download.slices import slice_corpus

    corpus = SlicedCorpus(
        folders={"hub5": "audio"},
        times=(3, 4),
        find=partial(_find, listed(data_root)),
        lines=_lines,
        utterance=_utterance,
        has_vocabulary=True,
    )
    return slice_corpus(corpus, dest_root, min_slice_duration)


def _find(roots: Sequence[PathText]) -> CorpusFiles:
    """All recordings with lines to score in the reference transcript, sorted by name."""
    (recordings, others), (references, _) = find_files(roots, (_AUDIO, _REFERENCE))
    named = ", ".join(map(str, roots))
    if not references:
        raise UsageError(
            f"no reference (hub5e00.english.000405.stm) under {named}; {option('--data-root')} takes LDC2002T43 too"
        )
    if not recordings:
        raise UsageError(f"no recordings (english/*.sph) under {named}; {option('--data-root')} takes LDC2002S09 too")
    reference = references[min(references)]
    names = sorted({name for name, _, _ in _scored(reference)})
    if not names:
        raise UsageError(f"{reference} has no line that is to be scored")
    conversations = [Conversation(name, "hub5", recordings.get(name, f"{name}.sph"), reference) for name in names]
    return CorpusFiles(conversations, [*others, *unlisted(recordings, names)])


def _scored(reference: str) -> Iterator[tuple[str, int, bytes]]:
    """Yield recording, number and text of the lines of the reference that are not excluded from scoring."""
    for number, line in transcript_lines(reference, comment=b";;"):
        if _IGNORED not in line.lower():
            yield line.split()[0].decode("utf-8", "replace").lower(), number, line


def _lines(conversation: Conversation) -> Iterator[tuple[int, bytes]]:
    scored = _scored(conversation.transcript)
    return ((number, line) for name, number, line in scored if name == conversation.id)


def _utterance(conversation: Conversation, line: str) -> TranscriptLine:
    """Parse a line `file channel speaker start end <labels> text`."""
    matched = _LINE.fullmatch(line)
    if matched is None:
        raise RecordRejected(RejectReason.BAD_FIELD, "the line is not 'file channel speaker start end <labels> text'")
    channel = _CHANNELS.get(matched[2].lower())
    if channel is None:
        raise RecordRejected(RejectReason.BAD_FIELD, f"channel {matched[2]} is not one of A, B, 1, 2")
    start, end = parse_span(matched[4], matched[5])
    text = _CORRECTIONS.get((conversation.id, channel, round(start * 100), round(end * 100)), matched[6] or "")
    text = _ALTERNATIVES.sub(lambda found: found[1].replace("@", " "), _ASIDE.sub(" ", text))
    text = _FILLED_PAUSE.sub(lambda found: _PAUSE_WORDS.get(found[1].lower(), found[1]), text)
    spoken = spoken_text(text, Noises.KEEP)
    label = re.sub(r"[^\w-]", "_", matched[3].lower())
    if not label.startswith(conversation.id):
        label = f"{conversation.id}_{label}"
    return TranscriptLine(label, speaker_name("en", "HUB5", label), channel, start, end, spoken)
