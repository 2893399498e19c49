"""Names audio files for a manifest: absolute, or relative to its folder."""

import os
from functools import lru_cache
from pathlib import Path

from prepcli.formats.names import absolute_folder


class PathNames:
    """Converts absolute paths to names for a manifest in `folder`."""

    def __init__(self, folder: Path, absolute: bool) -> None:
        self._absolute = absolute
        self._folder = absolute_folder(str(folder))
        self._real = os.path.realpath(self._folder)
        self._prefix = lru_cache(maxsize=4096)(self._prefix_of)

    def name(self, path: str) -> str:
        """The name of the audio file at an absolute path."""
        folder, slash, name = path.rpartition("/")
        return path if self._absolute else self._prefix(folder + slash) + name

    def _prefix_of(self, folder: str) -> str:
        """The text before the file names of a folder, which ends in a slash."""
        below = self._folder.rstrip("/") + "/"
        if folder.startswith(below) and "/../" not in folder:
            return folder[len(below) :]
        # Real paths, because `..` after a symbolic link leads elsewhere.
        relative = os.path.relpath(os.path.realpath(folder), self._real)
        return "" if relative == "." else relative + "/"
