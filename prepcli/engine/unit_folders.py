"""A unit is a folder: made under `tmp/`, it appears by one rename, so it is done or it is not.

    <run>/units/<unit>/files/     the files that the commit moves to OUT
    <run>/units/<unit>/parts/     files for the final merge
    <run>/units/<unit>/rejects/   its rejects
    <run>/units/<unit>/unit.json  its counts, and the size and hash of each file

Making a unit twice is harmless: the second rename fails, and the bytes are the same.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from prepcli.engine.objects import retire
from prepcli.engine.publishing.output_files import HashedFile, OutputFile, PublishedFile
from prepcli.engine.publishing.publish import Marker, UnitWriter, close_all, read_marker
from prepcli.engine.ranks.drafts import drafts_of_others
from prepcli.engine.run.unit import Execution
from prepcli.engine.state.plan import FINISH_UNIT, Unit
from prepcli.engine.state.workspace import Workspace, flush_folders, write_json
from prepcli.processes.workers import no_interruption
from prepcli.storage.paths import AnyPath, StorePath

FILES = "files"
UNITS = "units"
DOCUMENT = "unit.json"


class FolderWriter(UnitWriter):
    """Writes the folder of a unit (see `UnitWriter` for its use)."""

    def __init__(self, workspace: Workspace, digest: str, unit: Unit, folder: Path | None = None) -> None:
        """`folder`: its folder in `tmp/`; None to make one."""
        super().__init__(workspace, digest, unit, folder)
        self._folders = {str(self.folder)}

    def _place(self, name: str) -> Path:
        """The path of a new file in the folder of the unit, whose parent is made.

        The folder of the unit itself is not made again: another rank removes it after the commit.
        """
        path = f"{self.folder}/{name}"
        missing, parent = [], os.path.dirname(path)
        while parent not in self._folders:
            missing.append(parent)
            parent = os.path.dirname(parent)
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)
            self._folders.add(folder)
        return Path(path)

    def open(self, name: str) -> OutputFile:
        """Open a new file that the commit will move to `OUT/name`."""
        with no_interruption():
            file = self._files[name] = HashedFile(self._place(f"{FILES}/{name}"))
        return file

    def open_part(self, name: str) -> HashedFile:
        """Open a new file for the final merge, or in the final merge a file that the commit moves to OUT.prepcli."""
        file = self._work_files[name] = HashedFile(self._place(name))
        return file

    def publish(self) -> Marker:
        """Flush the files to disk, write the document of the unit, and rename its folder; returns the document.

        Raises:
            AccountingError: the unit's records do not add up.
            OSError: the disk is full, a rename was refused, ...; the unit is not done then.
        """
        self.check_counts()
        for name, data in self._after.items():
            self.open(name).write(data)
        return self._appear(self.document(close_all(self._files), close_all(self._work_files)))

    def _appear(self, marker: Marker) -> Marker:
        """Write the document of the unit, and rename its folder; returns the document of the rank that was first."""
        flush_folders(Path(folder) for folder, _, _ in os.walk(self.folder) if folder != str(self.folder))
        write_json(self.folder / DOCUMENT, marker, folder=self.folder)
        target = self.workspace.run / UNITS / self.unit.id
        try:
            os.rename(self.folder, target)
        except OSError:
            done = read_marker(self.workspace, self.unit, self._digest, self.workspace.found)
            if done is not None:
                return done  # another rank was faster, with the same bytes
            forget(self.workspace, self.unit.id)  # files of it were lost
            os.rename(self.folder, target)
        flush_folders([target.parent])
        return marker


class FinishWriter(FolderWriter):
    """Writes the files that join what the units have made; finds these by name."""

    def __init__(self, workspace: Workspace, digest: str, markers: Sequence[Marker]) -> None:
        super().__init__(workspace, digest, FINISH_UNIT)
        self._markers = markers
        self._places: dict[str, str] = {}

    def part(self, name: str) -> Path:
        """The path of a file that a unit has made for the final merge.

        For a file that no unit has made, it is the path of a missing file, for a job that asks before it reads.
        """
        return self.workspace.part_file(self._unit_of(name), name)

    def made(self, name: str) -> AnyPath:
        """The path under which a file that a unit has made can be read now."""
        return self.workspace.made_file(self._unit_of(name), name)

    def _unit_of(self, name: str) -> str:
        if not self._places:
            for marker in self._markers:
                self._places.update(dict.fromkeys((*marker.files, *marker.work_files), marker.unit))
        return self._places.get(name, FINISH_UNIT.id)


@dataclass(frozen=True, slots=True)
class FolderExecution(Execution):
    """The environment in which units become folders.

    A unit is left out if another rank has made it meanwhile. If ranks help each other, it is also left out if another
    rank has begun it meanwhile: `drafts` are the temporary folders that were known when the units were chosen.
    """

    drafts: frozenset[str] | None = None
    begun: dict[str, Path] = field(default_factory=dict)
    writers: type[FolderWriter] = FolderWriter

    def is_left(self, unit: Unit) -> bool:
        """Whether the unit is to be made here."""
        if read_marker(self.workspace, unit, self.digest, self.workspace.found) is not None:
            return False
        return self.drafts is None or self.drafts.issuperset(drafts_of_others(self.workspace, unit.id))

    def claim(self, unit: Unit) -> bool:
        """Begin a unit, for other ranks to see; False if it is left out."""
        if not self.is_left(unit):
            return False
        if unit.id not in self.begun:
            self.begun[unit.id] = self.workspace.make_tmp(unit.id)
        return True

    def writer(self, unit: Unit) -> UnitWriter:
        """The writer of a unit."""
        return self.writers(self.workspace, self.digest, unit, self.begun.pop(unit.id, None))


@contextlib.contextmanager
def changing(workspace: Workspace, marker: Marker, files: Mapping[str, PublishedFile]) -> Iterator[None]:
    """Record that files of a finished unit are replaced in OUT within the context; `files` are their new records.

    Until the end of the context, the files count as ours in both states.
    """
    path, after = workspace.marker_file(marker.unit), {**marker.files, **files}
    earlier = {name: [marker.files[name], *marker.earlier.get(name, ())] for name in files}
    write_json(path, msgspec.structs.replace(marker, files=after, earlier=earlier))
    yield
    write_json(path, msgspec.structs.replace(marker, files=after, earlier={}))


def forget(workspace: Workspace, unit: str) -> None:
    """Take a unit of this run back: it is done again. Its objects in a store still count as ours."""
    if isinstance(workspace.out, StorePath):
        retire(workspace, unit)
    with contextlib.suppress(FileNotFoundError):
        gone = workspace.tmp / f"{unit}~{time.time_ns()}"
        os.rename(workspace.run / UNITS / unit, gone)
        shutil.rmtree(gone, ignore_errors=True)
