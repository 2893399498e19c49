"""A run whose units are folders: makes what is missing of its share, helps other ranks, and commits when all is done.

Ranks divide all units by greedy bin packing, the same list in every rank. A rank that is through with its share makes
the units that are still missing as well (speculative execution): a unit appears by one rename, so no rank waits for
another, and none needs to know whether another is alive.
"""

import contextlib
import dataclasses
import hashlib
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from prepcli.engine.commits import change, check, committing, files_of, read_ledger, recover
from prepcli.engine.ledger import Commit, Ledger, part_of
from prepcli.engine.publishing.publish import AccountingError, FinishWriter, Marker, forget, read_marker
from prepcli.engine.publishing.recorded import is_ours
from prepcli.engine.publishing.rejects import first_if_all_alike, joined_rejects, num_lines, num_retryable
from prepcli.engine.ranks.drafts import drafts_of_others, from_the_ends, units_to_help_with
from prepcli.engine.ranks.progress import RankProgress, new_progress, note_late_rank, progress_file, remove_stale_tmp
from prepcli.engine.ranks.stages import preparing
from prepcli.engine.run.job import AnyJob, RunOptions
from prepcli.engine.run.report import Report, build_report, paths_in, set_verdict
from prepcli.engine.run.share import at_work, do_share
from prepcli.engine.run.starting import (
    check_inputs,
    check_sample,
    elsewhere,
    made_differently,
    note_additions,
    note_other_files,
    plan_document,
    refuse_other_command,
    refuse_other_file_systems,
    refuse_to_lose_inputs,
    warn_if_running,
)
from prepcli.engine.run.unit import Execution
from prepcli.engine.state.in_the_way import refuse_directories
from prepcli.engine.state.plan import FINISH_UNIT, AnyPlan, StoredPlan, Unit, pack, plan_digest
from prepcli.engine.state.stock import Stock, check_stock, run_in_words, tell_removal
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.stored_units import has_units, write_units
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.errors import PrepcliError, UsageError, option, same_command, wrong_path
from prepcli.interface.calls import tell
from prepcli.storage.paths import absolute, relative


class RunFolder(NamedTuple):
    """The folder of a run, and what it keeps of an earlier one: the folder of that run, and the units to do again."""

    path: Path
    base: str = ""
    again: Sequence[str] = ()


def _is_begun(folder: RunFolder) -> bool:
    return (folder.path / "plan.json").exists()


class FolderRun:
    """One rank's run of a job.

    Attributes:
        markers: by id, the documents of the units that are known to be done, by this rank or others.
    """

    finish_writer: type[FinishWriter] = FinishWriter

    def __init__(self, job: AnyJob, workspace: Workspace, options: RunOptions) -> None:
        self.job, self.workspace, self.options = job, workspace, options
        workspace.rank, workspace.verify_inputs = options.rank, options.verify_inputs
        workspace.reads_again = options.verify_inputs or options.overwrite or options.retry_rejects
        self.part = part_of(workspace.root)
        recover(workspace)
        self.ledger = read_ledger(workspace)
        workspace.enter_current()  # another rank may have begun or ended the run since the workspace was made
        workspace.may_replace = bool(self.ledger.commits)
        try:
            refuse_other_command(job, workspace, options)
            self.plan: AnyPlan = job.plan(workspace)
            self.settings: dict[str, Any] = job.settings(self.plan)
            self.built_on = self._base_digest()
            self.digest = plan_digest(job.command, self.settings, self.plan)
        except OSError as error:  # a folder or a file that cannot be read
            raise wrong_path(error) or error from None
        self.markers: dict[str, Marker] = {}
        self._own: list[Unit] = []
        self._drafts: frozenset[str] | None = None

    def _base_digest(self) -> str:
        """The digest of the commit on which an addition builds; empty for other runs."""
        if not self.part:
            return ""
        if self.committed is None:
            return self.ledger.commits[-1].digest if self.ledger.commits else ""
        stored = read_document(self.workspace.plan_file, StoredPlan)
        return stored.built_on if stored is not None else ""

    @property
    def committed(self) -> Commit | None:
        """The commit of the output, or of this part of it; None if there is none."""
        return self.ledger.of_part(self.part)

    def execute(self) -> Report:
        """Make the missing units of this rank's share, then those of other ranks; commit if all are done.

        Returns the report.
        """
        folder = self._choose()
        if folder is None:
            note_late_rank(self.workspace, self.options.rank)
            self._tidy()
            return self._report("nothing_to_do")
        check_sample(self.job, self.plan, self.options.budget)
        self._begin(folder)
        rank, workspace = self.options.rank, self.workspace
        warn_if_running(self)
        lost = self.load_markers(listed=True)
        self.job.check_done([unit for unit in self.plan.units if unit.id in self.markers], workspace)
        remove_stale_tmp(workspace)
        self._own = [unit for unit in pack(self.plan.units, rank.world_size)[rank.rank] if unit.id not in self.markers]
        for unit in self._own:  # a file may also have been on its way to OUT, in a commit
            if unit.id in lost and read_marker(workspace, unit, self.digest) is None:
                forget(workspace, unit.id)
        self._drafts = frozenset(drafts_of_others(workspace)) if self._helps else None
        with at_work(self, self._own) as progress:
            try:
                do_share(self, self._own, progress)
                check_inputs(self.plan)
                self.load_markers()
            except Exception:
                if self._is_committed():  # another rank finishes the run, and has removed our drafts
                    return self._report("done")
                raise
            return self._commit() if len(self.markers) == len(self.plan.units) else self._report()

    def load_markers(self, listed: bool = False) -> set[str]:
        """Add to `markers` the documents of units that are done, by this rank or others.

        Args:
            listed: open only those in a listing of the units, which is faster. After the work it would not do, because
                a network file system may list the units of other ranks late.

        Returns:
            The ids of units in that listing of which a file was lost.
        """
        workspace = self.workspace
        paths = workspace.marker_files() if listed else []
        there = {path.parent.name if workspace.has_unit_folders else path.stem for path in paths} if listed else None
        found = workspace.found if listed else OutputFiles(workspace.out)
        for unit in self.plan.units:
            if unit.id not in self.markers and (there is None or unit.id in there):
                marker = read_marker(workspace, unit, self.digest, found)
                if marker is not None:
                    self.markers[unit.id] = marker.slim()
        return set(there or ()).difference(self.markers)

    def drop(self, units: Iterable[str]) -> None:
        """Take some units back: they are done again."""
        for unit in units:
            self.markers.pop(unit, None)
            forget(self.workspace, unit)

    @property
    def _helps(self) -> bool:
        rank = self.options.rank
        return self.options.steal and rank.world_size > 1 and rank.launch_id is not None and self.job.ranks_help

    @property
    def execution_of(self) -> Callable[..., Execution]:
        """Makes the environment of the units that this rank makes next."""
        return partial(Execution, drafts=self._drafts)

    def are_done(self, units: Sequence[Unit]) -> bool:
        """Whether ranks help each other, and all of `units` are done."""
        known, document = self.markers, self.workspace.marker_file
        return self._helps and all(unit.id in known or document(unit.id).exists() for unit in units)

    def units_of_others(self) -> list[Unit]:
        """The units that this rank makes next, when its share is done, in the order to make them.

        Few are made twice: each rank begins elsewhere (`from_the_ends`), and units that others are making come last
        (`units_to_help_with`).
        """
        rank = self.options.rank
        if not self._helps:
            return []
        self.load_markers()
        shares = pack(self.plan.units, rank.world_size)
        left = [[unit for unit in share if unit.id not in self.markers] for share in shares]
        drafts = drafts_of_others(self.workspace)
        self._drafts = frozenset(drafts)
        return units_to_help_with(self.workspace, from_the_ends(left, rank.rank), drafts)

    def _choose(self) -> RunFolder | None:
        """The folder of this run; None if the output is complete and nothing is to be done again.

        Raises:
            UsageError: the output was made in another way, or several ranks start again without a launch id.
        """
        root, name = self.workspace.ledger_file.parent, self.digest[:16]
        if self.built_on:
            name = hashlib.sha256(f"{self.digest} {self.built_on}".encode()).hexdigest()[:16]
        committed, options = self.committed, self.options
        is_same = committed is not None and committed.digest == self.digest
        begun = [run for run in self.workspace.unfinished_runs() if self._is_of_plan(run)]
        generation = self._generation()
        if generation is not None and committed is not None and committed.folder == f"{name}.{generation}":
            if options.rank.world_size == 1 and not options.rank.restarts:  # the second command of a job
                generation += f".{uuid.uuid4().hex[:8]}"
            else:  # other ranks of the launch, or an earlier start, have made it
                self._note_used_launch()
                generation, begun = None, []
        if generation is not None:
            run = root / f"{name}.{generation}"
            if options.overwrite or run in begun:
                return RunFolder(run)
            before = begun[0] if begun else root / committed.folder if committed and is_same else None
            if before is None:
                if committed is not None:
                    self._refuse_other()
                return RunFolder(root / name)  # there are no rejects to try again
            again = self._with_retryable(before)
            if again or before in begun:
                base = before.name if self.workspace.has_unit_folders else ""  # parts of 0.3 are not kept
                return RunFolder(run, base, again) if again else RunFolder(before)
            return None
        if begun:
            return RunFolder(begun[0])
        if not is_same:
            if committed is not None:
                self._refuse_other()
            return RunFolder(root / name)
        self.load_markers(listed=True)
        self.job.check_done([unit for unit in self.plan.units if unit.id in self.markers], self.workspace)
        missing = [unit.id for unit in self.plan.units if unit.id not in self.markers]
        if not missing and self._is_complete():
            return None
        self.markers.clear()
        assert committed is not None
        repaired = hashlib.sha256("\n".join([committed.folder, *missing]).encode()).hexdigest()[:8]
        base = committed.folder if self.workspace.has_unit_folders else ""
        return RunFolder(root / f"{name}.{repaired}", base, missing)

    def _generation(self) -> str | None:
        """The name of a new generation, the same in all ranks of a launch and all its starts; None to continue."""
        rank, options = self.options.rank, self.options
        if not (options.overwrite or options.retry_rejects):
            return None
        name = option("--overwrite") if options.overwrite else option("--retry-rejects")
        if rank.restarts:
            tell(f"requeued ({rank.restarts} times): continuing; {name} applied to the first start only")
            return rank.job_id
        if rank.world_size > 1 and rank.launch_id is None:
            raise UsageError(f"{name} with several ranks needs {option('--launch-id')}, the same for all of them")
        return rank.job_id or rank.launch_id or uuid.uuid4().hex[:8]

    def _note_used_launch(self) -> None:
        """Print a note if this rank has taken part in the launch before, so that it was meant to start again."""
        rank = self.options.rank
        progress = read_document(progress_file(self.workspace, rank.rank), RankProgress)
        if progress is not None and progress.launch_id == rank.launch_id and not rank.restarts:
            tell(
                f"note: the launch {rank.launch_id} has made {self.workspace.named} already; give a new "
                f"{option('--launch-id')} to start again"
            )

    def _is_of_plan(self, run: Path) -> bool:
        """Whether this run may continue an unfinished one, which is of the same plan.

        One that would replace an output of other settings may be continued only if `--overwrite` has begun it.
        """
        plan, committed = read_document(run / "plan.json", StoredPlan), self.committed
        if plan is None or (plan.digest, plan.built_on) != (self.digest, self.built_on):
            return False
        return committed is None or committed.digest == self.digest or plan.replaces == committed.folder

    def _with_retryable(self, run: Path) -> list[str]:
        """The units of an earlier run, finished or not, with rejects that are tried again."""
        self.workspace.enter(run)
        self.load_markers(listed=True)
        return [unit for unit, marker in self.markers.items() if num_retryable(marker.rejects)]

    def _refuse_other(self) -> None:
        check_sample(self.job, self.plan, self.options.budget)  # missing audio may be why the settings are others
        refuse_to_lose_inputs(self)
        stored = read_document(self.workspace.plan_file, StoredPlan)
        if stored is not None:
            raise UsageError(made_differently(self, stored))
        raise UsageError(
            f"{self.workspace.named} was made differently, and {self.workspace.plan_file}, which would tell how, is "
            f"not there; choose {elsewhere(self.job, self.workspace)}, or give {option('--overwrite')} to start again"
        )

    def _tidy(self) -> None:
        """Write the plan and the units of a finished run again if they were lost, and remove what ranks have left."""
        workspace = self.workspace
        with contextlib.suppress(OSError, PrepcliError):  # a finished output may be read-only
            remove_stale_tmp(workspace)
            stored = read_document(workspace.plan_file, StoredPlan)
            if stored is None or stored.digest != self.digest:
                plan = plan_document(self)
                plan.part, plan.built_on = self.part, self.built_on
                write_json(workspace.plan_file, plan)
            elif not has_units(workspace, stored):
                write_units(workspace, self.digest, self.plan.units)

    def _begin(self, folder: RunFolder) -> None:
        """Make the folder of the run and its plan, unless another rank or an earlier start has made them.

        Raises:
            UsageError: OUT has files of others, an input would be lost, or OUT cannot be written.
        """
        workspace = self.workspace
        self.markers.clear()
        if not _is_begun(folder) and self._may_begin(folder):
            with preparing(workspace, self.job.preparing):
                self.job.prepare(self.plan)
            workspace.enter(folder.path)
            workspace.prepare()
            refuse_other_file_systems(self)
            plan = plan_document(self)
            plan.part, plan.built_on, plan.base, plan.again = self.part, self.built_on, folder.base, [*folder.again]
            plan.replaces = self.committed.folder if self.options.overwrite and self.committed else ""
            own = new_progress(self.options.rank, workspace.owner)  # for `status`, which has a plan to show from now on
            write_json(progress_file(workspace, own.rank), own, durable=False)
            workspace.write_once(workspace.plan_file, plan, StoredPlan)
            workspace.flush([workspace.plan_file])  # without the names of its folders, all units would be lost
        workspace.enter(folder.path)
        workspace.prepare()
        stored = read_document(workspace.plan_file, StoredPlan)
        if stored is not None and not has_units(workspace, stored):
            write_units(workspace, self.digest, self.plan.units)

    def _may_begin(self, folder: RunFolder) -> bool:
        """Check the output; False if another rank, which has checked it too, has begun or even ended the run meanwhile.

        Then the files in OUT may be those of this run, which the ledger did not have when this rank read it.
        """
        try:
            self._check_output()
        except UsageError:
            if _is_begun(folder):
                return False
            raise
        return True

    def _check_output(self) -> None:
        """Check, before anything is written, that the files in OUT are ours, and that no input is lost."""
        workspace, job = self.workspace, self.job
        stock, committed = self._stock(), self.committed
        replaces = self.options.overwrite and committed is not None
        refuse_to_lose_inputs(self, stock if replaces else None)
        refuse_directories(*(workspace.folder / name for name in stock.changed))
        is_repaired = committed is not None and committed.digest == self.digest  # by files of the same names
        if is_repaired:
            stock = dataclasses.replace(stock, mistakable=sorted({*stock.mistakable}.difference(stock.changed)))
        if replaces or (stock.mistakable and not is_repaired):
            check_stock(stock, workspace, job)
        if not stock.ours and committed is None:
            note_other_files(self)

    def _stock(self) -> Stock:
        """The files in OUT: ours, ours that were changed, and those that readers would take for a part of the set."""
        workspace, found = self.workspace, OutputFiles(self.workspace.out)
        files = files_of(workspace, self.ledger.commits)
        ours: dict[str, None] = {}
        changed = []
        for name, records in files.items():
            path = workspace.folder / name
            if is_ours(path, records):
                ours |= dict.fromkeys((*self.job.made_of(found, name), name))
            elif os.path.lexists(path):
                changed.append(name)
        parts = {relative(path, workspace.out) for path in found.matching(self.job.output_patterns(self.plan))}
        return Stock(list(ours), changed, sorted(parts.difference(ours)))

    def _is_committed(self) -> bool:
        with contextlib.suppress(OSError, PrepcliError):
            ledger = self.workspace.ledger()
            commits = ledger.pending.commits if ledger.pending is not None else ledger.commits
            return (self.part, self.workspace.run.name) in {(commit.part, commit.folder) for commit in commits}
        return False

    def _is_complete(self) -> bool:
        report = read_document(self.workspace.report_file, Report)
        merged = read_marker(self.workspace, FINISH_UNIT, self.digest, self.workspace.found)
        return report is not None and report.digest == self.digest and merged is not None

    def _commit(self) -> Report:
        """Join what the units have made, and move all files to OUT, unless another rank has done so."""
        workspace = self.workspace
        with committing(workspace) as lock:
            ledger = read_ledger(workspace)
            if self._is_committed():
                return self._report("done")
            self._check_ledger(ledger)
            report = self._finish()
            commit = Commit(workspace.run.name, self.job.command, self.digest, self.part)
            check(workspace, commit, ledger)
            obsolete = []
            if ledger.of_part(self.part) is not None and (self.options.overwrite or self._plan_of_run().replaces):
                stock = self._stock()
                tell_removal(stock, workspace, self.job, run_in_words(workspace))
                if workspace.root == workspace.main_root:
                    note_additions(workspace)
                files = files_of(workspace, ledger.commits)
                obsolete = [name for name in stock.ours if name not in files]
            change(workspace, ledger.with_commit(commit), lock, obsolete)
        return report

    def _check_ledger(self, ledger: Ledger) -> None:
        """Check, with the lock, that the output is as it was when this run began.

        Raises:
            UsageError: another run has made or changed it meanwhile. The units are kept.
        """
        plan = self._plan_of_run()
        now, before = ledger.of_part(self.part), self.committed
        others = ledger.commits[: ledger.commits.index(now)] if now is not None else ledger.commits
        if self.part and (not others or others[-1].digest != self.built_on) and self.built_on:
            raise UsageError(
                f"{self.workspace.named} was changed by another run meanwhile; run {same_command()} again to add to it "
                "as it is now"
            )
        if now != before and now is not None and now.digest != self.digest:
            raise UsageError(
                f"{self.workspace.named} was made by another run of {now.command} meanwhile: choose another output, or "
                f"give {option('--overwrite')}"
            )
        if now != before and plan.base:
            self.markers.clear()
            self.load_markers()
            if len(self.markers) < len(self.plan.units):  # units that this run has kept went with the run before
                raise UsageError(
                    f"{self.workspace.named} was made again by another run meanwhile; run {same_command()} again"
                )

    def _plan_of_run(self) -> StoredPlan:
        plan = read_document(self.workspace.plan_file, StoredPlan)
        if plan is None:
            raise PrepcliError(f"{self.workspace.run} was removed during this run, which has stopped")
        return plan

    def _finish(self) -> Report:
        """Make the unit of the final merge; returns the report."""
        workspace, plan = self.workspace, self.plan
        markers = [self.markers[unit.id] for unit in plan.units]
        forget(workspace, FINISH_UNIT.id)
        report = self._report()
        with self.finish_writer(workspace, self.digest, markers) as writer:
            facts = self.job.finish(plan, markers, writer)
            report.outputs = paths_in(facts)
            report.details = facts | report.outputs
            merged = writer.open_part(workspace.rejects_file.name)
            listed = 0
            names = ((one.unit, name) for one in markers for name in one.work_files if name.startswith("rejects/"))
            files = [workspace.part_file(unit, name) for unit, name in names]
            planned = None if self.job.rejects_in_order else self.plan.reject_lines()
            for block in joined_rejects(planned, files, [one.path for one in self.plan.inputs]):
                merged.write(block)
                listed += num_lines(block)
            if listed != report.rejects:
                raise AccountingError(f"{report.rejects} records were rejected, but {listed} are listed")
            merged.release()
            report.num_bytes += writer.num_bytes
            set_verdict(report, self.options.budget, self.settings, self.plan.planned_rejects)
            draft = str(writer.folder / workspace.rejects_file.name)
            report.rejects_alike = first_if_all_alike(report.rejects_by_reason, draft, report.command)
            writer.open_part(workspace.report_file.name).write(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
            writer.publish()
        return report

    def _report(self, finished: str = "") -> Report:
        """The report of the run as it is now; `finished`: its status if another rank or start has finished it."""
        workspace, job = self.workspace, self.job
        if finished:
            self.load_markers()
        report = build_report(job.command, str(workspace.named), self.digest, self.plan, self.markers, job.telemetry)
        report.rejects_filepath = absolute(workspace.rejects_file)
        stored = read_document(workspace.report_file, Report) if finished else None
        if stored is not None:
            report.status = finished
            report.details, report.outputs, report.num_bytes = stored.details, stored.outputs, stored.num_bytes
        set_verdict(report, self.options.budget, self.settings, self.plan.planned_rejects)
        if stored is not None and report.max_rejects != stored.max_rejects:  # `status` shows the value of the last run
            stored.max_rejects = report.max_rejects
            stored.status = "done" if report.status == finished else report.status
            with contextlib.suppress(OSError):  # a finished output may be read-only
                write_json(workspace.report_file, stored)
        return report
