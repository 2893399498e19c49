"""Reads lines by the number of their record in the index."""

import os
import resource
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prepcli.errors import InputChangedError, same_command
from prepcli.manifest.spool import plain_copy
from prepcli.storage.input_files import FileState, check_unchanged, read_at, state_of

if TYPE_CHECKING:
    from prepcli.manifest.index import ManifestIndex
    from prepcli.manifest.parts import Problem


_ALLOWED = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
MAX_OPEN_FILES = 16384 if _ALLOWED == resource.RLIM_INFINITY else min(max(_ALLOWED // 2, 64), 16384)
"""Maximum number of open manifests. On many systems a process may open only 1,024 files."""
_BLOCK_BYTES = 1 << 16
"""Bytes read at once if lines are read in order. A read per line would take 5 % of the time of copying its audio."""


class _Block(NamedTuple):
    """The bytes of a source from byte `start` on; the source was unchanged when they were read."""

    source: int
    start: int
    data: bytes


_NO_BLOCK = _Block(-1, 0, b"")


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
        self._block = _NO_BLOCK

    def line(self, i: int) -> bytes:
        """The line of record `i`, without its line end."""
        index = self._index
        source, start, length = index.source_of(i), int(index.start[i]), int(index.length[i])
        in_order, self._next = i == self._next, i + 1
        if not in_order:
            return self._read(source, start, length).rstrip(b"\r")
        block = self._block
        at = start - block.start
        if block.source != source or at < 0 or at + length > len(block.data):
            block = self._block = _Block(source, start, self._read(source, start, length, _BLOCK_BYTES))
            at = 0
        return block.data[at : at + length].rstrip(b"\r")

    def problem_line(self, problem: "Problem") -> bytes:
        """The unusable line that a problem describes, without its line end."""
        return self._read(problem.source, problem.start, problem.length).rstrip(b"\r")

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
        fresh: dict[str, Any] = {"_files": {}, "_unpacked": None, "_states": {}, "_next": -1, "_block": _NO_BLOCK}
        return {"_index": self._index, **fresh}

    def _read(self, source: int, start: int, length: int, up_to: int = 0) -> bytes:
        """Read `length` bytes of a source from byte `start` on; if `up_to` is larger, read up to `up_to` bytes."""
        manifest = self._index.sources[source]
        file = self._file(source)
        data = read_at(file, max(length, up_to), manifest.begin + start)
        # Checked after reading, to notice earlier writes. Not for a compressed file, whose unpacked copy is our own.
        if manifest.plain_path == manifest.path and state_of(file) != self._states.get(source, manifest.state):
            self._check(source, file)
        if len(data) < length:
            is_copy = manifest.plain_path not in (None, manifest.path)
            what = f"{manifest.plain_path}, the copy of {manifest.path}," if is_copy else manifest.path
            raise InputChangedError(f"{what} has become shorter since it was indexed; run {same_command()} again")
        return data

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
