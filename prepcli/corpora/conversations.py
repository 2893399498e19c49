"""Transcribed telephone conversations: what the corpora of the LDC have in common, and slices of one speaker.

A slice is a run of one speaker's utterances, joined without the silence between them and without what was dropped
there: so its text says all that is heard in it. NeMo's scripts for these corpora join them in the same way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from prepcli.errors import RecordRejected, RejectReason
from prepcli.manifest.record import LONGEST


@dataclass(frozen=True, slots=True)
class Conversation:
    """A recording and where its transcript lies.

    Attributes:
        part: name of the manifest that its slices go into.
        audio: path of the recording; where none was found, the name that was looked for.
    """

    id: str
    part: str
    audio: str
    transcript: str


@dataclass(frozen=True, slots=True)
class Utterance:
    """One line of a transcript.

    Attributes:
        label: whose utterance it is, unique in the corpus and fit for file names; slices never mix labels.
        speaker: the manifest's `speaker`: the same for all recordings of a person, where the corpus tells.
        channel: from 0.
        start, end: seconds from the start of the recording.
    """

    label: str
    speaker: str
    channel: int
    start: float
    end: float
    text: str


class Corpus(Protocol):
    """How a corpus is read.

    Attributes:
        folders: for each part, in the order of the output, the folder of its slices.
        times: which blank-separated words of a line, from 0, are the start and the end of the utterance in seconds.
        tables: files beside the transcripts that have a say in the output.
        notes: what is worth telling about the tree that was found.
        has_vocabulary: whether `vocab.txt` goes with the manifests.
    """

    folders: ClassVar[Mapping[str, str]]
    times: ClassVar[tuple[int, int]]
    has_vocabulary: ClassVar[bool]
    tables: Sequence[str]
    notes: Sequence[str]

    def conversations(self) -> Sequence[Conversation]:
        """All conversations, each part's together, in the order of the output; called before anything else.

        Raises `UsageError` where the tree is not the corpus.
        """

    def lines(self, conversation: Conversation) -> Iterable[tuple[int, bytes]]:
        """The lines of the transcript that are records: their numbers from 1, and what is written there."""

    def utterance(self, conversation: Conversation, line: bytes) -> Utterance:
        """What a line says; raises `RecordRejected` for one that can't be used."""


_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Run(Generic[_Item]):
    """Items (utterances) that belong together, and how long they are together, in seconds."""

    items: Sequence[_Item]
    seconds: float


def runs(items: Iterable[tuple[_Item, float]], min_seconds: float) -> Iterator[Run[_Item]]:
    """Cut a sequence of (item, seconds) into runs, each ended by the item with which it reaches `min_seconds`.

    The last run may be shorter.
    """
    collected: list[_Item] = []
    total = 0.0
    for item, seconds in items:
        collected.append(item)
        total += seconds
        # A sum of centiseconds such as 3.3 + 6.7 may miss its 10 by a rounding.
        if total >= min_seconds - 1e-6:
            yield Run(collected, total)
            collected, total = [], 0.0
    if collected:
        yield Run(collected, total)


def parse_span(start: str, end: str) -> tuple[float, float]:
    """Start and end of an utterance in seconds; raises `RecordRejected` where they are not a span of time."""
    try:
        times = float(start), float(end)
    except ValueError:
        raise RecordRejected(RejectReason.BAD_FIELD, f"{start!r} and {end!r} are not times in seconds") from None
    if not 0 <= times[0] <= LONGEST:
        raise RecordRejected(RejectReason.BAD_OFFSET, f"the utterance starts at {start} s")
    if not times[0] < times[1] <= LONGEST:
        raise RecordRejected(RejectReason.BAD_DURATION, f"the utterance lasts from {start} s to {end} s")
    return times


def decode_line(line: bytes) -> str:
    """The text of a line; raises `RecordRejected(NOT_UTF8)`."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"byte 0x{line[error.start]:02x} at position {error.start} is not UTF-8"
        raise RecordRejected(RejectReason.NOT_UTF8, detail) from None
