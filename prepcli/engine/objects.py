"""Which objects in a store are ours: those that the documents of units and notes name, as long as they are as noted.

Objects of a unit have their final names at once. So before the first of them appears, the unit is noted in
`OUT.prepcli/noted/`; the note is removed when the document of the unit is there. Whenever a run is killed, each of its
objects is named by one of the two. At a commit, objects that only a note or an earlier run names are removed.
"""

import contextlib
import os
import uuid
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from prepcli.engine.ledger import run_folders
from prepcli.engine.publishing.output_files import PublishedFile
from prepcli.engine.publishing.recorded import has_content, is_as_published
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.processes.owner import Owner, owner_of, refresh_listing
from prepcli.storage.addresses import ObjectInfo

NOTED = "noted"
_RETIRED = "retired"
"""Replaces the owner in the name of a note that was the document of a unit: no process is working on it."""


class Noted(msgspec.Struct, frozen=True):
    """The part of a note, or of the document of a unit, that names objects relative to OUT."""

    files: dict[str, PublishedFile] = {}
    earlier: dict[str, list[PublishedFile]] = {}


def note(workspace: Workspace, unit: str, files: dict[str, PublishedFile]) -> Path:
    """Record on disk which objects of a unit are about to appear; returns the path of the note.

    Its draft is in `tmp/`, with those of all ranks that were killed.
    """
    path = _folder(workspace) / f"{unit}~{Owner.of_this_process(workspace.rank_id)}~{uuid.uuid4().hex[:8]}.json"
    path.parent.mkdir(exist_ok=True)
    write_json(path, Noted(files), folder=workspace.tmp)
    return path


def retire(workspace: Workspace, unit: str) -> None:
    """Copy the document of a unit of this run, which is about to be removed, to a note."""
    document = read_document(workspace.run / "units" / unit / "unit.json", Noted)
    if document is not None and document.files:
        path = _folder(workspace) / f"{unit}~{_RETIRED}~{uuid.uuid4().hex[:8]}.json"
        path.parent.mkdir(exist_ok=True)
        write_json(path, document, folder=workspace.tmp)


def records_of_objects(workspace: Workspace, unit: str = "") -> dict[str, list[PublishedFile]]:
    """For each name below OUT, the records of the objects that runs have written: all, or only those of `unit`.

    Notes are read before documents: a note is removed when the document is there.
    """
    records: dict[str, list[PublishedFile]] = {}
    for path in [*_notes(workspace, unit), *_documents(workspace, unit)]:
        noted = read_document(path, Noted) or Noted()
        for name, file in noted.files.items():
            if not file.foreign:
                records.setdefault(name, []).extend([file, *noted.earlier.get(name, ())])
    return records


def is_as_recorded(workspace: Workspace, name: str, state: ObjectInfo, records: Sequence[PublishedFile]) -> bool:
    """Whether an object is as one of the records says: by its ETag or, if only that differs, by its content."""
    return is_as_published(state, records) or has_content(workspace.out / name, state, records)


def remove_objects(workspace: Workspace, kept: Collection[str], obsolete: Sequence[str] = ()) -> None:
    """Remove all objects of runs that are as recorded, except for those with a name in `kept`, and those in `obsolete`.

    Then notes are removed whose processes have ended. A process that is still alive may complete an upload later, and
    its note shows then that the object is ours.
    """
    records, notes = records_of_objects(workspace), list(_notes(workspace))
    others = {name: files for name, files in records.items() if name not in kept}
    if others or obsolete:
        infos = workspace.out.infos()  # type: ignore[union-attr]
        ours = [name for name in others if name in infos and is_as_recorded(workspace, name, infos[name], others[name])]
        workspace.found.remove([*obsolete, *ours])
    for path in notes:
        owner = owner_of(path)
        if owner.is_gone is True if owner is not None else f"~{_RETIRED}~" in path.name:
            path.unlink(missing_ok=True)
    for probe in _folder(workspace).glob(".*"):  # of a process that was killed while it listed the folder
        with contextlib.suppress(OSError):
            probe.rmdir()


def _folder(workspace: Workspace) -> Path:
    return workspace.ledger_file.with_name(NOTED)


def _notes(workspace: Workspace, unit: str = "") -> Iterator[Path]:
    """The notes of `unit`, or all; listed without caches, so that no note of another machine is missed."""
    folder = _folder(workspace)
    if folder.exists():
        refresh_listing(folder)
        names = [name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith(".")]
        yield from (folder / name for name in sorted(names) if not unit or name.startswith(f"{unit}~"))


def _documents(workspace: Workspace, unit: str = "") -> Iterator[Path]:
    """The documents of units of all runs, also of one of prepcli 0.3, which had them in `done/`."""
    root = workspace.ledger_file.parent
    for run in run_folders(root):
        with contextlib.suppress(FileNotFoundError):
            names = [unit] if unit else sorted(os.listdir(run / "units"))
            yield from (run / "units" / name / "unit.json" for name in names)
    yield from (path for path in sorted((root / "done").glob("*.json")) if unit in ("", path.stem))
