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
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import msgspec

from prepcli.engine.ranks.claims import CLAIMS, Claims, do_together
from prepcli.engine.ranks.stages import begin_stage
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.errors import PrepcliError
from prepcli.manifest.foreign import check_is_json_lines
from prepcli.manifest.index import (
    IndexBuilder,
    ManifestIndex,
    SourceFile,
    columns_of,
    content_digest,
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
from prepcli.manifest.pieces import Input, Piece, Plain, pieces_of, read_pieces
from prepcli.manifest.scan import RANGE_BYTES, Range
from prepcli.manifest.sources import check_file, is_gzip
from prepcli.manifest.spool import DRAFT_SUFFIX, is_copied, is_whole, plain_copy, remove_drafts
from prepcli.storage.addresses import is_address
from prepcli.storage.input_files import FileState, check_unchanged, state_of
from prepcli.storage.paths import absolute
from prepcli.version import __version__

MAX_PACKED_BYTES = 256 << 10
"""A longer compressed file is unpacked to a file of its own, ..."""
MAX_CONTENT_BYTES = 4 << 20
"""... and one with longer content."""
_GZIP = 31
_BOM = b"\xef\xbb\xbf"


class Place(NamedTuple):
    """Where the content of a file is in a pack: its first byte, and the number of bytes."""

    begin: int
    num_bytes: int


class Pack:
    """A file with the content of small compressed manifests, each with a line end behind its last line.

    It appears whole or not at all, in `folder`, under a name that follows from the compressed files.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._draft = folder / f"{uuid.uuid4().hex}{DRAFT_SUFFIX}"
        self._file = self._draft.open("xb")
        self._digest = hashlib.sha256()

    def add(self, path: str, state: FileState) -> Place | None:
        """Add a file; None if it is not small, or not one gzip member without damage: to be unpacked alone.

        Raises:
            InputChangedError: it is not in `state` anymore.
        """
        if not is_gzip(path) or is_address(path) or state.num_bytes > MAX_PACKED_BYTES:
            return None
        with Path(path).open("rb", buffering=0) as file:
            packed = file.read(state.num_bytes + 1)
            if state_of(file.fileno()) != state:
                check_unchanged(path, state)
        content = _unpacked(packed)
        if content is None or content.startswith(_BOM):
            return None
        self._digest.update(hashlib.sha256(packed).digest())
        begin = self._file.tell()
        self._file.write(content)
        if not content.endswith(b"\n"):
            self._file.write(b"\n")
        return Place(begin, len(content))

    def publish(self) -> Path:
        """The complete file."""
        self._file.flush()
        path = self._folder / f"{self._digest.hexdigest()}-{self._file.tell()}.jsonl"
        os.fsync(self._file.fileno())
        self._draft.replace(path)
        return path

    def __enter__(self) -> "Pack":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
        self._draft.unlink(missing_ok=True)


def _unpacked(packed: bytes) -> bytes | None:
    """The content of a small gzip file; None if it is long, damaged, or of several members."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        content = unpacker.decompress(packed, MAX_CONTENT_BYTES)
    except zlib.error:
        return None
    return content if unpacker.eof and not unpacker.unused_data else None


_PARTS = "parts"


@dataclass(frozen=True, slots=True)
class _Task:
    """What a rank reads or unpacks in one go, and the file that it publishes."""

    name: str
    result: Path
    pieces: tuple[Piece, ...]

    @property
    def states(self) -> list[FileState]:
        """The state of each piece's file."""
        return [piece.input.state for piece in self.pieces]


class _Unpacked(msgspec.Struct, frozen=True):
    """An uncompressed manifest: its file in the folder of unpacked ones, and the state of the compressed one."""

    name: str
    begin: int
    num_bytes: int
    state: FileState


def read_together(
    folder: Path, inputs: Sequence[Input], columns: Columns, workspace: Workspace, spool: Path, num_workers: int
) -> None:
    """Make the index of the manifests in `folder`, together with the other ranks; returns when it is complete.

    Compressed manifests are unpacked in `spool`, and those in an object store fetched.

    Raises:
        UsageError: a manifest is damaged.
        InputChangedError: one was written to meanwhile.
        IncompleteError: a worker process was killed.
    """
    parts = folder / _PARTS
    parts.mkdir(exist_ok=True)
    rank = workspace.rank
    claims = Claims(folder / CLAIMS, rank.rank, workspace.rank_id)
    together = partial(do_together, claims=claims, world_size=rank.world_size, num_workers=num_workers)
    packed = [Piece(n, one, Range(one.path, 0, None)) for n, one in enumerate(inputs) if is_copied(one.path)]
    unpacking = _tasks("unpack", parts, packed)
    try:
        begin_stage(folder, "unpacking manifests", len(unpacking), f"{_PARTS}/unpack-*")
        together(unpacking, partial(_unpack, spool=spool), partial(_is_unpacked, folder=folder, spool=spool))
        plain = _plain_files(inputs, unpacking, spool)
        reading = _tasks("read", parts, list(pieces_of(inputs, plain)))
        begin_stage(folder, "reading manifests", len(reading), f"{_PARTS}/read-*")
        together(reading, partial(_read, columns=columns), partial(_is_read, folder=folder))
        begin_stage(folder, "joining what was read", 1, INDEX_NAME)
        sources = [new_source(one.path, at.path, one.state, at.begin) for one, at in zip(inputs, plain, strict=True)]
        join = partial(_join, sources=sources, reading=reading, columns=columns, rank_id=workspace.rank_id)
        together([_Task("join", folder / INDEX_NAME, ())], join, lambda task: task.result.exists())
    except FileNotFoundError:
        # Another rank may have completed the index, and removed the parts, while this one was about to use them.
        # The same goes for a copy that this one was making a second time.
        if not _is_complete(folder):
            raise
    remove_parts(folder)
    remove_drafts(spool)


def remove_parts(folder: Path) -> None:
    """Remove what a complete index was made of, where the rank that has joined it was killed before it did."""
    if (folder / _PARTS).exists():
        shutil.rmtree(folder / _PARTS, ignore_errors=True)


def _tasks(name: str, parts: Path, pieces: Sequence[Piece]) -> list[_Task]:
    """Consecutive pieces in tasks of at least `RANGE_BYTES`, if there is enough."""
    tasks: list[_Task] = []
    group: list[Piece] = []
    size = 0
    for position, piece in enumerate(pieces):
        group.append(piece)
        size += piece.num_bytes
        if size >= RANGE_BYTES or position + 1 == len(pieces):
            number = f"{name}-{len(tasks):06d}"
            tasks.append(_Task(number, parts / number, tuple(group)))
            group, size = [], 0
    return tasks


def _is_complete(folder: Path) -> bool:
    return (folder / INDEX_NAME).exists()


def _unpack(task: _Task, spool: Path) -> None:
    inputs = [piece.input for piece in task.pieces]
    with Pack(spool) as pack:
        places = [pack.add(one.path, one.state) for one in inputs]
        name = pack.publish().name if any(places) else ""
    found = []
    for one, place in zip(inputs, places, strict=True):
        if place is not None:
            found.append(_Unpacked(name, *place, one.state))
            continue
        check_is_json_lines(one.path)
        unpacked = plain_copy(one.path, spool)
        check_unchanged(one.path, one.state)
        found.append(_Unpacked(unpacked.name, 0, unpacked.stat().st_size, one.state))
    write_json(task.result, found)


def _is_unpacked(task: _Task, folder: Path, spool: Path) -> bool:
    if _is_complete(folder):
        return True
    found = read_document(task.result, list[_Unpacked]) or []
    are_whole = all(is_whole(spool / name) for name in {one.name for one in found})
    return are_whole and [one.state for one in found] == task.states


def _plain_files(inputs: Sequence[Input], unpacking: Sequence[_Task], spool: Path) -> list[Plain]:
    """For each input where its uncompressed bytes are."""
    plain = [Plain(one.path, 0, one.state.num_bytes) for one in inputs]
    for task in unpacking:
        found = read_document(task.result, list[_Unpacked])
        if found is None:
            raise FileNotFoundError(task.result)
        for piece, one in zip(task.pieces, found, strict=True):
            plain[piece.number] = Plain(str(spool / one.name), one.begin, one.num_bytes)
    return plain


def _read(task: _Task, columns: Columns) -> None:
    write_parts(task.result, task.states, read_pieces(task.pieces, columns))


def _is_read(task: _Task, folder: Path) -> bool:
    return _is_complete(folder) or has_parts(task.result, task.states)


def _join(task: _Task, sources: Sequence[SourceFile], reading: Sequence[_Task], columns: Columns, rank_id: str) -> None:
    """Join the parts to an index, and remove them."""
    folder = task.result.parent
    stream = (part for one in reading for part in read_parts(one.result))
    following = next(stream, None)

    def parts_of(number: int) -> Iterator[Part]:
        nonlocal following
        while following is not None and following[0] == number:
            yield following[1]
            following = next(stream, None)

    with ColumnFiles(folder, column_names(columns), f"{rank_id}-{os.getpid()}") as files:
        builder = IndexBuilder(columns, files.append)
        while (number := len(builder.index.sources)) < len(sources):
            if following is not None and following[0] == number and (count := len(following[1].files)):
                builder.add_together(sources[number : number + count], following[1])
                following = next(stream, None)
            else:
                builder.add_source(sources[number], parts_of(number))
        save_index(folder, builder, files, columns)
    for path in folder.iterdir():
        # Drafts of processes that were killed or too slow, and plans over an index that was damaged.
        if path.name == _PARTS or path.name.startswith((".", "plan-")):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


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
