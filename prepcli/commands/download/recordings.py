"""The recordings of a corpus on the disk, and those of them that no published list names."""

import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from itertools import chain, compress, islice
from pathlib import Path

from prepcli.errors import naming
from prepcli.gate import text_hash

_CHUNK = 1 << 16
"""Number of paths that are compared at once."""


def files_in(folder: Path, pattern: str) -> Iterator[str]:
    """Yield the files of a folder that match a pattern such as `data/**/*.flac`, as paths relative to `folder`.

    These are all files whose name matches, at any depth below `data`; nothing if there is no such folder. Upper and
    lower case are not distinguished. Hidden files and folders are left out. Links to folders are followed. Only the
    names of folders are kept in memory, because a folder may hold millions of files.
    """
    top, _, name = pattern.rpartition("**/")
    yield from _walk(folder, top, re.compile(translate(name.lower())).match, frozenset())


def _walk(root: Path, at: str, matches: Callable[[str], object], above: frozenset[tuple[int, int]]) -> Iterator[str]:
    """Yield the matching files below `at`, which is empty or ends with a slash.

    `above`: device and inode of the folders that contain it.
    """
    path = root / at
    try:
        status = path.stat()
        entries = os.scandir(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    place = status.st_dev, status.st_ino
    if place in above:  # a link to a folder that contains it
        return
    folders = []
    with naming(path), entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                folders.append(entry.name)
            elif matches(entry.name.lower()):
                yield at + entry.name
    for name in sorted(folders):
        yield from _walk(root, f"{at}{name}/", matches, above | {place})


class PublishedRecordings:
    """Notes the recordings that published lists name, in 8 bytes each, to find those that no list names."""

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, source: str) -> None:
        """Note a recording by its path relative to the folder of the corpus; it need not exist."""
        self._hashes.append(text_hash(os.path.normpath(source)))

    def unlisted(self, folder: Path, patterns: Sequence[str]) -> list[str]:
        """Return the files of `patterns` (see `files_in`) that were not noted, sorted.

        Raises:
            AccountingError: the files are not those that were noted and those that were not.
        """
        import numpy as np  # not at the top: this module is imported for the `--help` of a corpus

        from prepcli.engine.publishing.publish import AccountingError
        from prepcli.planning.hashing import in_sorted, num_distinct

        named = np.asarray(self._hashes).view(np.uint64)  # no copy
        named.sort()
        listed, unlisted = [named[:0]], list[str]()
        for paths in _chunks(chain.from_iterable(files_in(folder, pattern) for pattern in patterns)):
            hashes = np.fromiter(map(text_hash, paths), np.int64, len(paths)).view(np.uint64)
            is_named = in_sorted(named, hashes)
            listed.append(hashes[is_named])
            unlisted += compress(paths, ~is_named)
        num_listed, num_different = sum(map(len, listed)), num_distinct(np.concatenate(listed))
        if num_listed != num_different:
            raise AccountingError(
                f"{folder} has {num_listed + len(unlisted)} recordings, but {num_different} are in its lists and "
                f"{len(unlisted)} are not"
            )
        return sorted(unlisted)


def _chunks(paths: Iterable[str]) -> Iterator[list[str]]:
    paths = iter(paths)
    while chunk := list(islice(paths, _CHUNK)):
        yield chunk
