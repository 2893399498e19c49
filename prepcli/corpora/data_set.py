"""What a corpus must tell: which archives, what their trees are called, and which utterances they hold."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prepcli.corpora.fetch import Archive
from prepcli.errors import RejectReason


@dataclass(slots=True)
class Utterance:
    """One record to be: a line of a transcript and the recording that belongs to it.

    `manifest`, `source` (the recording as published) and `target` (the WAV to make of it; None: the source serves as
    it is) are paths relative to the data root; a source elsewhere is absolute. `fields` is what the record carries
    beside its audio and duration. `where` says what the utterance was read from, `file:line`.
    `reason` and `detail` tell why it cannot be used, where that is known already.
    """

    manifest: str
    source: str
    fields: dict[str, Any]
    where: str
    target: str | None = None
    reason: RejectReason | None = None
    detail: str = ""


Derive = Callable[[Iterator[tuple[str, dict[str, Any]]]], Iterable[tuple[str, Iterable[str]]]]
"""From (manifest, record) in the order of the manifests: further files, as names and lines without line ends."""


@dataclass(frozen=True)
class DataSet:
    """A part of a corpus that is fetched, converted and resumed on its own.

    Attributes:
        corpus, name: e.g. `librispeech`, `dev_clean`; `name` is also that of its folder in D.prepcli/sets.
        archive: what to fetch; None: the corpus is on the disk already.
        trees: the folders that unpacking leaves below the data root.
        manifests: the manifests it makes, relative to the data root.
        read: its utterances, given the folder that holds `trees`; those of one manifest follow each other.
        converted: globs of the WAV files that are made, with these settings or others.
        nested: a glob of archives within the archive, each to be unpacked where it lies.
        derive: further files made of the records; `derived`: their names.
        settings: the options that shape the output.
    """

    corpus: str
    name: str
    archive: Archive | None
    trees: tuple[str, ...]
    manifests: tuple[str, ...]
    read: Callable[[Path], Iterator[Utterance]]
    converted: tuple[str, ...] = ()
    nested: str | None = None
    derive: Derive | None = None
    derived: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """How its run is called, e.g. `download librispeech dev_clean`."""
        return " ".join(dict.fromkeys(["download", self.corpus, self.name]))


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a transcript that are not blank, with their numbers from 1; what is no UTF-8 becomes U+FFFD."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line.strip()


def unmatched(manifest: str, sources: Iterable[str]) -> Iterator[Utterance]:
    """Recordings that no transcript names."""
    for source in sources:
        yield Utterance(manifest, source, {}, source, None, RejectReason.MISSING_FIELD, "no transcript names it")
