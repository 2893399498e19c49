"""Paths in a store for code that works with `pathlib.Path`, and functions that take paths of either kind."""

import io
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import translate
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal

from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.addresses import AddressError, ObjectInfo, is_address, parse_address, restored
from prepcli.storage.ranges import open_object

NUMBER = "[0-9]*"
"""The text for a number of one or more digits in a glob of `matching`. In `Path.glob`, this text matches one digit and
then any characters.
"""


class StorePath:
    """The path of an object or a prefix, with the operations of a store: read, list and remove.

    A prefix is a folder if an object is below it. `str(path)` is the address. Functions of `os` do not accept a
    `StorePath`.
    """

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = PurePosixPath(path)

    def __str__(self) -> str:
        return restored(str(self._path))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorePath) and self._path == other._path

    def __lt__(self, other: "StorePath") -> bool:
        return self._path < other._path

    def __hash__(self) -> int:
        return hash(self._path)

    def __truediv__(self, name: str) -> "StorePath":
        return StorePath(str(self._path / name))

    @property
    def name(self) -> str:
        """The last part."""
        return self._path.name

    @property
    def suffix(self) -> str:
        """The suffix of the last part, such as `.tar`."""
        return self._path.suffix

    @property
    def parent(self) -> "StorePath":
        """The prefix that the path is in."""
        return StorePath(str(self._path.parent))

    @property
    def parents(self) -> list["StorePath"]:
        """All prefixes that the path is in, the nearest first."""
        return [StorePath(str(parent)) for parent in self._path.parents]

    def with_name(self, name: str) -> "StorePath":
        """The path with another last part."""
        return StorePath(str(self._path.with_name(name)))

    def stat(self) -> os.stat_result:
        """The size and time of an object; raises `FileNotFoundError` if there is none, also for a prefix."""
        return _stat_result(call(client.object_info, str(self)))

    def exists(self) -> bool:
        """Whether an object is at this path, or below it as a prefix."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Whether an object is at this path."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Whether an object is below the prefix."""
        folders, objects = call(client.list_folder, str(self))
        return bool(folders or objects)

    def is_symlink(self) -> bool:
        """Return False: a store has no links."""
        return False

    def absolute(self) -> "StorePath":
        """The path itself."""
        return self

    def resolve(self) -> "StorePath":
        """The path itself."""
        return self

    def iterdir(self) -> Iterator["StorePath"]:
        """The folders, then the objects, directly below the prefix."""
        folders, objects = self.listed()
        yield from (self / name for name in (*folders, *objects))

    def listed(self) -> tuple[list[str], list[str]]:
        """The names of the folders and of the objects directly below the prefix."""
        folders, objects = call(client.list_folder, str(self))
        return list(folders), [info.address.rpartition("/")[2] for info in objects]

    def glob(self, pattern: str) -> Iterator["StorePath"]:
        """Yield the objects and folders below the prefix whose relative names match `pattern`, sorted."""
        names = set(self.infos())
        names |= {str(parent) for name in list(names) for parent in PurePosixPath(name).parents if str(parent) != "."}
        yield from (self / name for name in sorted(names) if _matcher(pattern).fullmatch(name))

    def open(
        self,
        mode: Literal["r", "rb"] = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
    ) -> IO[Any]:
        """Open an object for reading, always with a buffer.

        Raises:
            FileNotFoundError: there is no such object.
        """
        if not parse_address(str(self)).key:
            raise IsADirectoryError(str(self))
        file = open_object(str(self))
        return file if "b" in mode else io.TextIOWrapper(file, encoding=encoding or "utf-8", errors=errors)

    def read_bytes(self) -> bytes:
        """All bytes of an object."""
        return call(client.read_object, str(self))

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The text of an object."""
        return self.read_bytes().decode(encoding, errors)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove an object. If there is none, no error is raised, even without `missing_ok`."""
        call(client.delete_objects, (str(self),))

    def infos(self) -> dict[str, ObjectInfo]:
        """The properties of each object below the prefix, by the object's name relative to the prefix."""
        base = str(parse_address(str(self))) + "/"
        return {info.address.removeprefix(base): info for info in call(client.list_objects, str(self))}


AnyPath = Path | StorePath
"""A path, local or in a store; only the operations that both classes have are used on it."""


def matching(names: Iterable[str], patterns: Sequence[str]) -> Iterator[str]:
    """The names that match one of the globs."""
    matchers = [_matcher(pattern) for pattern in patterns]
    yield from (name for name in names if any(matcher.fullmatch(name) for matcher in matchers))


def path_of(path: str | AnyPath) -> AnyPath:
    """The `StorePath` of an address, or the `Path` of another path."""
    text = restored(str(path))
    return StorePath(str(parse_address(text))) if is_address(text) else Path(text)


def relative(path: AnyPath, folder: AnyPath) -> str:
    """The name of a file relative to a folder that it is in."""
    return str(PurePosixPath(str(path)).relative_to(str(folder)))


def is_file(path: str | AnyPath) -> bool:
    """`os.path.isfile`, for addresses too."""
    return path_of(path).is_file() if is_address(path) else os.path.isfile(str(path))


def is_dir(path: str | AnyPath) -> bool:
    """`os.path.isdir`, for addresses too."""
    return path_of(path).is_dir() if is_address(path) else os.path.isdir(str(path))


def exists(path: str | AnyPath) -> bool:
    """`os.path.exists`, for addresses too."""
    return path_of(path).exists() if is_address(path) else os.path.exists(str(path))


def absolute(path: str | AnyPath) -> str:
    """`os.path.abspath`, for addresses too."""
    return str(parse_address(str(path))) if is_address(path) else os.path.abspath(str(path))


def real_path(path: str | AnyPath) -> str:
    """`os.path.realpath`, for addresses too.

    An address that cannot be parsed, such as one without a bucket, stays as it is.
    """
    try:
        return absolute(path) if is_address(path) else os.path.realpath(str(path))
    except (ValueError, AddressError):
        return str(path)


def size_of(path: str | AnyPath) -> int:
    """`os.path.getsize`, for addresses too."""
    return path_of(path).stat().st_size if is_address(path) else os.path.getsize(str(path))


def sizes_of(paths: Iterable[AnyPath]) -> dict[AnyPath, int]:
    """The sizes of files in bytes; for objects, each folder is listed once.

    Raises:
        FileNotFoundError: a file does not exist.
    """
    wanted = list(paths)
    folders = {str(path.parent) for path in wanted if isinstance(path, StorePath)}
    listed = {info.address: info.num_bytes for folder in folders for info in call(client.list_folder, folder)[1]}
    return {path: listed[str(path)] if str(path) in listed else path.stat().st_size for path in wanted}


def blocks_of(path: AnyPath) -> Iterator[bytes]:
    """The content of a file, in blocks of a mebibyte."""
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block


def _stat_result(info: ObjectInfo) -> os.stat_result:
    seconds = info.mtime_ns // 1_000_000_000
    whole = (stat.S_IFREG | 0o444, 0, 0, 1, 0, 0, info.num_bytes, seconds, seconds, seconds)
    return os.stat_result((*whole, *(info.mtime_ns / 1e9,) * 3, *(info.mtime_ns,) * 3))


@lru_cache(maxsize=64)
def _matcher(pattern: str) -> "re.Pattern[str]":
    """The regular expression of a glob: `*` stays within a part, `**/` is any number of folders, `NUMBER` is digits."""
    *folders, last = pattern.split("/")
    texts = ["(?:[^/]+/)*" if part == "**" else _part(part) + "/" for part in folders]
    return re.compile("".join(texts) + _part(last), re.DOTALL)


def _part(part: str) -> str:
    return "[0-9]+".join(map(_without_numbers, part.split(NUMBER)))


def _without_numbers(part: str) -> str:
    text = translate(part).removeprefix("(?s:").removesuffix(r")\Z").removesuffix(r")\z")
    return text.replace(".*", "[^/]*")
