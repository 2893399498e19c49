"""Transcribed telephone conversations: the code that the readers of the LDC's corpora share."""

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

from prepcli.errors import RecordRejected, RejectReason, naming
from prepcli.manifest.record import MAX_SECONDS
from prepcli.storage.input_files import same_file


@dataclass(frozen=True, slots=True)
class Conversation:
    """A recording and its transcript.

    Attributes:
        id: unique in the corpus.
        part: the part of the corpus, such as `train`; each part has a manifest.
        audio: path of the recording; the expected file name if the recording was not found.
        transcript: path of the transcript.
    """

    id: str
    part: str
    audio: str
    transcript: str


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """One line of a transcript.

    Attributes:
        label: a name for the speaker of this conversation, unique in the corpus and valid in file names. The same
            person has other labels in other conversations. All utterances of a slice have the same label.
        speaker: the field `speaker` of the manifest: the same for all recordings of a person, if the corpus identifies
            persons.
        channel: number of the channel, from 0.
        start, end: seconds from the start of the recording.
        text: the words.
    """

    label: str
    speaker: str
    channel: int
    start: float
    end: float
    text: str


class UnusedFile(NamedTuple):
    """A file of a corpus that is not used: a reject with this reason."""

    path: str
    reason: RejectReason
    detail: str


class SlicedCorpus(Protocol):
    """The reader of a corpus of conversations.

    Attributes:
        command: the command that slices the corpus, such as `download fisher`.
        folders: for each part, in the order of the output, the folder of its slices.
        times: the positions, from 0, of the start and the end time among the columns of a transcript line, which white
            space separates. Times are in seconds.
        unused: the recordings that no transcript names, and the files whose name an earlier file has.
        tables: files other than transcripts that the output depends on.
        notes: remarks on the files that were found, for the user.
        has_vocabulary: whether `vocab.txt` is written next to the manifests.
    """

    command: ClassVar[str]
    folders: ClassVar[Mapping[str, str]]
    times: ClassVar[tuple[int, int]]
    has_vocabulary: ClassVar[bool]
    unused: Sequence[UnusedFile]
    tables: Sequence[str]
    notes: Sequence[str]

    def conversations(self) -> Sequence[Conversation]:
        """Return all conversations in the order of the output, part by part.

        The job calls this method before the other methods.

        Raises:
            UsageError: the folders do not contain the corpus.
        """

    def lines(self, conversation: Conversation) -> Iterable[tuple[int, bytes]]:
        """Return the lines of the transcript that are records, each with its number from 1."""

    def utterance(self, conversation: Conversation, line: bytes) -> TranscriptLine:
        """Parse a line of the transcript.

        Raises:
            RecordRejected: the line cannot be used.
        """


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


class FoundFiles(NamedTuple):
    """The files of a kind: the paths by id, and the files whose id an earlier path has."""

    paths: dict[str, str]
    repeated: list[UnusedFile]


def find_files(roots: Sequence[Path], patterns: Sequence[re.Pattern[str]]) -> Sequence[FoundFiles]:
    """Find the files under `roots` whose names match one of the patterns.

    Links to folders are followed; each folder is visited once.

    Returns:
        For each pattern, the files whose whole name matches it. The id is the text of the pattern's first group, in
        lower case. If several files have the same id, the first path in alphabetical order is used; further links to
        the same file do not count.
    """
    found = [FoundFiles({}, []) for _ in patterns]
    for path in sorted(_walk(roots)):
        name = os.path.basename(path)
        for pattern, files in zip(patterns, found, strict=True):
            matched = pattern.fullmatch(name)
            if matched is not None:
                id = matched[1].lower()
                first = files.paths.setdefault(id, path)
                if first != path and same_file([Path(first)], [path]) is None:
                    detail = f"{path}: the id {id} is there twice, in {first} and in {path}; the first is used"
                    files.repeated.append(UnusedFile(path, RejectReason.BAD_FIELD, detail))
    return found


def unlisted(recordings: Mapping[str, str], ids: Container[str]) -> list[UnusedFile]:
    """The recordings that no transcript names. `recordings`: path by id; `ids`: those that transcripts name."""
    reason, detail = RejectReason.MISSING_TRANSCRIPT, "no transcript names it"
    return [UnusedFile(path, reason, f"{path}: {detail}") for id, path in sorted(recordings.items()) if id not in ids]


def _walk(roots: Sequence[Path]) -> Iterator[str]:
    seen: set[tuple[int, int]] = set()
    for root in roots:
        for folder, folders, files in os.walk(root, followlinks=True):
            status = os.stat(folder)
            if (status.st_dev, status.st_ino) in seen:
                folders.clear()
                continue
            seen.add((status.st_dev, status.st_ino))
            yield from (os.path.join(folder, file) for file in files)


def transcript_lines(path: str, comment: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number (from 1) and the stripped text of each line that is neither empty nor begins with `comment`."""
    with naming(path), Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            stripped = line.strip()
            if stripped and not stripped.startswith(comment):
                yield number, stripped
