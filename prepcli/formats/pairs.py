"""The items of a Shar tar: pairs of data and manifest, both named by the cut's id."""

import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from prepcli.formats.tar import read_members, walk_headers
from prepcli.storage.paths import AnyPath

Item = TypeVar("Item")


class UnpairedError(tarfile.TarError):
    """A member of a Shar tar is not followed by its manifest."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A data member of a Shar tar, with its name, and the JSON text of the manifest that follows it."""

    name: str
    data: bytes
    manifest: bytes

    @property
    def cut_id(self) -> str:
        """The member name without its extension, which lhotse's reader compares with the cut's id."""
        return stem(self.name)

    @property
    def is_placeholder(self) -> bool:
        """Whether the item is lhotse's placeholder for a cut without this field."""
        return is_placeholder(self.name)


def stem(name: str) -> str:
    """A member's name without its extension: the id of its cut."""
    return name.rpartition(".")[0]


def is_placeholder(name: str) -> bool:
    """Whether the member of this name is lhotse's placeholder for missing data."""
    return name.endswith(".nodata")


def pair_members(
    members: Iterator[Item], name_of: Callable[[Item], str], *, check_names: bool = True
) -> Iterator[tuple[Item, Item]]:
    """Yield each data member of a Shar tar with the member of its manifest.

    Without `check_names`, the first and second member are a pair, the third and fourth, and so on, as for lhotse's
    reader. After a damaged name, later pairs can still be read.

    Raises:
        UnpairedError: a data member is not followed by its manifest.
    """
    for data in members:
        manifest = next(members, None)
        name = name_of(data)
        if manifest is None:
            raise UnpairedError(f"{name} has no manifest after it")
        other = name_of(manifest)
        if not check_names:
            yield data, manifest
            continue
        if stem(other) != stem(name) or not other.endswith((".json", ".nometa")):
            raise UnpairedError(f"{name} is followed by {other}, not by its manifest")
        yield data, manifest


def walk_pairs(tar: tarfile.TarFile, *, check_names: bool = True) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarInfo]]:
    """Yield the headers of data and manifest for each pair in an open Shar tar; raises as `pair_members` does."""
    return pair_members(walk_headers(tar), lambda member: member.name, check_names=check_names)


def read_pairs(tar: AnyPath, where: str, published: str | None, problems: list[str]) -> Iterator[Pair]:
    """Yield the pairs of a Shar tar; `where`, `published` and `problems` are the arguments of `read_members`.

    If a data member is not followed by its manifest, a message is appended to `problems`, and no further pair is
    yielded.
    """
    members = read_members(tar, where, published, problems)
    try:
        for (info, data), (_, manifest) in pair_members(members, lambda member: member[0].name):
            yield Pair(info.name, data, manifest)
    except UnpairedError as error:
        problems.append(f"{where}: {error}")
        for _ in members:  # read to the end, for the hash
            pass
