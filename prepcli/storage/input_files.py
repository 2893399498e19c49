"""Input files: no command replaces or removes its own inputs, and an input may not change during a run."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from prepcli.errors import InputChangedError, UsageError, named, option, same_command
from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.addresses import ObjectInfo, is_address
from prepcli.storage.containers import Catalogue
from prepcli.storage.paths import AnyPath

Inputs = Iterable[str | AnyPath]


class FileState(NamedTuple):
    """Size, times and inode number of a file: a cheap way to notice that it was written to or replaced.

    A change of only `ctime_ns` or `inode` is not conclusive: new permissions or a new hard link also change `ctime_ns`,
    and some network file systems give an unchanged file a new inode number at each look-up.
    """

    num_bytes: int
    mtime_ns: int
    ctime_ns: int = 0
    inode: int = 0


def state_of(file: str | AnyPath | int) -> FileState:
    """The current state of a file; raises `OSError` if it does not exist.

    The file is opened first, so that network file systems ask the server; `stat` alone may use a cache. The state of a
    `Catalogue` includes the states of its `others`, the files on which its lines depend.
    """
    if isinstance(file, Catalogue) and file.others:
        own = () if os.path.isdir(file) else (str(file),)  # a folder changes when prepcli writes into it
        return _joined([state_of(path) for path in (*own, *file.others)])
    if isinstance(file, int):
        status = os.fstat(file)
        return FileState(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    if is_address(file):
        return state_of_info(call(client.object_info, str(file)))
    descriptor = os.open(str(file), os.O_RDONLY | os.O_CLOEXEC)
    try:
        return state_of(descriptor)
    finally:
        os.close(descriptor)


def _joined(states: list[FileState]) -> FileState:
    """One state for several files: it changes if the state of any of them changes."""
    changes, inodes = (
        hashlib.sha256(repr(values).encode()).digest()[:7]
        for values in zip(*(state[2:] for state in states), strict=True)
    )
    return FileState(
        sum(state.num_bytes for state in states),
        int.from_bytes(hashlib.sha256(repr([state.mtime_ns for state in states]).encode()).digest()[:7], "big"),
        int.from_bytes(changes, "big"),
        int.from_bytes(inodes, "big"),
    )


def state_of_info(info: ObjectInfo) -> FileState:
    """The state of an object. The ETag identifies its content; a hash of the ETag is `ctime_ns` and `inode`."""
    etag = int.from_bytes(hashlib.sha256(info.etag.encode()).digest()[:7], "big")
    return FileState(info.num_bytes, info.mtime_ns, etag, etag)


def read_at(file: int, size: int, offset: int) -> bytes:
    """Read `size` bytes of an open file from byte `offset` on; fewer only at its end.

    A single read returns at most 2 GiB on Linux, and may return fewer bytes on network file systems.

    Raises:
        OSError: the file cannot be read; the error names it.
    """
    try:
        data = os.pread(file, size, offset)
        if len(data) == size or not data:
            return data
        parts, got = [data], len(data)
        while got < size and (data := os.pread(file, size - got, offset + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)
    except OSError as error:
        raise named(error, os.path.realpath(f"/proc/self/fd/{file}")) from None


def check_unchanged(
    path: str | AnyPath, before: FileState, file: int | None = None, same_content: Callable[[], bool] | None = None
) -> FileState:
    """Compare the file `path` (or the open `file`) with `before`, its state when the run began to read it.

    If the size and `mtime_ns` are equal, but other values differ, `same_content` reads the file and decides. Without
    `same_content`, the file counts as unchanged if `ctime_ns` is equal. Returns the current state.

    Raises:
        InputChangedError: the file was changed, replaced or removed after that time.
    """
    try:
        now = state_of(path if file is None else file)
    except FileNotFoundError:
        raise InputChangedError(f"{path} was removed during the run, which has stopped; bring it back") from None
    if now == before:
        return now
    is_same = (now.num_bytes, now.mtime_ns) == (before.num_bytes, before.mtime_ns)
    if is_same:
        is_same = same_content() if same_content else now.ctime_ns == before.ctime_ns
    if not is_same:
        raise InputChangedError(
            f"{path} was changed during the run, which has stopped; let nothing write to it and run {same_command()} "
            "again"
        )
    return now


def same_file(outputs: Iterable[AnyPath], inputs: Inputs) -> tuple[AnyPath, str] | None:
    """The first input that is the same file as an output, as a pair (output, input); None if there is none.

    Two paths may name the same file because of links.
    """
    by_identity: dict[tuple[int, int], AnyPath] = {}
    for path in outputs:
        status = _stat(path)
        if status is not None and stat.S_ISREG(status.st_mode):  # a device such as /dev/null is not replaced
            by_identity[status.st_dev, status.st_ino] = path
    if not by_identity:
        return None
    for source in inputs:
        status = _stat(source)
        if status is not None:
            output = by_identity.get((status.st_dev, status.st_ino))
            if output is not None:
                return output, str(source)
    return None


def refuse_input_as_output(flag: str, path: Path | None, inputs: Callable[[], Inputs]) -> None:
    """Raise `UsageError` if the file of a flag, such as `--plot`, is one of the command's inputs.

    `inputs` is called only if `path` exists, because listing them may take a while.
    """
    if path is None or not path.exists():
        return
    pair = same_file([path], inputs())
    if pair is not None:
        raise UsageError(f"{option(flag, path)} would replace the input {pair[1]}; give another name")


def refuse_swapped(manifest: str, out: AnyPath | None) -> None:
    """Raise `UsageError` if OUT is a file and MANIFEST can only be a directory: the two are probably swapped."""
    if out is None or is_address(manifest):
        return
    names_a_folder = not os.path.exists(manifest) and os.path.splitext(manifest)[1] == ""
    if (os.path.isdir(manifest) or names_a_folder) and out.is_file():
        raise UsageError(
            f"MANIFEST {manifest} is {'not there' if names_a_folder else 'a directory'}, and OUT {out} is a file: did "
            "you swap MANIFEST and OUT?"
        )


def _stat(path: str | AnyPath) -> os.stat_result | None:
    try:
        return os.stat(str(path))
    except (OSError, ValueError):
        return None
