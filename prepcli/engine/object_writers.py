"""Writers of units whose files are objects in a store: these have their final names at once, and count by the commit.

The folder of the unit holds what else it makes: its document, its rejects, and its parts for the final merge.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from prepcli.engine.objects import is_as_recorded, note, records_of_objects
from prepcli.engine.publishing.output_files import OutputFile, PublishedFile, UploadedFile
from prepcli.engine.publishing.publish import FinishWriter, Marker, UnitWriter, close_all, read_marker
from prepcli.engine.publishing.recorded import is_as_published, set_aside, stranger
from prepcli.errors import PrepcliError
from prepcli.processes.workers import is_worker, no_interruption
from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.addresses import ObjectInfo
from prepcli.storage.paths import StorePath

OBJECTS_AT_ONCE = 8
"""Number of objects of a unit that are sent to a store, or completed there, at the same time."""


class ObjectWriter(UnitWriter):
    """Writes the objects and the folder of a unit (see `UnitWriter` for its use)."""

    def open(self, name: str) -> OutputFile:
        """Open a new object `OUT/name`, which appears when the unit is published."""
        with no_interruption():
            file = self._files[name] = UploadedFile(str(self.workspace.out / name))
        return file

    def publish(self) -> Marker:
        """Make the objects appear, and then the folder of the unit; returns the document of the unit.

        Raises:
            AccountingError: the unit's records do not add up.
            UsageError: an object of others, or one of ours that was changed, is in the way.
            StoreError: the store does not answer; the unit is not done then.
            PrepcliError: another run has begun to write to OUT, or the claim on OUT was removed.
        """
        self.check_counts()
        for name, data in self._after.items():
            self.open(name).write(data)
        done = self._done_by_another()
        if done is not None:
            return done
        files = close_all(self._files)
        self.workspace.check_claim()
        self._check_names(files)
        noted = note(self.workspace, self.unit.id, files) if files else None
        files = self._put_all(files)
        if noted is not None:
            try:
                self.workspace.check_claim()
            except PrepcliError:
                self._take_back(files)
                noted.unlink(missing_ok=True)
                raise
        # After the commit, the folder of a rank that was slower is gone.
        marker = self._done_by_another() or self._appear(self.document(files, close_all(self._work_files)))
        if noted is not None:
            noted.unlink(missing_ok=True)
        return marker

    def _done_by_another(self) -> Marker | None:
        """The document of the unit, if another rank was faster, with the same bytes."""
        return read_marker(self.workspace, self.unit, self._digest, self.workspace.found)

    def _check_names(self, files: Mapping[str, PublishedFile]) -> None:
        """Check that no object is replaced but ours, as we have written it, or one with the same content."""
        workspace = self.workspace
        states = {name: state for name in files if (state := workspace.found.state(name)) is not None}
        records = records_of_objects(workspace, self.unit.id) if states else {}
        if not states.keys() <= records.keys():
            records = records_of_objects(workspace)
        for name, state in states.items():
            assert isinstance(state, ObjectInfo)
            if is_as_recorded(workspace, name, state, [*records.get(name, ()), files[name]]):
                continue
            if name in records:
                set_aside(workspace, workspace.out / name, name)
            raise stranger(workspace.out / name, workspace.root)

    def _put_all(self, files: Mapping[str, PublishedFile]) -> dict[str, PublishedFile]:
        """Make the objects appear: the one that was opened last, by which readers find the others, after these.

        Objects that describe others (`add_after`) follow; those of an earlier run are removed first, because they do
        not describe the new ones. Returns the records of all objects, with their ETags.
        """
        names, after = [name for name in files if name not in self._after], list(self._after)
        self.workspace.found.remove([name for name in after if self.workspace.found.state(name) is not None])
        etags = {name: tag for group in (names[:-1], names[-1:], after) for name, tag in self._put(group)}
        return {name: msgspec.structs.replace(file, etag=etags[name]) for name, file in files.items()}

    def _put(self, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Make objects appear, in a worker several at a time; yields the name and the ETag of each."""
        if len(names) < 2 or not is_worker():
            yield from ((name, self._files[name].publish()) for name in names)
            return
        with ThreadPoolExecutor(min(len(names), OBJECTS_AT_ONCE)) as pool:
            yield from zip(names, pool.map(lambda name: self._files[name].publish(), names), strict=True)

    def _take_back(self, files: Mapping[str, PublishedFile]) -> None:
        """Remove the objects that this process has just written, because another run has begun to write to OUT.

        Its own objects have other ETags and stay. A run of the same plan writes the same bytes: all stay then.
        """
        ledger = self.workspace.ledger()
        commits = ledger.pending.commits if ledger.pending is not None else ledger.commits
        if any(commit is not None and commit.digest == self._digest for commit in (*commits, ledger.writer)):
            return
        for name, file in files.items():
            path = self.workspace.out / name
            assert isinstance(path, StorePath)
            with contextlib.suppress(OSError):
                if is_as_published(call(client.object_info, str(path)), [file]):
                    path.unlink()


class ObjectFinishWriter(FinishWriter, ObjectWriter):
    """Writes the objects that join what the units have made; finds these by name."""
