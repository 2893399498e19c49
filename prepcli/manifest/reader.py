"""Reads lines by the number of their record in the index."""

import itertools
import os
import resource
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prepcli.errors import InputChangedError, same_command
from prepcli.manifest.spool import plain_copy
from prepcli.storage.input_files import FileState, check_unchanged, read_at, state_of

if TYPE_CHECKING:
    from prepcli.manifest.index import ManifestIndex
    from prepcli.manifest.parts import Problem


_ALLOWED = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
MAX_OPEN_FILES = 16384 if _ALLOWED == resource.RLIM_INFINITY else min(max(_ALLOWED // 2, 64), 16384)
"""Maximum number of open manifests. On many systems a process may open only 1,024 files."""
MAX_LINES = 256
_BYTES_AT_ONCE = 1 << 20
"""The most lines, and bytes of them, that are read at once. To read one line alone takes 10 us, mostly in Python."""
_GAP_BYTES = 4096
"""Lines with fewer bytes between them are read together."""


class LineReader:
    """Reads the lines of an index's records, in any order and from any number of processes.

    Each process opens files at their first use. Reads have explicit positions (`pread`), so forked processes can share
    a descriptor. A compressed manifest that was not copied for the index is unpacked into a temporary directory at its
    first use. Raises `InputChangedError` if a file was removed or changed since it was indexed; lines that were read
    before this error are correct.
    """

    def __init__(self, index: "ManifestIndex") -> None:
        self._index = index
        self._files: dict[int, int] = {}
        self._unpacked: Path | None = None
        self._states: dict[int, FileState] = {}  # current states that differ from those in the index
        self._next = -1  # the record after the last one that was read
        self._taken: dict[int, bytes] = {}  # lines that were read together, by the number of their record

    def line(self, i: int) -> bytes:
        """The line of record `i`, without its line end."""
        line = self._taken.get(i)
        in_order, self._next = i == self._next, i + 1
        if line is not None:
            return line
        if in_order:
            self._taken = taken = self._read_lines(range(i, min(i + MAX_LINES, len(self._index))))
            return taken[i]
        index = self._index
        source = index.source_of(i)
        line = self._read(source, int(index.start[i]), int(index.length[i]))
        self._check_open(source)
        return line.rstrip(b"\r")

    def take(self, numbers: Sequence[int]) -> int:
        """Read the lines of the next records together, for `line`; lines that were read so before are dropped.

        `numbers`: the records, in any order. Returns the number of lines that were read, from the first of `numbers`
        on: not all, if they are many or long.
        """
        self._taken = self._read_lines(numbers)
        return len(self._taken)

    def _read_lines(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """The lines of the first of `numbers`, by the number of their record; of no number if it occurs again."""
        index = self._index
        chosen = np.asarray(numbers[:MAX_LINES], np.int64)
        length = index.length[chosen].astype(np.int64)
        count = max(1, int(np.searchsorted(np.cumsum(length), _BYTES_AT_ONCE, "right")))
        chosen, length = chosen[:count], length[:count]
        source, start = np.array([index.source_of(number) for number in chosen.tolist()]), index.start[chosen]
        order = np.lexsort((start, source))
        chosen, source, start, end = chosen[order], source[order], start[order], (start + length)[order]
        apart = (source[1:] != source[:-1]) | (start[1:] > end[:-1] + _GAP_BYTES)
        bounds = [0, *(np.flatnonzero(apart) + 1).tolist(), count]
        lines: dict[int, bytes] = {}
        for lo, hi in itertools.pairwise(bounds):
            begin = int(start[lo])
            block = self._read(int(source[lo]), begin, int(end[hi - 1]) - begin)
            places = (start[lo:hi] - begin).tolist(), (end[lo:hi] - begin).tolist()
            for number, at, to in zip(chosen[lo:hi].tolist(), *places, strict=True):
                lines[number] = block[at:to].rstrip(b"\r")
        # Checked after reading, to notice earlier writes.
        for one in dict.fromkeys(source.tolist()):
            self._check_open(one)
        return lines

    def problem_line(self, problem: "Problem") -> bytes:
        """The unusable line that a problem describes, without its line end."""
        line = self._read(problem.source, problem.start, problem.length).rstrip(b"\r")
        self._check_open(problem.source)
        return line

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
        fresh: dict[str, Any] = {"_files": {}, "_unpacked": None, "_states": {}, "_next": -1, "_taken": {}}
        return {"_index": self._index, **fresh}

    def _read(self, source: int, start: int, length: int) -> bytes:
        """Read `length` bytes of a source from byte `start` on; the caller then calls `_check_open`."""
        manifest = self._index.sources[source]
        data = read_at(self._file(source), length, manifest.begin + start)
        if len(data) < length:
            self._check_open(source)
            is_copy = manifest.plain_path not in (None, manifest.path)
            what = f"{manifest.plain_path}, the copy of {manifest.path}," if is_copy else manifest.path
            raise InputChangedError(f"{what} has become shorter since it was indexed; run {same_command()} again")
        return data

    def _check_open(self, source: int) -> None:
        """Raise `InputChangedError` if an open source has changed; not for a compressed one, whose copy is our own."""
        manifest = self._index.sources[source]
        if manifest.plain_path == manifest.path:
            file = self._file(source)
            if state_of(file) != self._states.get(source, manifest.state):
                self._check(source, file)

    def _check(self, source: int, file: int | None = None) -> None:
        from prepcli.manifest.index import content_digest

        manifest = self._index.sources[source]
        self._states[source] = check_unchanged(
            manifest.path, manifest.state, file, lambda: content_digest(manifest.path) == manifest.sha256
        )

    def _file(self, source: int) -> int:
        file = self._files.get(source)
        if file is None:
            if len(self._files) >= MAX_OPEN_FILES:
                os.close(self._files.pop(next(iter(self._files))))
            file = self._files[source] = self._open(source)
        return file

    def _open(self, source: int) -> int:
        manifest = self._index.sources[source]
        try:
            file = os.open(self._path(source), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._check(source)
            raise
        if manifest.plain_path is None:  # the file was just unpacked
            self._check(source)
        return file

    def _path(self, source: int) -> str | Path:
        manifest = self._index.sources[source]
        if manifest.plain_path is not None:
            return manifest.plain_path
        if self._unpacked is None:
            self._unpacked = Path(tempfile.mkdtemp(prefix="prepcli-manifest-"))
            weakref.finalize(self, _remove, self._unpacked, os.getpid())
        return plain_copy(manifest.path, self._unpacked)


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked copy of the reader removes nothing
        shutil.rmtree(directory, ignore_errors=True)
