"""A run whose output is in a store: its objects have their final names at once, so only one run writes there at a time.

Measured on Swift: to copy staged objects at the commit takes as long as to upload them again if they are large, and
four times as long if they are small. So `owner.json` names the run that writes (`Ledger.begun`) before its first object
appears. Until that run is committed, another one is refused; `--overwrite` replaces it, and removes its objects first.
"""

import dataclasses
from collections.abc import Callable
from functools import partial

import msgspec

from prepcli.engine.commits import begin, change, committing, discard, read_ledger
from prepcli.engine.ledger import Commit
from prepcli.engine.object_writers import ObjectFinishWriter, ObjectWriter
from prepcli.engine.objects import is_as_recorded, records_of_objects
from prepcli.engine.publishing.publish import Marker
from prepcli.engine.ranks.progress import running_here
from prepcli.engine.run.report import Report
from prepcli.engine.run.starting import elsewhere, note_additions, note_other_files, refuse_to_lose_inputs
from prepcli.engine.run.unit import Execution
from prepcli.engine.runs import FolderRun, RunFolder
from prepcli.engine.state.stock import Stock, check_stock, run_in_words, tell_removal
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.workspace import read_document, write_json
from prepcli.errors import UsageError, option
from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.addresses import ObjectInfo
from prepcli.storage.paths import relative


class StoreRun(FolderRun):
    """One rank's run of a job whose output is in a store."""

    finish_writer = ObjectFinishWriter

    @property
    def execution_of(self) -> Callable[..., Execution]:
        """As in `FolderRun`."""
        return partial(Execution, drafts=self._drafts, writers=ObjectWriter)

    @property
    def _others(self) -> list[Commit]:
        """The runs whose objects are in the output: those that are committed, and the one that writes."""
        return [*self.ledger.commits, *([self.ledger.begun] if self.ledger.begun is not None else [])]

    def _choose(self) -> RunFolder | None:
        begun = self.ledger.begun
        if begun is not None and begun.digest != self.digest and not self.options.overwrite:
            self._refuse_other()
        return super()._choose()

    def _begin(self, folder: RunFolder) -> None:
        try:
            super()._begin(folder)
        except FileNotFoundError:  # a run that was committed meanwhile has taken our folder away
            self.ledger = read_ledger(self.workspace)
            self.workspace.enter_current()
            if not self.options.overwrite and any(commit.digest != self.digest for commit in self._others):
                self._refuse_other()
            raise
        if not self.workspace.is_begun:
            self._become_writer()
        self.workspace.writes = True
        self.workspace.found.list_store()  # for the workers, which are forked later

    def _check_output(self) -> None:
        """Check, before anything is written, that the objects in OUT are ours, and that no input is lost."""
        workspace, stock, others = self.workspace, self._stock(), self._others
        replaces = self.options.overwrite and bool(others)
        refuse_to_lose_inputs(self, stock if replaces else None)
        is_repaired = any(commit.digest == self.digest for commit in others)  # by objects of the same names
        if is_repaired:
            stock = dataclasses.replace(stock, mistakable=sorted({*stock.mistakable}.difference(stock.changed)))
        if replaces or stock.mistakable:
            workspace.refuse_holder()
        if replaces and self.options.rank.world_size == 1:
            self._refuse_running()
        if replaces or (stock.mistakable and not is_repaired):
            check_stock(stock, workspace, self.job)
        if not stock.ours and not others:
            note_other_files(self)

    def _refuse_running(self) -> None:
        """Raise `UsageError` if a process that is known to run on this machine makes units of the output."""
        other = running_here(self.workspace)
        if other is not None:
            raise UsageError(
                f"rank {other.rank} is at work on {self.workspace.named} (process {other.pid}), and "
                f"{option('--overwrite')} would take its files away; stop it first, or choose "
                f"{elsewhere(self.job, self.workspace)}"
            )

    def _stock(self) -> Stock:
        """The objects in OUT: ours, ours that were changed, and those that readers would take for a part of the set."""
        workspace, found = self.workspace, self.workspace.found
        ours: dict[str, None] = {}
        changed = []
        for name, records in records_of_objects(workspace).items():
            state = found.state(name)
            if isinstance(state, ObjectInfo) and is_as_recorded(workspace, name, state, records):
                ours |= dict.fromkeys((*self.job.made_of(found, name), name))
            elif state is not None:
                changed.append(name)
        parts = {relative(path, workspace.out) for path in found.matching(self.job.output_patterns(self.plan))}
        return Stock(list(ours), changed, sorted(parts.difference(ours)))

    def _become_writer(self) -> None:
        """Note in `owner.json` that this run writes objects; if it replaces other runs, remove their objects first.

        Raises:
            UsageError: another run has begun or finished meanwhile.
        """
        workspace, run = self.workspace, self.workspace.run
        with committing(workspace) as lock:
            self.ledger = read_ledger(workspace)
            if workspace.is_begun or self._is_committed():
                return  # by another rank
            writer = Commit(run.name, self.job.command, self.digest, self.part)
            others = self._others
            if others and (self.options.overwrite or self._plan_of_run().replaces):
                stock = self._stock()
                workspace.enter_current()
                tell_removal(stock, workspace, self.job, run_in_words(workspace))
                records = records_of_objects(workspace)
                change(workspace, (), lock, [name for name in stock.ours if name not in records], writer)
                workspace.enter(run)
                if self.options.rank.rank == 0 and workspace.root == workspace.main_root:
                    note_additions(workspace)
                workspace.found = OutputFiles(workspace.out)
            elif all(commit.digest == self.digest for commit in others):
                begin(workspace, writer, lock)
            else:
                workspace.enter_current()
                discard(workspace, run)
                self._refuse_other()
            self.ledger = read_ledger(workspace)

    def _commit(self) -> Report:
        """Join what the units have made, and note that the output is complete, unless another rank has done so."""
        workspace = self.workspace
        with committing(workspace) as lock:
            if self._is_committed():
                return self._report("done")
            workspace.check_claim()
            lost = self._lost()
            if lost:
                self.drop(lost)
                return self._report()
            report = self._finish()
            commit = Commit(workspace.run.name, self.job.command, self.digest, self.part)
            change(workspace, read_ledger(workspace).with_commit(commit), lock)
        return report

    def _lost(self) -> list[str]:
        """The units of which an object is missing, or has other content than their documents say.

        A listing may lag behind, so the store is asked again about an object that does not match. The store may have
        given another ETag to the same bytes, if two ranks have made the unit: the document gets that ETag.
        """
        infos, lost = self.workspace.out.infos(), []  # type: ignore[union-attr]
        for unit in self.markers:
            path, files = self.workspace.marker_file(unit), {}
            marker = read_document(path, Marker)
            if marker is None:
                lost.append(unit)
                continue
            for name, file in marker.files.items():
                if name not in infos or infos[name].etag != file.etag:
                    etag = self._etag_of(name, marker)
                    if etag is None:
                        lost.append(unit)
                        break
                    files[name] = msgspec.structs.replace(file, etag=etag)
            else:
                if any(marker.files[name] != file for name, file in files.items()):
                    write_json(path, msgspec.structs.replace(marker, files=marker.files | files))
        return lost

    def _etag_of(self, name: str, marker: Marker) -> str | None:
        """The current ETag of an object, if it has the content that the document of its unit says; else None."""
        try:
            info = call(client.object_info, str(self.workspace.out / name))
        except FileNotFoundError:
            return None
        records = [marker.files[name], *marker.earlier.get(name, ())]
        return info.etag if is_as_recorded(self.workspace, name, info, records) else None
