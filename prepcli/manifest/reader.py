"""Reading lines back by their number in the index."""

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prepcli.manifest.spool import spool_gzip

if TYPE_CHECKING:
    from prepcli.manifest.index import ManifestIndex
    from prepcli.manifest.parts import Problem


class LineReader:
    """Reads the lines of an index's records, in any order and from any number of processes.

    Files are opened when they are first read, in each process for itself; reads use positions of their own
    (`pread`), so that a fork shares nothing but the descriptor. A `.gz` that the index has not spooled is
    unpacked into a temporary directory on first use. Raises `OSError` when a file has gone, and `EOFError`
    when it has become shorter since it was indexed.
    """

    def __init__(self, index: "ManifestIndex") -> None:
        self._index = index
        self._files: dict[int, int] = {}
        self._unpacked: Path | None = None

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
        return {"_index": self._index, "_files": {}, "_unpacked": None}

    def _read(self, source: int, start: int, length: int) -> bytes:
        file = self._files.get(source)
        if file is None:
            file = self._files[source] = os.open(self._path(source), os.O_RDONLY | os.O_CLOEXEC)
        data = os.pread(file, length, start)
        if len(data) != length:
            path = self._index.sources[source].path
            raise EOFError(f"{path} has become shorter since it was indexed")
        return data.rstrip(b"\r")

    def _path(self, source: int) -> Path:
        found = self._index.sources[source]
        if found.plain_path is not None:
            return Path(found.plain_path)
        if self._unpacked is None:
            self._unpacked = Path(tempfile.mkdtemp(prefix="prepcli-manifest-"))
            weakref.finalize(self, _remove, self._unpacked, os.getpid())
        return spool_gzip(found.path, self._unpacked)


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:  # and not in a forked copy of the reader
        shutil.rmtree(directory, ignore_errors=True)
