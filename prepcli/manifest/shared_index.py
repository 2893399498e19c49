"""The first stage of a job: its ranks read the manifests together, once, and all of them map the result into memory.

Manifests are divided into tasks of about 16 MiB: a range of a large file, or many small files. Each rank begins at
another task, takes those that nobody works on, and publishes the columns of each. When all are there, one rank joins
them. The index follows from the manifests alone, whoever has read what. Later starts map it and read nothing, as long
as the manifests are the same.
"""

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from prepcli.engine.state.workspace import Workspace
from prepcli.errors import PrepcliError
from prepcli.manifest.index import ManifestIndex, columns_of, content_digest, index_manifests
from prepcli.manifest.index_files import INDEX_NAME, StoredIndex, load_index, read_stored, save_stored
from prepcli.manifest.parts import Columns, KeyFunction
from prepcli.manifest.pieces import Input
from prepcli.manifest.reading import read_together, remove_parts
from prepcli.manifest.sources import check_file, is_gzip
from prepcli.storage.input_files import state_of
from prepcli.storage.paths import absolute
from prepcli.version import __version__

MIN_SHARED_BYTES = 8 << 20
"""Less than this (compressed bytes count eight times) each rank reads for itself, in a fraction of a second."""
_FORMAT = 3


def shared_index(
    paths: Sequence[str],
    workspace: Workspace | None = None,
    *,
    num_workers: int = 1,
    keys: Mapping[str, KeyFunction] | None = None,
    looks_for: Callable[[bytes], bool] | None = None,
) -> ManifestIndex:
    """The index of `index_manifests`, read by all ranks of `workspace` together and kept there in files.

    Without a workspace, for little input, and where nothing can be written, this process reads for itself.

    Raises:
        UsageError: a manifest is missing or damaged.
        InputChangedError: one is written to meanwhile.
        IncompleteError: a worker process was killed.
    """
    if workspace is not None:
        inputs = [Input(path, state_of(check_file(path))) for path in paths]
        if sum(one.state.num_bytes * (8 if is_gzip(one.path) else 1) for one in inputs) >= MIN_SHARED_BYTES:
            found = _find_or_make(inputs, workspace, columns_of(keys, looks_for), num_workers)
            if found is not None:
                return found
    spool = None if workspace is None else workspace.spool
    return index_manifests(paths, num_workers=num_workers, keys=keys, looks_for=looks_for, spool_dir=spool)


def _find_or_make(
    inputs: Sequence[Input], workspace: Workspace, columns: Columns, num_workers: int
) -> ManifestIndex | None:
    """The shared index; None where it is not there and must not, or cannot, be written."""
    what = repr([_FORMAT, __version__, [absolute(one.path) for one in inputs], _described(columns)])
    name = _digest(what)
    # Sizes and times alone, as the servers of some network file systems do not agree about the rest. Where that is the
    # place of files with another content, all of the state tells them apart.
    known = [[one.state[:2] for one in inputs], [tuple(one.state) for one in inputs]]
    folders = [workspace.index / f"{name}-{_digest(repr(states))}" for states in known]
    free = []
    for folder in dict.fromkeys([*folders, *workspace.index.glob(f"{name}-*")]):
        # A place is taken if an index was there before this rank has looked at it, and is of no use. One that another
        # rank completes at this moment is of use: whoever makes a second one would find it removed.
        was_there = (folder / INDEX_NAME).exists()
        found = _find(folder, inputs, workspace)
        if found is not None:
            return found
        if folder in folders and not (was_there and (folder / INDEX_NAME).exists()):
            free.append(folder)
    if not free or workspace.spool is None or not _can_write(free[0]):  # a dry run, or a read-only output
        return None
    folder = free[0]
    read_together(folder, inputs, columns, workspace, workspace.spool, num_workers)
    found = _load(folder, read_stored(folder), workspace)
    if found is None:
        raise PrepcliError(f"{folder} was removed during the run, which has stopped; run the same command again")
    _remove_others(folder)
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def _described(columns: Columns) -> list[object]:
    """The keys of an index in words: equal for equal functions, also in other processes."""
    of_fields = [(name, key.field, _function(key.function)) for name, key in columns.field_keys]
    looks_for = [_function(columns.looks_for)] if columns.looks_for else []
    return [*((name, _function(function)) for name, function in columns.keys), *of_fields, *looks_for]


def _function(function: Callable[..., Any]) -> object:
    if isinstance(function, partial):
        return [_function(function.func), [_argument(value) for value in function.args], function.keywords]
    found = getattr(function, "__wrapped__", function)
    return f"{found.__module__}.{found.__qualname__}"


def _argument(value: object) -> object:
    return [value.pattern, value.flags] if isinstance(value, re.Pattern) else value


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _find(folder: Path, inputs: Sequence[Input], workspace: Workspace) -> ManifestIndex | None:
    """The index in `folder`, if it is complete and the manifests have the content that it was made of."""
    stored = read_stored(folder)
    if stored is None or [one.state.num_bytes for one in stored.sources] != [one.state.num_bytes for one in inputs]:
        return None
    doubtful = [
        (source, one)
        for source, one in zip(stored.sources, inputs, strict=True)
        if source.state != one.state or workspace.verify_inputs
    ]
    for source, one in doubtful:
        if content_digest(one.path) != source.sha256:
            return None
        source.state = one.state
    if doubtful and workspace.spool is not None:
        with contextlib.suppress(OSError):  # the next start need not read them again
            save_stored(folder, stored)
    if workspace.spool is not None:
        remove_parts(folder)
    return _load(folder, stored, workspace)


def _load(folder: Path, stored: StoredIndex | None, workspace: Workspace) -> ManifestIndex | None:
    if stored is None:
        return None
    try:
        return load_index(folder, stored, workspace.index.with_name("spool"))
    except (OSError, ValueError):  # after a power failure, or somebody has removed files
        if workspace.spool is not None:
            (folder / INDEX_NAME).unlink(missing_ok=True)
        return None


def _remove_others(folder: Path) -> None:
    """Remove the indexes of other manifests, or of these in earlier states; a process that has mapped one keeps it."""
    for other in folder.parent.iterdir():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
