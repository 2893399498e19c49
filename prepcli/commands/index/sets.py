"""The data files of a set that can have an index, the place of each index, and the set's entry in a training config."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from prepcli.commands.index.tar_kind import tar_kind
from prepcli.engine.run.unfinished import refuse_unfinished
from prepcli.errors import UsageError
from prepcli.formats.folders import advice_on_audio, regular_files
from prepcli.formats.indexes import IndexKind, index_beside, mirrored
from prepcli.formats.sets import open_set
from prepcli.formats.stored_set import StoredSet
from prepcli.jobs.inputs.conversations import holds_conversations
from prepcli.manifest.foreign import check_is_json_lines
from prepcli.manifest.json_kinds import ANY_LINES
from prepcli.storage.paths import AnyPath


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that can have an index, and the path of the index."""

    path: AnyPath
    kind: IndexKind
    index: AnyPath


@dataclass(frozen=True, slots=True)
class Places:
    """Decides in which folder an index is: below a common root, next to its data, or in the mirror of its Shar set.

    Attributes:
        root: the folder of all indexes; None without `--indexes-root`.
        beside: whether Shar sets, too, have their indexes next to the data.
    """

    root: AnyPath | None = None
    beside: bool = False

    def of(self, path: AnyPath, mirror: AnyPath | None) -> AnyPath:
        """The path of the index of a data file; `mirror` is the mirror of its set, None if the set has none."""
        root = self.root or (None if self.beside else mirror)
        return index_beside(path) if root is None else root / mirrored(path)


@dataclass(slots=True)
class IndexedSet:
    """A set to be indexed.

    `entry`: its entry in an `input_cfg`; None for loose files and for sets of codes. `mirror`: a folder for the indexes
    of a Shar set; None if they are next to the data or below a common root.
    """

    name: str
    files: list[DataFile] = field(default_factory=list)
    entry: dict[str, Any] | None = None
    mirror: AnyPath | None = None

    def add(self, paths: Sequence[AnyPath], kind: IndexKind, places: Places) -> None:
        """Add files of one kind."""
        self.files += [DataFile(path, kind, places.of(path, self.mirror)) for path in paths]


def sets_in_folder(folder: AnyPath, places: Places) -> Iterator[IndexedSet]:
    """Find the sets of a folder: a tarred set or one per bucket, a Shar set, a set of codes, or loose files.

    Raises:
        UsageError: there is nothing to index, or a set cannot be indexed.
    """
    refuse_unfinished(folder)
    stored = open_set(folder)
    if stored is not None and stored.index_kind is not None:
        if stored.is_empty:
            stored.check_parts()
        yield from (_indexed(part, stored.index_kind, places) for part in stored.sets)
    else:
        loose = [path for path in regular_files(folder) if path.suffix in (".tar", ".jsonl")]
        if not loose:
            raise UsageError(
                f"{folder} holds nothing to index: no tarred set (audio_0.tar, ...), no Shar set "
                f"(cuts/cuts.000000.jsonl, ...), no .jsonl and no .tar{advice_on_audio(folder)}"
            )
        yield set_of_files(str(folder), loose, places)


def set_of_files(name: str, paths: Sequence[AnyPath], places: Places) -> IndexedSet:
    """Make a set of loose files: .tar, and JSON lines in .jsonl or .json. The `entry` of the set is None.

    Raises:
        UsageError: a file is of another kind, or compressed.
    """
    indexed = IndexedSet(name)
    for path in paths:
        if path.suffix == ".gz":
            raise UsageError(compressed(path))
        if path.suffix == ".tar":
            indexed.add([path], tar_kind(path), places)
        elif path.suffix in (".jsonl", ".json"):
            if not holds_conversations(str(path)):
                check_is_json_lines(str(path), ANY_LINES)
            indexed.add([path], "jsonl", places)
        else:
            raise UsageError(f"{path} cannot be indexed: it is neither a .tar nor JSON lines (.jsonl, .json)")
    return indexed


def _indexed(stored: StoredSet, tar_kind: IndexKind, places: Places) -> IndexedSet:
    """Collect the files of a set with the places of their indexes.

    Raises:
        UsageError: a file is compressed, or the set lacks files.
    """
    stored.check_indexable()
    indexed = IndexedSet(str(stored.folder), mirror=None if places.root or places.beside else stored.mirror)
    for path in stored.files():
        if path.suffix == ".gz":
            raise UsageError(compressed(path))
        indexed.add([path], tar_kind if path.suffix == ".tar" else "jsonl", places)
    indexed.entry = stored.entry()
    return indexed


def compressed(path: AnyPath) -> str:
    """The reason why a compressed file has no index, and advice."""
    return (
        f"{path} is compressed, and nothing can seek in it: make the set again with manifest-to-shar --indexed in "
        "another directory, or unpack a copy of it (gunzip)"
    )
