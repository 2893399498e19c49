"""Whether a file is as a run has recorded it: no other file is ever removed or replaced."""

import os
import stat
import uuid
from collections.abc import Collection, Iterable
from pathlib import Path

from prepcli.engine.publishing.hashes import XXH3, hash_of
from prepcli.engine.publishing.output_files import PublishedFile
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError, same_command
from prepcli.interface.calls import tell
from prepcli.storage.addresses import ObjectInfo
from prepcli.storage.paths import AnyPath, StorePath

State = os.stat_result | ObjectInfo


def is_as_published(state: State, records: Iterable[PublishedFile]) -> bool:
    """Whether a file matches one of the records, without reading the file.

    An object in a store must have the ETag of the record. Any other file must have its size and time of last change,
    be a regular file, and not be write-protected.
    """
    if isinstance(state, ObjectInfo):
        return any(state.etag == file.etag != "" for file in records)
    return _is_plain(state) and any(
        (state.st_size, state.st_mtime_ns) == (file.num_bytes, file.mtime_ns) for file in records
    )


def has_content(path: AnyPath, state: State, records: Iterable[PublishedFile]) -> bool:
    """Whether a file in this state has the content of one of the records; reads it if its size fits."""
    size = state.num_bytes if isinstance(state, ObjectInfo) else state.st_size
    hashes = {file.hash for file in records if file.num_bytes == size}
    is_readable = isinstance(state, ObjectInfo) or _is_plain(state)
    return is_readable and any(_hash(path, state, published) == published for published in hashes)


def _hash(path: AnyPath, state: State, published: str) -> str:
    """The hash of a file in this state, of the kind of `published`; cached, so that the file is read once per kind."""
    version = state.etag if isinstance(state, ObjectInfo) else f"{state.st_size}.{state.st_mtime_ns}"
    key = path, version, published.startswith(XXH3)
    if key not in _hashes:
        _hashes[key] = hash_of(path, published).text
    return _hashes[key]


_hashes: dict[tuple[AnyPath, str, bool], str] = {}


def _is_plain(state: os.stat_result) -> bool:
    """Whether the file is a regular file without write protection."""
    return stat.S_ISREG(state.st_mode) and bool(state.st_mode & 0o222)


def set_aside(workspace: Workspace, path: AnyPath, name: str, why: str = "is not as prepcli has noted it") -> None:
    """Move the file at `path`, which is in the way but must not be removed, to `OUT.prepcli/kept/<name>`.

    Prints a note with the reason, `why`. If the new name is taken, random characters are added to it.

    Raises:
        UsageError: the file is in a store, which cannot move objects.
    """
    if isinstance(path, StorePath):
        raise UsageError(
            f"{path} has changed since this run wrote it; copy it elsewhere and remove it, and run {same_command()} "
            "again"
        )
    first = kept = workspace.ledger_file.with_name("kept") / name
    while os.path.lexists(kept):
        kept = first.with_name(f"{first.name}~{uuid.uuid4().hex[:6]}")
    kept.parent.mkdir(parents=True, exist_ok=True)
    os.rename(path, kept)
    workspace.flush([kept])
    tell(f"note: {path} {why}; it is kept as {kept}")


def is_ours(path: Path, records: Collection[PublishedFile]) -> bool:
    """Whether the file at `path` is as one of the records says: by size and time or, if only the time differs, hash."""
    try:
        state = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(state.st_mode) and (is_as_published(state, records) or has_content(path, state, records))


def stranger(path: AnyPath, root: Path, num_more: int = 0) -> UsageError:
    """The error for a file of others that has the name of a file of ours; `root`: OUT.prepcli."""
    more = f" (as are {num_more:,} more)" if num_more else ""
    return UsageError(
        f"{path} is there already{more}, and no record in {root} shows that this run has written it; move it away, and "
        f"run {same_command()} again"
    )
