"""Transcribed telephone conversations: the code that the readers of the LDC's corpora share."""

import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from prepcli.commands.download.recordings import files_in
from prepcli.errors import RecordRejected, RejectReason, naming
from prepcli.gate import MAX_SECONDS
from prepcli.interface.options import PathText


class Conversation(NamedTuple):
    """A recording and its transcript.

    Attributes:
        id: unique in the corpus.
        part: the part of the corpus, such as `train`; each part has a manifest.
        audio: path of the recording; the expected file name if the recording was not found.
        transcript: path of the transcript.
        speakers: the names of persons that tables of the corpus give, by channel as the transcript names it.
    """

    id: str
    part: str
    audio: str
    transcript: str
    speakers: Mapping[str, str] = {}


class TranscriptLine(NamedTuple):
    """One line of a transcript.

    Attributes:
        label: a name for the speaker of this conversation, unique in the corpus and valid in file names. All utterances
            of a slice have the same label.
        speaker: the field `speaker` of the manifest: the same for all recordings of a person, if the corpus identifies
            persons.
        channel: number of the channel, from 0.
        start, end: seconds from the start of the recording.
        text: the words; empty if there are none.
    """

    label: str
    speaker: str
    channel: int
    start: float
    end: float
    text: str


UnusedFile = tuple[str, RecordRejected]
"""The path of a file of a corpus that is not used, and the reason."""


class CorpusFiles(NamedTuple):
    """The files of a corpus, as they were found.

    Attributes:
        conversations: all conversations in the order of the output, part by part.
        unused: the recordings that no transcript names, and the files whose name an earlier file has.
        tables: files other than transcripts that the output depends on.
        notes: remarks on the files, for the user.
    """

    conversations: Sequence[Conversation]
    unused: Sequence[UnusedFile]
    tables: Sequence[str] = ()
    notes: Sequence[str] = ()


class SlicedCorpus(NamedTuple):
    """A corpus of conversations.

    Attributes:
        folders: for each part, in the order of the output, the folder of its slices.
        times: the positions, from 0, of the start and the end time among the columns of a transcript line, which white
            space separates. Times are in seconds.
        find: finds the files; raises `UsageError` if the folders do not contain the corpus.
        lines: returns the lines of a conversation's transcript that are records, each with its number from 1.
        utterance: parses the text of such a line; raises `RecordRejected` if the line cannot be used.
        has_vocabulary: whether `vocab.txt` is written next to the manifests.
    """

    folders: Mapping[str, str]
    times: tuple[int, int]
    find: Callable[[], CorpusFiles]
    lines: Callable[[Conversation], Iterable[tuple[int, bytes]]]
    utterance: Callable[[Conversation, str], TranscriptLine]
    has_vocabulary: bool = False


def parse_span(start: str, end: str) -> tuple[float, float]:
    """Return start and end of an utterance as numbers of seconds.

    Raises:
        RecordRejected: a text is not a number, a time is out of range, or the end is not after the start.
    """
    try:
        times = float(start), float(end)
    except ValueError:
        raise RecordRejected(RejectReason.BAD_FIELD, f"{start!r} and {end!r} are not times in seconds") from None
    if not 0 <= times[0] <= MAX_SECONDS:
        raise RecordRejected(RejectReason.BAD_OFFSET, f"the utterance starts at {start} s")
    if not times[0] < times[1] <= MAX_SECONDS:
        raise RecordRejected(RejectReason.BAD_DURATION, f"the utterance lasts from {start} s to {end} s")
    return times


def find_files(
    roots: Sequence[PathText], patterns: Sequence[re.Pattern[str]]
) -> list[tuple[dict[str, str], list[UnusedFile]]]:
    """Find the files under `roots` (`files_in`) whose names match one of the patterns.

    Returns:
        For each pattern, the paths of the files whose whole name matches it, by id, and the files whose id an earlier
        path has. The id is the text of the pattern's first group, in lower case. If several files have the same id, the
        first path in alphabetical order is used; further links to the same file do not count.
    """
    from prepcli.storage.input_files import same_file  # not at the top: imported for the `--help` of a corpus

    kinds: list[tuple[dict[str, str], list[UnusedFile]]] = [({}, []) for _ in patterns]
    for path in sorted(os.path.join(root, path) for root in roots for path in files_in(Path(root), "**/*")):
        for pattern, (paths, repeated) in zip(patterns, kinds, strict=True):
            matched = pattern.fullmatch(os.path.basename(path))
            if matched is not None:
                id = matched[1].lower()
                first = paths.setdefault(id, path)
                if first != path and same_file([Path(first)], [path]) is None:
                    detail = f"{path}: the id {id} is there twice, in {first} and in {path}; the first is used"
                    repeated.append((path, RecordRejected(RejectReason.BAD_FIELD, detail)))
    return kinds


def unlisted(recordings: Mapping[str, str], ids: Container[str]) -> list[UnusedFile]:
    """The recordings that no transcript names. `recordings`: path by id; `ids`: those that transcripts name."""
    paths = (path for id, path in sorted(recordings.items()) if id not in ids)
    reason = RejectReason.MISSING_TRANSCRIPT
    return [(path, RecordRejected(reason, f"{path}: no transcript names it")) for path in paths]


def transcript_lines(path: str, comment: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number (from 1) and the stripped text of each line that is neither empty nor begins with `comment`."""
    with naming(path), Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            stripped = line.strip()
            if stripped and not stripped.startswith(comment):
                yield number, stripped
