"""Refuses to replace a file of a data set by the output of another command."""

import contextlib
from pathlib import Path

from prepcli.engine.commits import files_of, read_ledger
from prepcli.engine.run.status import workspaces_of
from prepcli.engine.state.work_folder import work_folder
from prepcli.errors import UsageError, option
from prepcli.formats.tarred import METADATA_FILE, TarredSet


def refuse_file_of_set(flag: str, path: Path | None) -> None:
    """Raise `UsageError` if the output file of a flag exists and is part of a data set.

    A file is part of a set if a run has published it, or if it is the metadata of a tarred set, which NeMo's script
    writes too.
    """
    if path is None or not path.exists():
        return
    place = _set_with(path.resolve())
    if place is not None:
        raise UsageError(f"{option(flag, path)} would replace a file of the data set {place}; give another name")


def _set_with(file: Path) -> Path | None:
    """The output of the run that has published `file`, or the tarred set whose metadata it is; None if neither."""
    for place in (file, *file.parents):
        with contextlib.suppress(UsageError):  # the place cannot be an output, or is not one yet
            if work_folder(place).is_dir() and _is_published(file, place):
                return place
    is_metadata = METADATA_FILE.fullmatch(file.name) and not TarredSet(file.parent).is_empty
    return file.parent if is_metadata else None


def _is_published(file: Path, place: Path) -> bool:
    for workspace in workspaces_of(place):
        if file.is_relative_to(workspace.folder):
            files = files_of(workspace, read_ledger(workspace).commits)
            if str(file.relative_to(workspace.folder)) in files:
                return True
    return False
