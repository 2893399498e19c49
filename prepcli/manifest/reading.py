"""Ranks read manifests together: tasks, the parts that they publish, and the index that is made of these."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from prepcli.engine.ranks.claims import CLAIMS, Claims, do_together
from prepcli.engine.ranks.stages import begin_stage
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.manifest.foreign import check_is_json_lines
from prepcli.manifest.index import IndexBuilder, SourceFile, new_source
from prepcli.manifest.index_files import (
    INDEX_NAME,
    ColumnFiles,
    column_names,
    has_parts,
    read_parts,
    save_index,
    write_parts,
)
from prepcli.manifest.packs import Pack
from prepcli.manifest.parts import Columns, Part
from prepcli.manifest.pieces import Input, Piece, Plain, pieces_of, read_pieces
from prepcli.manifest.scan import RANGE_BYTES, Range
from prepcli.manifest.spool import is_copied, is_whole, plain_copy, remove_drafts
from prepcli.storage.input_files import FileState, check_unchanged

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
