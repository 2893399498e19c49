"""Read lines by their number in the index."""

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prepcli.errors import InputChangedError
from prepcli.input_files import FileState, check_unchanged, state_of
from prepcli.manifest.spool import plain_copy

if TYPE_CHECKING:
    from prepcli.manifest.index import ManifestIndex
    from prepcli.manifest.parts import Problem


class LineReader:
    """Reads the lines of an index's records, in any order and from any number of processes.

    Files are opened when they are first read, in each process for itself; reads use positions of their own
    (`pread`), so that forked processes share only the descriptor. A `.gz` that the index has not spooled is
    unpacked into a temporary directory on first use. Raises `InputChangedError` when a file was removed or written to
    since it was indexed: lines that were read before are correct.
    """

    def __init__(self, index: "ManifestIndex") -> None:
        self._index = index
        self._files: dict[int, int] = {}
        self._unpacked: Path | None = None
        self._states: dict[int, FileState] = {}  # where they are others than those of the index

    def line(self, i: int) -> bytes:
        """The line of record `i`, without its line end."""
        index = self._index
        return self._read(index.source_of(i), int(index.start[i]), int(index.length[i]))

    def problem_line(self, problem: "Problem") -> bytes:
        """The line of a problem, without its line end."""
        return self._read(problem.source, problem.start, problem.length)

    def close(self) -> None:
        """Close the files; reading again opens them again."""
        while self._files:
            os.close(self._files.popitem()[1])

    def __enter__(self) -> "LineReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"_index": self._index, "_files": {}, "_unpacked": None, "_states": {}}

    def _read(self, source: int, start: int, length: int) -> bytes:
        found = self._index.sources[source]
        file = self._files.get(source)
        if file is None:
            file = self._files[source] = self._open(source)
        data = os.pread(file, length, start)
        # Checked after reading, to notice earlier writes. For a compressed file the unpacked copy, our own, is read.
        if found.plain_path == found.path and state_of(file) != self._states.get(source, found.state):
            self._check(source, file)
        if len(data) != length:
            raise InputChangedError(f"{found.path} has become shorter since it was indexed; run the same command again")
        return data.rstrip(b"\r")

    def _check(self, source: int, file: int | None = None) -> None:
        from prepcli.manifest.index import content_digest

        found = self._index.sources[source]
        self._states[source] = check_unchanged(
            found.path, found.state, file, lambda: content_digest(found.path) == found.sha256
        )

    def _open(self, source: int) -> int:
        found = self._index.sources[source]
        try:
            file = os.open(self._path(source), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._check(source)
            raise
        if found.plain_path is None:  # it was unpacked just now
            self._check(source)
        return file

    def _path(self, source: int) -> Path:
        found = self._index.sources[source]
        if found.plain_path is not None:
            return Path(found.plain_path)
        if self._unpacked is None:
            self._unpacked = Path(tempfile.mkdtemp(prefix="prepcli-manifest-"))
            weakref.finalize(self, _remove, self._unpacked, os.getpid())
        return plain_copy(found.path, self._unpacked)


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:  # and not in a forked copy of the reader
        shutil.rmtree(directory, ignore_errors=True)
