"""The first stage of a job: one of its ranks reads the manifests, once, and all of them map the result into memory.

Manifests are divided into tasks of about 16 MiB: a range of a large file, or many small files. The workers of the rank
publish the columns of each task, so a rank that goes on with the work of one that was killed does not read them again.
When all tasks are done, their columns are joined. Later starts map the index without reading the manifests, as long as
these are unchanged.
"""

import contextlib
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from prepcli.engine.lock import Lock, do_once
from prepcli.engine.ranks.stages import LOCK_FILE, begin_stage
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.errors import PrepcliError, UsageError, naming, same_command
from prepcli.manifest.foreign import check_is_json_lines
from prepcli.manifest.index import (
    IndexBuilder,
    ManifestIndex,
    SourceFile,
    check_is_manifest,
    columns_of,
    content_digest,
    grouped,
    index_manifests,
    new_source,
)
from prepcli.manifest.index_files import (
    INDEX_NAME,
    ColumnFiles,
    StoredIndex,
    column_names,
    has_parts,
    load_index,
    read_parts,
    read_stored,
    save_index,
    save_stored,
    write_parts,
)
from prepcli.manifest.parts import Columns, KeyFunction, Part
from prepcli.manifest.scan import RANGE_BYTES, Range, ranges_of, scan
from prepcli.manifest.sources import Reader, check_file, is_gzip, open_bytes
from prepcli.manifest.spool import DRAFT_SUFFIX, is_copied, is_whole, remove_drafts
from prepcli.processes.pools import map_in_order
from prepcli.storage.containers import Catalogue
from prepcli.storage.input_files import FileState, check_unchanged, state_of
from prepcli.storage.paths import absolute
from prepcli.version import __version__

_COMPRESSION = 8
"""Approximate ratio of the length of a manifest to that of its compressed file."""
_SMALL_BYTES = 1 << 20
"""The maximum size of a small file. A larger one is always checked: is it really a manifest, or audio, an archive, ...?

A small file is checked only if one of its lines is unusable, because the check opens the file once more."""
_BLOCK_BYTES = 1 << 20


class Input(NamedTuple):
    """A manifest, and its state before anything was read."""

    path: str
    state: FileState

    def check_kind(self) -> None:
        """Refuse a file of another kind, unless it is small (see `_SMALL_BYTES`)."""
        if self.state.num_bytes > _SMALL_BYTES:
            check_is_json_lines(self.path)


class _Piece(NamedTuple):
    """A range of a manifest, and the number of the manifest among all inputs."""

    number: int
    input: Input
    range: Range

    @property
    def num_bytes(self) -> int:
        """The number of uncompressed bytes; for a compressed file, an estimate."""
        stop = self.range.stop
        return self.input.state.num_bytes * _COMPRESSION if stop is None else stop - self.range.start


_PARTS = "parts"


class _Task(NamedTuple):
    """A task of a worker: the ranges that it reads or unpacks, and the file that it publishes (at `result_path`)."""

    result_path: Path
    pieces: tuple[_Piece, ...]

    @property
    def states(self) -> list[FileState]:
        """The state of each piece's file."""
        return [piece.input.state for piece in self.pieces]


class _Plain(NamedTuple):
    """The uncompressed bytes of an input: their file, their first byte, and their number."""

    path: str
    begin: int
    num_bytes: int


class _Unpacked(msgspec.Struct, frozen=True):
    """The place of an unpacked manifest: the name of a file in the spool, the first byte, and the number of bytes.

    `state`: the state of the compressed file.
    """

    name: str
    begin: int
    num_bytes: int
    state: FileState


def make_index(
    lock: Lock,
    folder: Path,
    inputs: Sequence[Input],
    columns: Columns,
    workspace: Workspace,
    spool: Path,
    num_workers: int,
) -> None:
    """Make the index of `inputs`, and put it into `folder`, whose lock this process holds.

    Compressed manifests are unpacked in `spool`, and manifests in an object store are fetched there.

    Raises:
        UsageError: a manifest is damaged.
        InputChangedError: a manifest changed during reading.
        IncompleteError: a worker process was killed.
    """
    begin = partial(begin_stage, folder, workspace)
    parts = folder / _PARTS
    packed = [_Piece(n, entry, Range(entry.path, 0, None)) for n, entry in enumerate(inputs) if is_copied(entry.path)]
    unpacking = _tasks("unpack", parts, packed)
    try:
        parts.mkdir(exist_ok=True)
        begin("unpacking manifests", len(unpacking), f"{_PARTS}/unpack-*")
        left = [task for task in unpacking if not _is_unpacked(task, spool)]
        _do(left, partial(_unpack, spool=spool), num_workers)
        plain = _plain_files(inputs, unpacking, spool)
        ranges = [ranges_of(at.path, at.num_bytes, begin=at.begin) for at in plain]
        pieces = [_Piece(n, entry, part) for n, entry in enumerate(inputs) for part in ranges[n]]
        reading = _tasks("read", parts, pieces)
        begin("reading manifests", len(reading), f"{_PARTS}/read-*")
        left = [task for task in reading if not has_parts(task.result_path, task.states)]
        _do(left, partial(_read, columns=columns), num_workers)
        begin("joining what was read", 1, INDEX_NAME)
        sources = [
            new_source(str(entry.path), at.path, entry.state, at.begin) for entry, at in zip(inputs, plain, strict=True)
        ]
        _join(folder, sources, reading, columns, workspace.rank_id)
    except FileNotFoundError:
        # This rank stood still for so long that another one has completed the index and removed the parts.
        if not _is_complete(folder):
            raise
    if lock.is_ours:
        _remove_remains(folder)
        remove_drafts(spool)


def _do(tasks: Sequence[_Task], do: Callable[[_Task], object], num_workers: int) -> None:
    for _ in map_in_order(do, tasks, num_workers):
        pass


def _remove_remains(folder: Path) -> None:
    """Remove parts, drafts of processes that were killed or too slow, and plans over a damaged index."""
    remove_parts(folder)
    for path in folder.iterdir():
        if path.name.startswith((".", "plan-", f"{LOCK_FILE}~")):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def remove_parts(folder: Path) -> None:
    """Remove the parts of a complete index, in case the rank that joined them was killed before it removed them.

    They get another name first: workers of a killed rank may still write parts, and would fill the folder again.
    """
    aside = folder / f".{_PARTS}~{uuid.uuid4().hex}"
    with contextlib.suppress(OSError):  # there are none, or the file system is read-only
        os.rename(folder / _PARTS, aside)
        shutil.rmtree(aside, ignore_errors=True)


def _tasks(name: str, parts: Path, pieces: Sequence[_Piece]) -> list[_Task]:
    """Group consecutive pieces into tasks of at least `RANGE_BYTES`; the last task may be smaller."""
    groups = enumerate(grouped(pieces, lambda piece: piece.num_bytes, RANGE_BYTES))
    return [_Task(parts / f"{name}-{number:06d}", tuple(group)) for number, group in groups]


def _is_complete(folder: Path) -> bool:
    return (folder / INDEX_NAME).exists()


def _unpack(task: _Task, spool: Path) -> None:
    """Write the content of compressed manifests to one file, each with a line end after its last line.

    The task's result has the place of each manifest in this file.
    """
    spool.mkdir(parents=True, exist_ok=True)
    draft = spool / f"{uuid.uuid4().hex}{DRAFT_SUFFIX}"
    digest = hashlib.sha256()
    places: list[tuple[int, int]] = []
    try:
        with naming(draft), draft.open("xb") as file:
            for piece in task.pieces:
                begin, last = file.tell(), b""
                for last in _content(piece.input):
                    digest.update(last)
                    file.write(last)
                places.append((begin, file.tell() - begin))
                if not last.endswith(b"\n"):
                    file.write(b"\n")
            file.flush()
            os.fsync(file.fileno())
            digest.update(repr(places).encode())
            name = f"{digest.hexdigest()}-{file.tell()}.jsonl"
        draft.replace(spool / name)
    finally:
        draft.unlink(missing_ok=True)
    unpacked = [_Unpacked(name, *at, piece.input.state) for at, piece in zip(places, task.pieces, strict=True)]
    write_json(task.result_path, unpacked)


def _content(manifest: Input) -> Iterator[bytes]:
    """The uncompressed bytes of a manifest, in blocks."""
    manifest.check_kind()
    try:
        with open_bytes(manifest.path) as packed:
            reader = Reader(manifest.path, packed)
            while block := reader.read(_BLOCK_BYTES):
                yield block
    except UsageError:
        check_unchanged(manifest.path, manifest.state)  # the error of a file that changes is not damage
        raise
    check_unchanged(manifest.path, manifest.state)


def _is_unpacked(task: _Task, spool: Path) -> bool:
    unpacked = read_document(task.result_path, list[_Unpacked]) or []
    are_whole = all(is_whole(spool / name) for name in {file.name for file in unpacked})
    return are_whole and [file.state for file in unpacked] == task.states


def _plain_files(inputs: Sequence[Input], unpacking: Sequence[_Task], spool: Path) -> list[_Plain]:
    """For each input, the place of its uncompressed bytes."""
    plain = [_Plain(entry.path, 0, entry.state.num_bytes) for entry in inputs]
    for task in unpacking:
        unpacked = read_document(task.result_path, list[_Unpacked])
        if unpacked is None:
            raise FileNotFoundError(task.result_path)
        for piece, file in zip(task.pieces, unpacked, strict=True):
            plain[piece.number] = _Plain(str(spool / file.name), file.begin, file.num_bytes)
    return plain


def _read(task: _Task, columns: Columns) -> None:
    write_parts(task.result_path, task.states, ((piece.number, _read_piece(piece, columns)) for piece in task.pieces))


def _read_piece(piece: _Piece, columns: Columns) -> Part:
    """The columns of a range; raises `UsageError` if the input is another kind of file."""
    path, state = piece.input.path, piece.input.state
    if not piece.range.start:
        piece.input.check_kind()
    [part] = scan(piece.range, columns)
    if part.num_problems and state.num_bytes <= _SMALL_BYTES:
        check_is_json_lines(path)
    if not piece.range.start:
        check_is_manifest(path, part, part.num_bytes)
    check_unchanged(path, state)
    return part


def _join(
    folder: Path, sources: Sequence[SourceFile], reading: Sequence[_Task], columns: Columns, rank_id: str
) -> None:
    """Join the parts of all manifests to an index in `folder`."""
    stream = (part for task in reading for part in read_parts(task.result_path))
    following = next(stream, None)

    def parts_of(number: int) -> Iterator[Part]:
        nonlocal following
        while following is not None and following[0] == number:
            yield following[1]
            following = next(stream, None)

    with ColumnFiles(folder, column_names(columns), f"{rank_id}-{os.getpid()}") as files:
        builder = IndexBuilder(columns, files.append)
        for number, source in enumerate(sources):
            builder.add_source(source, parts_of(number))
        save_index(folder, builder, files, columns)


MIN_SHARED_BYTES = 8 << 20
"""If the input has fewer bytes, each rank reads all of it alone. Compressed bytes count eight times."""
_FORMAT = 6


def shared_index(
    paths: Sequence[str],
    workspace: Workspace | None = None,
    *,
    num_workers: int = 1,
    keys: Mapping[str, KeyFunction] | None = None,
    looks_for: Callable[[bytes], bool] | None = None,
) -> ManifestIndex:
    """The index of `index_manifests`. One rank of `workspace` reads the manifests, and keeps the index there for all.

    If there is no workspace, little input, or no permission to write, this process reads the manifests alone.

    Raises:
        UsageError: a manifest is missing or damaged.
        InputChangedError: a manifest changed during reading.
        IncompleteError: a worker process was killed.
    """
    again = workspace is not None and workspace.reads_again and any(_is_measured(path) for path in paths)
    if workspace is not None and not again:
        inputs = [Input(path, state_of(check_file(path))) for path in paths]
        if (
            sum(entry.state.num_bytes * (_COMPRESSION if is_gzip(entry.path) else 1) for entry in inputs)
            >= MIN_SHARED_BYTES
        ):
            index = _find_or_make(inputs, workspace, columns_of(keys, looks_for, paths), num_workers)
            if index is not None:
                return index
    spool = None if workspace is None else workspace.spool
    return index_manifests(paths, num_workers=num_workers, keys=keys, looks_for=looks_for, spool_dir=spool, again=again)


def _find_or_make(
    inputs: Sequence[Input], workspace: Workspace, columns: Columns, num_workers: int
) -> ManifestIndex | None:
    """The shared index, which one rank makes if it does not exist; None if it cannot be written, as in a dry run."""
    what = repr([_FORMAT, __version__, [_named(entry.path) for entry in inputs], _described(columns)])
    name = _digest(what)
    # The name comes from sizes and times alone, because the servers of some network file systems disagree about the
    # rest. If files with another content have this place, a name from the whole state distinguishes them.
    known = [[entry.state[:2] for entry in inputs], [tuple(entry.state) for entry in inputs]]
    folders = [workspace.index / f"{name}-{_digest(repr(states))}" for states in known]
    free = []
    for folder in dict.fromkeys([*folders, *workspace.index.glob(f"{name}-*")]):
        # A place is taken if a useless index was there before this rank looked. An index that another rank completes at
        # this moment is useful: a rank that makes a second one would find it removed.
        was_there = (folder / INDEX_NAME).exists()
        index = _find(folder, inputs, workspace)
        if index is not None:
            return index
        if folder in folders and not (was_there and (folder / INDEX_NAME).exists()):
            free.append(folder)
    if not free or workspace.spool is None or not _can_write(free[0]):  # a dry run, or an output that cannot be written
        return None
    folder = free[0]
    make = partial(
        make_index,
        folder=folder,
        inputs=inputs,
        columns=columns,
        workspace=workspace,
        spool=workspace.spool,
        num_workers=num_workers,
    )
    do_once(folder / LOCK_FILE, make, lambda: _is_complete(folder), "is reading the manifests")
    remove_parts(folder)  # of a rank that has lost the lock, or was killed after it had completed the index
    index = _load(folder, read_stored(folder), workspace)
    if index is None:
        raise PrepcliError(f"{folder} was removed during the run, which has stopped; run {same_command()} again")
    _remove_others(folder)
    return index


def _is_measured(path: str) -> bool:
    """Whether lines of an input depend on audio files that were measured (`Catalogue.measures`)."""
    return isinstance(path, Catalogue) and path.measures


def _named(path: str) -> str:
    """The absolute path of a manifest; for a container, followed by the way in which its records are read."""
    return f"{absolute(path)}\0{path.how}" if isinstance(path, Catalogue) else absolute(path)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def _described(columns: Columns) -> list[object]:
    """A description of an index's keys and of `looks_for`; equal functions give equal descriptions in all processes."""
    of_fields = [(name, key.field, _function(key.function)) for name, key in columns.field_keys]
    looks_for = [_function(columns.looks_for)] if columns.looks_for else []
    return [*((name, _function(function)) for name, function in columns.keys), *of_fields, *looks_for]


def _function(function: Callable[..., Any]) -> object:
    if isinstance(function, partial):
        return [_function(function.func), [_argument(value) for value in function.args], function.keywords]
    wrapped = getattr(function, "__wrapped__", function)
    module = getattr(wrapped, "__module__", "builtins")  # a method such as str.strip has none
    return f"{module}.{wrapped.__qualname__}"


def _argument(value: object) -> object:
    if callable(value):
        return _function(value)
    return [value.pattern, value.flags] if isinstance(value, re.Pattern) else value


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _find(folder: Path, inputs: Sequence[Input], workspace: Workspace) -> ManifestIndex | None:
    """The index in `folder`; None if it is incomplete or damaged, or if the content of a manifest has changed."""
    stored = read_stored(folder)
    if stored is None or [source.state.num_bytes for source in stored.sources] != [
        source.state.num_bytes for source in inputs
    ]:
        return None
    doubtful = [
        (source, entry)
        for source, entry in zip(stored.sources, inputs, strict=True)
        if source.state != entry.state or workspace.verify_inputs
    ]
    for source, entry in doubtful:
        if content_digest(entry.path) != source.sha256:
            return None
        source.state = entry.state
    if doubtful and workspace.spool is not None:
        with contextlib.suppress(OSError):  # so that the next start need not read the manifests again
            save_stored(folder, stored)
    if workspace.spool is not None:
        remove_parts(folder)
    return _load(folder, stored, workspace)


def _load(folder: Path, stored: StoredIndex | None, workspace: Workspace) -> ManifestIndex | None:
    if stored is None:
        return None
    try:
        return load_index(folder, stored, workspace.index.with_name("spool"))
    except (OSError, ValueError):  # after a power failure, or files have been removed
        if workspace.spool is not None:
            (folder / INDEX_NAME).unlink(missing_ok=True)
        return None


def _remove_others(folder: Path) -> None:
    """Remove all indexes except the one in `folder`; a process that has mapped a removed index can still read it."""
    for other in folder.parent.iterdir():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
