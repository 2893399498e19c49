"""The definition of a corpus: its archives, their folders, and the utterances in them."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from prepcli.commands.download.fetch import Archive
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError, option

INDEX_NAME = "index.jsonl"
"""The index of utterances, in the workspace of the data set."""


class Utterance(msgspec.Struct, omit_defaults=True):
    """A future record: a line of a transcript and its recording. The index of a data set has a line for each.

    Attributes:
        manifest: path of the manifest, relative to the data root.
        source: path of the recording as published, relative to the folder that `CorpusPart.read` was given.
        fields: the fields of the record in addition to audio and duration.
        where: the line of the transcript, `file:line`.
        duration: seconds as published, to plan by: then the recording is first read when its record is made. None: it
            is measured for the index.
        target: path of the WAV file to make from the recording, relative to the data root; None: the recording is used
            unchanged.
        reason: why the utterance cannot be used, if that is known already.
        detail: the details of the reason.
    """

    manifest: str
    source: str
    fields: dict[str, Any]
    where: str
    duration: float | None = None
    target: str | None = None
    reason: RejectReason | None = None
    detail: str = ""

    def original(self) -> bytes:
        """Return the record for a line of rejects, with the recording as it was published."""
        return msgspec.json.encode({"audio_filepath": self.source, **self.fields})

    def rejected(self, rejected: RecordRejected | None = None) -> RecordRejected:
        """Return why the utterance is rejected, with its place in the corpus."""
        if rejected is None:
            assert self.reason is not None
            rejected = RecordRejected(self.reason, self.detail)
        return RecordRejected(rejected.reason, f"{self.where}: {rejected.detail}")


Derive = Callable[[Iterator[tuple[str, dict[str, Any]]]], Iterable[tuple[str, Iterable[str]]]]
"""Makes further files from all pairs (manifest, record); yields the name and the lines of each, without line ends."""


@dataclass(frozen=True)
class CorpusPart:
    """A part of a corpus that is fetched, converted and continued independently of others.

    Attributes:
        corpus, name: e.g. `librispeech`, `dev_clean`; `name` is also the name of its folder in D.prepcli/sets.
        archive: the archive to fetch; None: the corpus is on disk already.
        copy: the folder of a corpus on disk that is not the data root. Its recordings stay there if they need no
            conversion, and manifests have their absolute paths.
        top: the folder that an archive without a folder of its own is unpacked in, relative to the data root.
        trees: the folders in the archive, relative to the data root.
        manifests: the manifests to write, relative to the data root.
        read: returns the utterances, given the copy or the folder with the content of the archive; those of one
            manifest are consecutive.
        converted: globs of the converted WAV files, for all settings.
        nested: a glob of archives within the archive; each is unpacked in its own folder.
        derive: makes further files from the records.
        derived: the names of these files.
        settings: the options that the output depends on.
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
    copy: Path | None = None
    top: str = ""

    @property
    def command(self) -> str:
        """The command of its run, e.g. `download librispeech dev_clean`."""
        return " ".join(dict.fromkeys(["download", self.corpus, self.name]))

    @property
    def state_name(self) -> str:
        """The name of its folder of state, which no other corpus in the same data root has."""
        return self.name if self.corpus in (self.name, "librispeech") else f"{self.corpus}_{self.name}"

    def extracted(self, folder: Path, data_root: Path) -> "CorpusPart":
        """The same data set, read from a copy in `folder`; `folder` may also be a part of the copy.

        Raises:
            UsageError: the copy does not exist, or archives within it are not unpacked.
        """
        tree = self.trees[0].removeprefix(f"{self.top}/")
        root = _root_of(folder, tree) or _root_of(folder / self.top, tree)
        if root is None:
            raise UsageError(
                f"{option('--extracted', folder)} holds no {tree}: give the folder in which the archive of "
                f"{self.corpus} was unpacked"
            )
        nested = next(root.glob(self.nested), None) if self.nested else None
        if nested is not None and not any(path.is_dir() for path in nested.parent.iterdir()):
            raise UsageError(
                f"{nested.parent} holds archives that are not unpacked, such as {nested.name}: unpack them there, too"
            )
        here = data_root / self.top
        is_here = here.is_dir() and root.samefile(here)
        return replace(self, archive=None, trees=(), copy=None if is_here else root)


def _root_of(folder: Path, tree: str) -> Path | None:
    """The folder that contains `tree`: the folder itself, or one above it, if the user has named a part of the tree."""
    parts = Path(tree).parts
    for named in (Path(os.path.abspath(folder)), Path(os.path.realpath(folder))):
        for depth in range(len(parts) + 1):
            root = named.parents[depth - 1] if depth and named.parts[-depth:] == parts[:depth] else named
            if (root / tree).is_dir():
                return root
    return None


def choose(corpus: str, names: str, known: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the data sets of a list such as `dev_clean,dev-other` or `ALL`, each once.

    Args:
        corpus: the name of the corpus, for messages.
        names: the value of `--data-sets`.
        known: the names of all data sets.
        groups: names for several of them.

    Raises:
        UsageError: the data set does not exist, or none is named.
    """
    wanted: dict[str, None] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        for one in groups.get(name, (name.replace("-", "_"),)):
            if one not in known:
                raise UsageError(f"{corpus} has no data set {name}; choose of {', '.join((*known, *groups))}")
            wanted[one] = None
    if not wanted:
        raise UsageError(f"{option('--data-sets')} names no data set")
    return list(wanted)


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a transcript that are not blank, with numbers from 1; invalid UTF-8 becomes U+FFFD."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line.strip()


def unmatched(manifest: str, sources: Iterable[str]) -> Iterator[Utterance]:
    """Yield an utterance for each recording that is in no transcript; these utterances are rejected."""
    for source in sources:
        yield Utterance(
            manifest, source, {}, source, reason=RejectReason.MISSING_FIELD, detail="no transcript names it"
        )


def speaker_name(language: str, corpus: str, speaker: str) -> str:
    """Return the field `speaker` in the form of Magpie-TTS, which is also used to group context audio."""
    return f"| Language:{language} Dataset:{corpus} Speaker:{speaker} |"


def may_lie_outside(path: str) -> bool:
    """Whether a published relative path could lead out of the folder of its corpus."""
    return "\0" in path or os.path.isabs(path) or ".." in path.split("/")


def workspace_of(state_name: str, data_root: Path) -> Workspace:
    """The workspace of one data set (`CorpusPart.state_name`): each has its own, so that others can be added later."""
    return Workspace(data_root, Workspace(data_root).root / "sets" / state_name)
