"""Records which files below OUT are ours: no other file is ever removed or replaced.

Before the first file of a unit appears, the unit's marker is written to `owned/` as a note; after the last file, the
note is renamed to `done/`. So a document in one of these folders names each file that a run has published, however the
run has ended. A file is ours as long as it matches its document: a regular file of the same size and time, or of the
same content.
"""

import contextlib
import os
import stat
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from prepcli.engine.publishing.hashes import XXH3, hash_of, sha256_of
from prepcli.engine.publishing.output_files import PublishedFile
from prepcli.engine.state.workspace import Workspace, atomic_file, read_document, write_json
from prepcli.errors import UsageError, same_command
from prepcli.interface.calls import tell
from prepcli.processes.owner import Owner, owner_of, refresh_listing
from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.addresses import ObjectInfo
from prepcli.storage.paths import AnyPath, StorePath

State = os.stat_result | ObjectInfo
_RETIRED = "retired"
"""Replaces the owner in the name of a note that was made from an old marker: no process is still working on it."""


class Noted(msgspec.Struct, frozen=True):
    """The part of a marker or a note that names the files of a unit. The names in `files` are relative to OUT."""

    files: dict[str, PublishedFile] = {}
    earlier: dict[str, list[PublishedFile]] = {}


class Owned:
    """The files that runs have recorded as theirs in a state folder.

    Attributes:
        documents: the notes and markers that were read.
        files: for each name below OUT, the records of the files that runs have published under this name, from all
            `documents`.
        ended: all markers in `documents`, and the notes whose processes are known to have ended.
    """

    def __init__(self, workspace: Workspace, unit: str | None = None) -> None:
        """Read all notes and markers, or only those of `unit`.

        Notes are read before markers: a note that is renamed during the reading is found in `done/`. Folders are
        listed without caches, because the files of an overlooked note or marker would be taken for foreign files.
        """
        self.files: dict[str, list[PublishedFile]] = {}
        self.documents: list[Path] = []
        self.ended: list[Path] = []
        for folder in (workspace.owned, workspace.done) if unit is None else (workspace.owned,):
            refresh_listing(folder)
        for path, has_ended in _documents(workspace, unit):
            noted = _read(path)
            for name, file in noted.files.items():
                if not file.foreign:
                    self.files.setdefault(name, []).extend([file, *noted.earlier.get(name, ())])
            self.documents.append(path)
            if has_ended:
                self.ended.append(path)

    def fits(self, path: AnyPath, name: str, state: State, *more: PublishedFile) -> bool:
        """Whether the file at `path` matches one of the records of the name `name`, or one of the records `more`.

        `state`: the current state of the file. If the state alone matches no record (`is_as_published`), the content of
        the file is compared with the records.
        """
        records = [*self.files.get(name, ()), *more]
        return is_as_published(state, records) or has_content(path, state, records)


def note(workspace: Workspace, unit: str, document: object, folder: Path) -> Path:
    """Record on disk which files a unit is about to publish; returns the path of this note.

    `document` is the marker that the unit will have; `folder` is the temporary directory of the unit.
    """
    workspace.owned.mkdir(exist_ok=True)
    path = workspace.owned / f"{unit}~{Owner.of_this_process(workspace.rank_id)}~{uuid.uuid4().hex[:8]}.json"
    write_json(path, document, folder=folder)
    return path


def mark(
    workspace: Workspace, unit: str, document: object, names: Collection[str], noted: Path | None, folder: Path
) -> None:
    """Write `document` as the marker of a unit; to be called when all its files, `names`, have their final names.

    `noted`: the path of the unit's note, which is renamed to the marker. None if there is no note with the content of
    `document`: the marker is then a new file. `folder`: the temporary directory of the unit.
    """
    path = workspace.done / f"{unit}.json"
    if not _read(path).files.keys() <= set(names):
        workspace.owned.mkdir(exist_ok=True)
        # A copy, not a rename: the marker may already belong to a run that has started again.
        with contextlib.suppress(FileNotFoundError), atomic_file(_retired(workspace, unit), folder=folder) as file:
            file.write(path.read_bytes())
    if noted is not None:
        os.replace(noted, path)
    else:
        write_json(path, document, durable=bool(names), folder=folder)
    for earlier, has_ended in list(_notes(workspace, unit)):
        is_own = owner_of(earlier) == Owner.of_this_process(workspace.rank_id)
        if (has_ended or is_own) and _read(earlier).files.keys() <= set(names):
            earlier.unlink(missing_ok=True)


def retire(workspace: Workspace, unit: str) -> None:
    """Move the marker of a unit from `done/` to `owned/`: the unit is done again, and its files still count as ours."""
    workspace.owned.mkdir(exist_ok=True)
    with contextlib.suppress(FileNotFoundError):  # another rank has removed the marker
        os.rename(workspace.done / f"{unit}.json", _retired(workspace, unit))


def _retired(workspace: Workspace, unit: str) -> Path:
    return workspace.owned / f"{unit}~{_RETIRED}~{uuid.uuid4().hex[:8]}.json"


def make_way(workspace: Workspace, unit: str, files: Mapping[str, PublishedFile]) -> dict[str, PublishedFile]:
    """Make sure that a unit replaces no foreign file; called before the first of its `files` appears.

    A file of ours that has changed is moved to `OUT.prepcli/kept/`. A file with the right content that this unit did
    not write stays: it is foreign, or belongs to another unit.

    Returns:
        The records of `files`. `foreign` is True for a file that existed with the same content before this unit: the
        unit must not publish it.

    Raises:
        UsageError: a foreign file with other content has one of the names; or, in a store, a file of ours has changed,
            which cannot be moved.
    """
    out, result = workspace.out, dict(files)
    there = {name: state for name in files if (state := workspace.found.state(name)) is not None}
    own = Owned(workspace, unit) if there else None
    every: Owned | None = None
    changed = []
    for name, state in there.items():
        assert own is not None
        if isinstance(state, os.stat_result) and stat.S_ISDIR(state.st_mode):
            continue  # publishing reports an entry that is in the way
        if name in own.files and own.fits(out / name, name, state, files[name]):
            continue
        if name not in own.files and has_content(out / name, state, [files[name]]):
            result[name] = msgspec.structs.replace(files[name], foreign=True)
            continue
        every = every or Owned(workspace)
        if name not in every.files:
            raise UsageError(
                f"{out / name} is there already, and no record in {workspace.root} shows that this run has written it; "
                f"move it away, and run {same_command()} again"
            )
        if not every.fits(out / name, name, state):
            changed.append(name)
    for name in changed:
        set_aside(workspace, out / name, name)
    return result


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


def take_back(workspace: Workspace, files: Mapping[str, PublishedFile]) -> None:
    """Remove the objects that this process has just published to a store, because another run now has the output.

    Objects that the other run has published stay: they have another ETag.
    """
    for name, file in files.items():
        path = workspace.out / name
        with contextlib.suppress(OSError):
            if is_as_published(call(client.object_info, str(path)), [file]):
                path.unlink()


def remove_editable(workspace: Workspace, name: str) -> None:
    """Remove a file that 0.3 has written; if users have changed it, move it to `OUT.prepcli/kept/`."""
    path = workspace.root / name
    if path.is_file() and sha256_of(path) in _written(workspace, name):
        path.unlink()
    elif os.path.lexists(path):
        set_aside(workspace, path, name)
    _digest_file(workspace, name).unlink(missing_ok=True)


def _written(workspace: Workspace, name: str) -> list[str]:
    """The SHA-256 digests that 0.3 has recorded for the file `name`; empty if it has recorded none.

    If the digest of the file is not among them, a user has changed the file.
    """
    with contextlib.suppress(OSError):
        return _digest_file(workspace, name).read_text().split()
    return []


def _digest_file(workspace: Workspace, name: str) -> Path:
    return workspace.owned / f"{name}.sha256"


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


def _read(path: Path) -> Noted:
    return read_document(path, Noted) or Noted()


def _documents(workspace: Workspace, unit: str | None) -> Iterator[tuple[Path, bool]]:
    """Yield the paths of the notes and then of the markers of `unit` (None: of all units).

    A bool with each path shows whether the process that wrote the document is known to have ended; True for a marker.
    `done/` is listed after the caller has read all notes, because a note may be renamed to a marker meanwhile.
    """
    yield from _notes(workspace, unit)
    if workspace.has_unit_folders:
        markers = workspace.marker_files() if unit is None else [workspace.marker_file(unit)]
    else:
        markers = _json_files(workspace.done) if unit is None else [workspace.done / f"{unit}.json"]
    yield from ((path, True) for path in markers)


def _notes(workspace: Workspace, unit: str | None) -> Iterator[tuple[Path, bool]]:
    """Yield the path of each note of `unit` (None: of all units), and whether its process is known to have ended.

    A note lists the files that a process is about to publish.
    """
    for path in _json_files(workspace.owned):
        if unit is None or path.name.startswith(f"{unit}~"):
            owner = owner_of(path)
            yield path, owner.is_gone is True if owner is not None else f"~{_RETIRED}~" in path.name


def _json_files(folder: Path) -> list[Path]:
    """The JSON files in a folder, sorted; none if another rank, which clears the output, has removed the folder."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(".json") and name[0] != "."]
    return []
