"""Transcribed telephone conversations: the common parts of the LDC's corpora, and single-speaker slices.

A slice joins consecutive utterances of one speaker without the silence and the rejected utterances between them, so its
text is complete. NeMo's scripts for these corpora do the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from prepcli.errors import RecordRejected, RejectReason
from prepcli.manifest.record import MAX_SECONDS


@dataclass(frozen=True, slots=True)
class Conversation:
    """A recording and its transcript.

    Attributes:
        id: unique in the corpus.
        part: name of the manifest of its slices.
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
        label: the speaker in this conversation, unique in the corpus and valid in file names; a slice has one label.
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


class SlicedCorpus(Protocol):
    """The reader of a corpus.

    Attributes:
        folders: for each part, in the order of the output, the folder of its slices.
        times: the positions, from 0, of start and end (seconds) among the words of a line.
        tables: files other than transcripts that the output depends on.
        notes: remarks on the files that were found, for the user.
        has_vocabulary: whether `vocab.txt` is written next to the manifests.
    """

    folders: ClassVar[Mapping[str, str]]
    times: ClassVar[tuple[int, int]]
    has_vocabulary: ClassVar[bool]
    tables: Sequence[str]
    notes: Sequence[str]

    def conversations(self) -> Sequence[Conversation]:
        """Return all conversations in the order of the output, part by part; called before the other methods.

        Raises:
            UsageError: the folders do not contain the corpus.
        """

    def lines(self, conversation: Conversation) -> Iterable[tuple[int, bytes]]:
        """Return the lines of the transcript that are records, each with its number from 1."""

    def utterance(self, conversation: Conversation, line: bytes) -> TranscriptLine:
        """Parse a line.

        Raises:
            RecordRejected: the line cannot be used.
        """


_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Stretch(Generic[_Item]):
    """Consecutive items (utterances) and their total length in seconds."""

    items: Sequence[_Item]
    seconds: float


def runs(items: Iterable[tuple[_Item, float]], min_seconds: float) -> Iterator[Stretch[_Item]]:
    """Cut a sequence of (item, seconds) into runs, each ended by the item with which it reaches `min_seconds`.

    The last run may be shorter.
    """
    collected: list[_Item] = []
    total = 0.0
    for item, seconds in items:
        collected.append(item)
        total += seconds
        # Because of rounding, a sum of centiseconds such as 3.3 + 6.7 may be less than 10.
        if total >= min_seconds - 1e-6:
            yield Stretch(collected, total)
            collected, total = [], 0.0
    if collected:
        yield Stretch(collected, total)


def parse_span(start: str, end: str) -> tuple[float, float]:
    """Return start and end of an utterance in seconds.

    Raises:
        RecordRejected: start and end are not a span of time.
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


def decode_line(line: bytes) -> str:
    """Return the text of a line.

    Raises:
        RecordRejected: NOT_UTF8.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"byte 0x{line[error.start]:02x} at position {error.start} is not UTF-8"
        raise RecordRejected(RejectReason.NOT_UTF8, detail) from None
