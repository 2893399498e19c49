"""An output in an object store: its files, and whether it can be listed and written."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.addresses import ObjectInfo, parse_address
from prepcli.storage.paths import AnyPath, StorePath, matching, relative

_checked: set[StorePath] = set()
"""Outputs that `check_writing` has checked."""


class OutputFiles:
    """Looks up files in a folder: sizes, states, names. In a store, all objects are listed once, at the first call."""

    def __init__(self, folder: AnyPath) -> None:
        self.folder = folder
        self._listed: dict[str, ObjectInfo] | None = None

    def size_of(self, name: str) -> int:
        """The size of the file `name` in bytes; raises `OSError` if it does not exist."""
        if isinstance(self.folder, StorePath):
            listed = self.infos()
            if name in listed:  # a listing may lag behind
                return listed[name].num_bytes
        return (self.folder / name).stat().st_size

    def list_store(self) -> None:
        """List a store's folder now, unless it was listed already, so that worker processes inherit the list.

        Raises:
            UsageError: the bucket does not exist, or access is denied.
        """
        if isinstance(self.folder, StorePath):
            self.infos()

    def matching(self, patterns: Sequence[str]) -> Iterator[AnyPath]:
        """The paths of the files in the folder whose names match one of the globs."""
        names: Iterable[str]
        if isinstance(self.folder, StorePath):
            names = self.infos()
        else:
            found = [path for pattern in patterns for path in sorted(self.folder.glob(pattern))]
            names = [relative(path, self.folder) for path in found]
        yield from (self.folder / name for name in matching(names, patterns))

    def in_folder(self, folder: str) -> list[str]:
        """The sorted names of the files that are directly in the subfolder `folder`, as `folder/<file>`."""
        if isinstance(self.folder, StorePath):
            return sorted(name for name in self.infos() if os.path.dirname(name) == folder)
        with contextlib.suppress(OSError), os.scandir(self.folder / folder) as entries:
            return sorted(os.path.join(folder, one.name) for one in entries if not one.is_dir(follow_symlinks=False))
        return []

    def below(self) -> Iterator[str]:
        """The names of the files in the folder, at any depth."""
        if isinstance(self.folder, StorePath):
            yield from self.infos()
            return
        for folder, folders, files in os.walk(self.folder):
            folders.sort()
            for name in sorted(files):
                yield os.path.relpath(os.path.join(folder, name), self.folder)

    def infos(self) -> dict[str, ObjectInfo]:
        """All objects at any depth below the folder, by name relative to it; only for a folder in a store."""
        if self._listed is None:
            assert isinstance(self.folder, StorePath)
            self._listed = self.folder.infos()
        return self._listed

    def etag_of(self, name: str) -> str:
        """The ETag of an object that was listed; "" for a local file, and for an object that was not listed."""
        return self._listed[name].etag if self._listed and name in self._listed else ""

    def state(self, name: str) -> "os.stat_result | ObjectInfo | None":
        """The state of a file, or of an object as it was listed; None if there is none. A link is not followed."""
        if isinstance(self.folder, StorePath):
            return self.infos().get(name)
        try:
            return os.lstat(self.folder / name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def remove(self, names: Sequence[str]) -> None:
        """Remove the files `names`; missing files are skipped."""
        if isinstance(self.folder, Path):
            for name in names:
                (self.folder / name).unlink(missing_ok=True)
        elif names:
            call(client.delete_objects, tuple(str(self.folder / name) for name in names))

    def has(self, name: str) -> bool:
        """Whether the file exists."""
        is_listed = isinstance(self.folder, StorePath) and name in self.infos()
        return is_listed or (self.folder / name).is_file()


def check_writing(out: StorePath) -> None:
    """Check that objects can be written and removed at an output in a store; does nothing at a second call.

    Raises:
        UsageError: access is denied.
    """
    if out in _checked:
        return
    address = parse_address(str(out))
    probe = f"{address.scheme}://{address.bucket}/{address.key}.prepcli-check"
    call(client.put_object, probe, b"prepcli checks that it may write here\n")
    call(client.delete_objects, (probe,))
    _checked.add(out)
