"""The engine: plan, do this rank's units, and finish when no unit of any rank is missing."""

import contextlib
import os
import time
from pathlib import Path

from prepcli.engine.publishing.publish import AccountingError, Marker, UnitWriter, read_marker
from prepcli.engine.publishing.rejects import merge_rejects
from prepcli.engine.ranks.launch import clear_once, has_agreed, has_done, note_done, shares
from prepcli.engine.ranks.progress import is_running_elsewhere, note_late_rank
from prepcli.engine.ranks.stealing import Crew, remove_dead_claims
from prepcli.engine.run.failures import describe_failure
from prepcli.engine.run.job import AnyJob
from prepcli.engine.run.kept_inputs import check_inputs, refuse_to_lose_inputs
from prepcli.engine.run.report import Report, build_report, judge
from prepcli.engine.run.retry import retry_rejects
from prepcli.engine.run.share import RunOptions, load_markers, process_share
from prepcli.engine.run.starting import (
    check_restart,
    check_sample,
    note_other_files,
    plan_document,
    replace_failed,
)
from prepcli.engine.state.clearing import check_stock, clear, is_being_cleared, take_stock
from prepcli.engine.state.in_the_way import refuse_names_that_are_one
from prepcli.engine.state.plan import FINISH_UNIT, AnyPlan, StoredPlan, Unit, differences, plan_digest
from prepcli.engine.state.store_output import OutputSizes
from prepcli.engine.state.stored_units import has_units, write_units
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.errors import PrepcliError, UsageError, wrong_path
from prepcli.interface.calls import tell
from prepcli.processes.owner import heartbeat, list_anew
from prepcli.processes.signals import stop_on_signals
from prepcli.processes.workers import LIFELINE, TICK, exit_when_ready
from prepcli.storage.paths import absolute

__all__ = ["Run", "RunOptions", "run_job"]


class Run:
    """One rank's run of a job."""

    def __init__(self, job: AnyJob, workspace: Workspace, options: RunOptions, plan: AnyPlan | None = None) -> None:
        self.job = job
        self.workspace = workspace
        self.options = options
        workspace.rank, workspace.verify_inputs = options.rank, options.verify_inputs
        self._refuse_other_command()
        self.plan = job.plan(workspace) if plan is None else plan
        self.settings = job.settings(self.plan)
        self.digest = plan_digest(job.command, self.settings, self.plan)
        self.markers: dict[str, Marker] = {}

    def execute(self) -> Report:
        """Do the missing units of this rank's share.

        Raises:
            UsageError: the output directory belongs to other inputs or settings.
            IncompleteError: interrupted, or a worker was killed.
            OSError: the disk is full, ...
        """
        self._check_sample()
        self._claim_output()
        self._load_markers()
        self.job.check_done([unit for unit in self.plan.units if unit.id in self.markers], self.workspace)
        self._retry_rejects()
        if self._was_finished():
            note_late_rank(self.workspace, self.options.rank)
            with contextlib.suppress(OSError):  # a finished output may be read-only
                self.workspace.remove_stale_tmp()
                remove_dead_claims(self.workspace.root)
            return self._report("nothing_to_do")
        self.workspace.remove_stale_tmp()
        self._warn_if_running()
        rank = self.options.rank
        missing = [unit for unit in self.plan.units if unit.id not in self.markers]
        divided = shares(self.workspace, rank, self.plan.units, missing, self._is_done)
        own = [unit for unit in divided[rank.rank] if unit.id not in self.markers]
        takes_units = self.options.steal and rank.world_size > 1 and rank.launch_id is not None
        crew = Crew(self.workspace, rank, divided) if takes_units and self.job.claims_units else None
        with crew.at_work() if crew else contextlib.nullcontext():
            process_share(self.job, self.plan, self.workspace, self.digest, self.options, own, self.markers, crew)
            check_inputs(self.plan)
            load_markers(self.plan, self.workspace, self.digest, self.markers)  # what others have done meanwhile
            if len(self.markers) < len(self.plan.units):
                return self._report("incomplete")
            return self._finish_once(crew)

    def _check_sample(self) -> None:
        """Before anything is written, if there is something to do."""
        options = self.options
        if not options.overwrite:
            self._load_markers()
        if options.overwrite or options.retry_rejects or not self._was_finished():
            check_sample(self.job, self.plan, options.budget)

    def _claim_output(self) -> None:
        """Write the plan, or check that the one that is there is ours; with `--overwrite`, clear first."""
        workspace = self.workspace
        has_cleared = self._clear_if_asked()
        plan = read_document(workspace.plan_file, StoredPlan)
        if plan is not None and plan.digest != self.digest:
            plan = replace_failed(plan, self.job, self.plan, self.settings, workspace, self.options.rank)
            has_cleared |= plan is None
        if has_cleared:
            self.markers.clear()  # read before, with files that are gone now
        if plan is None:
            self._refuse_foreign()
            if not has_cleared:
                note_other_files(self.job, workspace)
            self.job.prepare()
            workspace.prepare()
            plan = workspace.claim(plan_document(self.job, self.plan, self.settings, self.digest, workspace))
        if plan is not None and plan.digest != self.digest:
            raise UsageError(self._made_differently(plan))
        workspace.prepare()
        if plan is not None and not has_units(workspace, plan):  # somebody has removed them
            write_units(workspace, self.digest, self.plan.units)
        workspace.hold(self.digest)
        workspace.found.list_store()

    def _clear_if_asked(self) -> bool:
        """Start again with `--overwrite`, or if that was interrupted; returns whether something was removed."""
        options, rank, workspace = self.options, self.options.rank, self.workspace
        is_asked = options.overwrite
        if is_asked and has_done(workspace, rank, "overwrite"):
            tell(f"requeued ({rank.restarts} times): continuing; --overwrite applied to the first start only")
            is_asked = False
        if not (is_asked or is_being_cleared(workspace, self.job.command)):
            refuse_to_lose_inputs(self.job, self.plan, workspace)
            return False
        if is_asked and rank.world_size > 1 and rank.launch_id is None:
            raise UsageError("--overwrite with several ranks needs --launch-id, the same for all of them")
        check_restart(self.job, self.plan, workspace, rank)
        if is_asked:
            self.job.prepare()
            workspace.prepare()
            clear_once(workspace, rank, self.job, self.plan)
        else:
            clear(workspace, self.job, self.plan)
        return True

    def _refuse_foreign(self) -> None:
        """Refuse to begin in an OUT with files of which there is no plan."""
        workspace = self.workspace
        stock = take_stock(workspace, self.job, self.plan)
        if not (stock.ours or stock.mistakable):
            return
        self._load_markers()  # of this very plan: without plan.json they still tell whose the output is
        if self.markers or read_document(workspace.plan_file, StoredPlan) is not None:  # somebody has just begun
            return
        workspace.refuse_holder()
        check_stock(stock, workspace, self.job)
        raise UsageError(
            f"{workspace.out} holds {len(stock.ours):,} file(s) of an earlier run, such as {stock.ours[0]}, but "
            f"{workspace.plan_file} is not there; choose {self._elsewhere()}, or give --overwrite to remove them"
        )

    def _refuse_other_command(self) -> None:
        """Before planning, which may take long and leaves an index among the records of the other command."""
        stored = None if self.options.overwrite else read_document(self.workspace.plan_file, StoredPlan)
        if stored is not None and stored.command != self.job.command:
            raise UsageError(
                f"{self.workspace.named} was made differently: by {stored.command}, not {self.job.command}. Choose "
                f"{self._elsewhere()}, or remove {self.workspace.named} and {self.workspace.root} first"
            )

    def _made_differently(self, plan: StoredPlan) -> str:
        return self._refusal(
            "; ".join(differences(plan, self.job.command, self.settings, self.plan, self.job.defaults))
        )

    def _refusal(self, what: str) -> str:
        elsewhere = self._elsewhere()
        if not self.options.overwrite:
            kept = self.job.kept_by_overwrite
            advice = f"Choose {elsewhere}, or give --overwrite to start again{kept and f' ({kept})'}"
        elif has_done(self.workspace, self.options.rank, "overwrite"):
            advice = f"Choose {elsewhere}, or start a new job, whose first start will clear this one"
        else:
            advice = (
                "Another command, or another rank of this launch, has just begun there: let that finish, choose "
                f"{elsewhere}, or start all ranks with the same options and a new --launch-id"
            )
        return f"{self.workspace.named} was made differently: {what}. {advice}"

    def _elsewhere(self) -> str:
        is_file = self.workspace.named != self.workspace.out
        return self.job.elsewhere or ("another file" if is_file else "another directory")

    def _retry_rejects(self) -> None:
        rank = self.options.rank
        if self.options.retry_rejects and has_done(self.workspace, rank, "retry"):
            tell(f"requeued ({rank.restarts} times): continuing; --retry-rejects applied to the first start only")
            self.markers.clear()  # another rank of this start may just have taken some away
            self._load_markers()
        elif self.options.retry_rejects:
            list_anew(self.workspace.done)  # what is listed late would not be tried again
            self._load_markers()
            retry_rejects(self.workspace, rank, self.markers, lambda: has_agreed(self.workspace, rank))
            note_done(self.workspace, rank, "retry")
            self._load_markers()

    def _load_markers(self) -> None:
        load_markers(self.plan, self.workspace, self.digest, self.markers, listed=True)

    def _is_done(self, unit: Unit) -> bool:
        """Whether a unit is done, even if its marker is not listed yet."""
        marker = read_marker(self.workspace, unit, self.digest)
        if marker is not None:
            self.markers[unit.id] = marker
        return marker is not None

    def _was_finished(self) -> bool:
        """Whether the output was whole when this run began."""
        return self._is_finished(self.workspace.found)

    def _is_finished(self, sizes: OutputSizes | None = None) -> bool:
        if len(self.markers) < len(self.plan.units):
            return False
        report = read_document(self.workspace.report_file, Report)
        merged = read_marker(self.workspace, FINISH_UNIT, self.digest, sizes)
        return report is not None and report.digest == self.digest and merged is not None

    def _warn_if_running(self) -> None:
        other = is_running_elsewhere(self.workspace, self.options.rank)
        if other is not None:
            tell(
                f"note: rank {other.rank} seems to be running already (process {other.pid} on {other.host}); "
                "both do the same work, and the output stays correct"
            )

    def _finish_once(self, crew: Crew | None) -> Report:
        """Finish, or wait for the rank of this launch that does."""
        if crew is None:
            return self._finish()
        while not (crew.claims.take(FINISH_UNIT.id) or self._is_finished()):
            time.sleep(TICK)
        if self._is_finished():
            report = self._report("nothing_to_do")
            report.status = "done" if report.status == "nothing_to_do" else report.status
            return report
        report = self._finish()
        crew.disband()
        return report

    def _finish(self) -> Report:
        """Merge what the units left; done by whoever sees the last marker, and harmless when done twice."""
        markers = [self.markers[unit.id] for unit in self.plan.units]
        refuse_names_that_are_one(self.workspace.out, (name for marker in markers for name in marker.files))
        report = self._report("done")
        with heartbeat(self.workspace.beat), UnitWriter(self.workspace, self.digest, FINISH_UNIT) as writer:
            found = self.job.finish(self.plan, markers, writer)
            report.outputs = {name: absolute(path) for name, path in found.items() if isinstance(path, Path)}
            report.details = found | report.outputs
            reject_files = [
                self.workspace.root / name
                for marker in markers
                for name in marker.work_files
                if name.startswith("rejects/")
            ]
            merged = writer.open_part(self.workspace.rejects_file.name)
            listed = 0
            for line in merge_rejects(
                self.job.planned_rejects(self.plan), reject_files, [file.path for file in self.plan.inputs]
            ):
                merged.write(line)
                listed += 1
            if listed != report.rejects:
                raise AccountingError(f"{report.rejects} records were rejected, but {listed} are listed")
            final = writer.publish()
            report.num_bytes += sum(file.num_bytes for file in final.files.values())
            judge(report, self.options.budget)
            self.workspace.check_claim()
            self.workspace.flush([self.workspace.done / f"{FINISH_UNIT.id}.json"])  # and all other markers
            write_json(self.workspace.report_file, report, folder=writer.folder)
        self.workspace.remove_stale_tmp()
        return report

    def _report(self, status: str) -> Report:
        job, workspace = self.job, self.workspace
        report = build_report(job.command, str(workspace.named), self.digest, self.plan, self.markers, job.telemetry)
        report.rejects_filepath = absolute(workspace.rejects_file)
        stored = read_document(workspace.report_file, Report) if status == "nothing_to_do" else None
        if stored is not None:
            report.status = status
            report.details, report.outputs = stored.details, stored.outputs
            report.num_bytes = stored.num_bytes
        judge(report, self.options.budget)
        if stored is not None and report.max_rejects != stored.max_rejects:  # `status` tells what was asked last
            stored.max_rejects = report.max_rejects
            stored.status = "done" if report.status == status else report.status
            with contextlib.suppress(OSError):  # a finished output may be read-only
                write_json(workspace.report_file, stored)
        return report


def run_job(job: AnyJob, workspace: Workspace, options: RunOptions, plan: AnyPlan | None = None) -> Report:
    """Run `job` as the rank in `options`; see `Run.execute` for what is raised.

    `plan` is the job's plan where it has been made already.

    An exception that is not a `PrepcliError` is a bug or a fault of the machine: its traceback is kept in
    `OUT.prepcli/traceback_<rank>.txt`, and the run can be continued.
    """
    lifeline = os.environ.get(LIFELINE)
    if lifeline:
        exit_when_ready(int(lifeline))
    with stop_on_signals():
        try:
            return _planned(job, workspace, options, plan).execute()
        except BaseException as error:
            with contextlib.suppress(OSError):
                workspace.remove_own_tmp()
                workspace.remove_stale_tmp()
            if isinstance(error, PrepcliError) or not isinstance(error, Exception):
                raise
            workspace.check_claim()  # a file may be missing because another command has cleared the directory
            raise PrepcliError(describe_failure(error, workspace, options.rank)) from error


def _planned(job: AnyJob, workspace: Workspace, options: RunOptions, plan: AnyPlan | None) -> Run:
    """The run with its plan; raises `UsageError` for a folder or a file that cannot be read."""
    try:
        return Run(job, workspace, options, plan)
    except OSError as error:
        raise wrong_path(error) or error from None
