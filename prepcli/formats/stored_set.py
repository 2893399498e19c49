"""The base of all kinds of data sets on disk. Recognizing a set lists its folder once and opens no file.

The files of a shard are searched for when they are needed.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from prepcli.formats.folders import Listing, listing
from prepcli.formats.names import absolute_folder, brace_text
from prepcli.storage.paths import AnyPath, path_of

if TYPE_CHECKING:
    from prepcli.formats.indexes import IndexKind

Shards = dict[int, AnyPath]
"""One file of each shard, by the number of the shard."""


class StoredSet(ABC):
    """A data set in a folder.

    A kind defines `kind`, `found_in` and `title`, and of the rest what differs for it.

    Attributes:
        kind: the name of the kind, such as tarred, by which other modules find what they do with it.
        index_kind: the kind of the indexes of its tars; None if `index` makes none for this kind.
        folder: the folder.
        listed: the names in the folder when the set was found, or only those that belong to the set.
    """

    kind: ClassVar[str]
    index_kind: ClassVar["IndexKind | None"] = None

    def __init__(self, folder: AnyPath, listed: Listing | None = None) -> None:
        """`listed`: the names in the folder, or only those that belong to the set; None lists the folder."""
        self.folder = folder
        self.listed = listing(folder) if listed is None else listed

    @classmethod
    @abstractmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "StoredSet | None":
        """The set of this kind in a folder, or None if there is none.

        Args:
            folder: the folder.
            listed: the names in the folder.
            published: names of files below the folder that should exist. A set is found by these names even if the
                files are missing.
        """

    @property
    def shards(self) -> Shards:
        """One file of each shard: its tar, its cuts, or a Parquet file. Empty for a kind without numbered shards."""
        return {}

    def files(self) -> Iterator[AnyPath]:
        """The files that a training run reads, without audio outside of the set."""
        yield from self.shards.values()

    def record_files(self) -> tuple[str, ...]:
        """The paths of manifests, cuts or Parquet files with the records, in NeMo's order; empty for other kinds."""
        return ()

    @abstractmethod
    def title(self, *, is_file: bool = False) -> str:
        """The words of `inspect` for the set; `is_file`: whether one file of it was named, not the folder."""

    def is_checked(self, published: Collection[str]) -> bool:
        """Whether `verify` checks the set; `published`: names of files below the folder that runs have published."""
        return True

    @property
    def parts(self) -> "Mapping[int, StoredSet]":
        """The sets in folders of static buckets, by number; empty for other kinds than tarred sets."""
        return {}

    @property
    def sets(self) -> "Sequence[StoredSet]":
        """The set itself, or the sets in its buckets."""
        return [self]

    @property
    def is_empty(self) -> bool:
        """Whether only `parts` hold files of the set."""
        return False

    def check_parts(self) -> None:  # noqa: B027 - most kinds need none
        """Raise `UsageError` if one of `parts` is missing."""

    @property
    def audio_tars(self) -> list[AnyPath]:
        """The tars with audio of a kind that has neither fields nor `shards`."""
        return []

    @property
    def is_for_nemo(self) -> bool:
        """Whether NeMo loads the set by its `entry`."""
        return False

    def entry(self) -> dict[str, Any] | None:
        """The entry in an `input_cfg` for a set without buckets; its paths are absolute. None if NeMo has none."""
        return None

    @property
    def ambiguous_fields(self) -> list[str]:
        """The fields in the entry that would be those of one of several codecs."""
        return []

    def check_loadable(self) -> None:  # noqa: B027 - most kinds need none
        """Raise `UsageError` if NeMo cannot load the set by its entry, because files are missing."""

    def check_indexable(self) -> None:  # noqa: B027 - most kinds need none
        """Raise `UsageError` if the set lacks files without which indexes are of no use."""

    @property
    def mirror(self) -> AnyPath | None:
        """The folder for indexes; None if they lie next to the data."""
        return None


def pattern(files: Mapping[int, AnyPath]) -> str | list[str]:
    """One absolute path for all files of a field, with the range of their numbers as in `brace_text`.

    If numbers between the first and the last are missing, the result is a list of absolute paths; if there are no
    files, an empty list. The keys of `files` are the numbers, in ascending order.
    """
    if not files:
        return []
    first, *_, last = [*files, *files]
    folder = path_of(absolute_folder(str(files[first].parent)))
    if last - first + 1 != len(files):
        return [str(folder / path.name) for path in files.values()]
    if first == last:
        return str(folder / files[first].name)
    texts = [re.findall(r"\d+", files[number].name)[-1] for number in (first, last)]
    head, _, tail = files[first].name.rpartition(texts[0])
    return str(folder / f"{head}{brace_text(*texts)}{tail}")
