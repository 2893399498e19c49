"""The engine: plan, do this rank's units, and finish when no unit of any rank is missing."""

import contextlib
import os
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prepcli.calls import command_line, tell
from prepcli.engine.job import Execution, Job
from prepcli.engine.launch import clear_once, shares
from prepcli.engine.plan import Plan, Unit, plan_digest
from prepcli.engine.progress import Reporter, SharedCounter, is_running_elsewhere, new_progress
from prepcli.engine.publish import AccountingError, Marker, UnitWriter, read_marker
from prepcli.engine.ranks import Rank
from prepcli.engine.rejects import Budget, merge_rejects
from prepcli.engine.report import Report, build_report
from prepcli.engine.signals import InterruptedBySignal, stop_on_signals
from prepcli.engine.workspace import Workspace, read_json, write_json
from prepcli.errors import PrepcliError, UsageError
from prepcli.processes import LIFELINE, exit_when_ready, worker_context

FINISH_UNIT = "finish"
"""Id of the unit under which the finishing merge publishes its files."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What every job may be told, beside the job's own settings. None of it shapes the output."""

    rank: Rank = field(default_factory=Rank)
    num_workers: int = 1
    overwrite: bool = False
    budget: Budget = field(default_factory=Budget)


class Run:
    """One rank's run of a job."""

    def __init__(self, job: Job, workspace: Workspace, options: RunOptions) -> None:
        self.job = job
        self.workspace = workspace
        self.options = options
        self.plan: Plan = job.plan()
        self.settings = job.settings()
        self.digest = plan_digest(job.command, self.settings, self.plan)
        self.markers: dict[str, Marker] = {}

    def execute(self) -> Report:
        """Do what is missing of this rank's share.

        Raises:
            UsageError: the output directory belongs to other inputs or settings.
            IncompleteError: interrupted, or a worker was killed.
            OSError: the disk is full, ...
        """
        self._claim_output()
        self._load_markers()
        if self._is_finished():
            return self._report("nothing_to_do")
        self.workspace.remove_stale_tmp()
        self._warn_if_running()
        rank = self.options.rank
        missing = [unit for unit in self.plan.units if unit.id not in self.markers]
        own = shares(self.workspace, rank, self.plan.units, missing)[rank.rank]
        self._process([unit for unit in own if unit.id not in self.markers])
        self._load_markers()  # what other ranks have done meanwhile
        if len(self.markers) < len(self.plan.units):
            return self._report("incomplete")
        return self._finish()

    def _claim_output(self) -> None:
        """Write the plan, or check that the one that is there is ours; with `--overwrite`, clear first."""
        options, rank = self.options, self.options.rank
        patterns = self.job.output_patterns
        if options.overwrite and rank.restarts:
            tell(f"requeued ({rank.restarts} times): continuing, --overwrite counts for the first start")
        elif options.overwrite:
            if rank.world_size > 1 and rank.launch_id is None:
                raise UsageError("--overwrite with several ranks needs --launch-id, the same for all of them")
            self.job.prepare()
            self.workspace.prepare()
            clear_once(self.workspace, rank, patterns)
        earlier = read_json(self.workspace.plan_file)
        if earlier is None:
            foreign = next(self.workspace.outputs(patterns), None)
            if foreign is not None:
                raise UsageError(
                    f"{self.workspace.out} holds {foreign.relative_to(self.workspace.out)}, but "
                    f"{self.workspace.root}, which would tell how it was made, is not there; choose another "
                    "directory, or give --overwrite to replace it"
                )
            self.job.prepare()
            self.workspace.prepare()
            write_json(self.workspace.plan_file, self._plan_document())
        elif earlier.get("digest") != self.digest:
            raise UsageError(
                f"{self.workspace.out} was made differently: {'; '.join(self._differences(earlier))}. "
                "Choose another directory, or give --overwrite to start again"
            )
        else:
            self.workspace.prepare()

    def _plan_document(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "command": self.job.command,
            "digest": self.digest,
            "settings": self.settings,
            "inputs": [{"path": file.path, "sha256": file.sha256} for file in plan.inputs],
            "records_in": plan.records_in,
            "skipped": plan.num_skipped,
            "planned_rejects": plan.planned_rejects,
            "seconds": plan.total_cost,
            "run_with": command_line(),
            "run_in": str(Path.cwd()),
            "units": [{"id": unit.id, "cost": unit.cost, "num_records": unit.num_records} for unit in plan.units],
        }

    def _differences(self, earlier: dict[str, Any]) -> Iterator[str]:
        if earlier.get("command") != self.job.command:
            yield f"by {earlier.get('command')}, not {self.job.command}"
            return
        before, now = earlier.get("settings", {}), self.settings
        found = False
        for name in sorted({*before, *now}):
            if before.get(name) != now.get(name):
                found = True
                yield f"{name} was {before.get(name)}, now {now.get(name)}"
        digests = [file["sha256"] for file in earlier.get("inputs", [])]
        for file in self.plan.inputs:
            if file.sha256 not in digests:
                found = True
                yield f"{file.path} has another content"
        if not found:
            yield "the inputs or the version of prepcli have changed"

    def _load_markers(self) -> None:
        for unit in self.plan.units:
            if unit.id not in self.markers:
                marker = read_marker(self.workspace, unit, self.digest)
                if marker is not None:
                    self.markers[unit.id] = marker

    def _is_finished(self) -> bool:
        if len(self.markers) < len(self.plan.units):
            return False
        report = read_json(self.workspace.report_file) or {}
        merged = read_marker(self.workspace, Unit(FINISH_UNIT, 0.0, 0), self.digest)
        return report.get("digest") == self.digest and merged is not None

    def _warn_if_running(self) -> None:
        other = is_running_elsewhere(self.workspace, self.options.rank)
        if other is not None:
            tell(
                f"note: rank {other.rank} seems to run already (process {other.pid} on {other.host}); "
                "both do the same work, the output stays right"
            )

    def _process(self, units: list[Unit]) -> None:
        options = self.options
        own = new_progress(options.rank)
        own.units_total = len(units)
        own.records_total = sum(unit.num_records for unit in units)
        own.seconds_total = sum(unit.cost for unit in units)
        own.launch_id = options.rank.launch_id
        before = sum(unit.num_records for unit in self.plan.units if unit.id in self.markers)
        total = sum(unit.num_records for unit in self.plan.units)
        context = worker_context()
        counter = SharedCounter(context)
        reporter = Reporter(self.workspace, options.rank, self.job.command, own, before, total)

        def tick() -> None:
            own.records_done, own.seconds_done = counter.read()
            reporter.update()

        state, message = "failed", ""
        try:
            reporter.update(force=True)
            if units:
                self.job.prepare()
                execution = Execution(self.workspace, self.digest, options.num_workers, context, counter, tick)
                for marker in self.job.execute(units, execution):
                    self.markers[marker.unit] = marker
                    own.units_done += 1
                    own.rejects += sum(marker.rejects.values())
            state = "done"
        except BaseException as error:
            state = "interrupted" if isinstance(error, (InterruptedBySignal, KeyboardInterrupt)) else "failed"
            message = str(error)
            raise
        finally:
            own.records_done, own.seconds_done = counter.read()
            with contextlib.suppress(OSError):  # a full disk must not hide the error that matters
                reporter.close(state, message)

    def _finish(self) -> Report:
        """Merge what the units left; done by whoever sees the last marker, and harmless when done twice."""
        markers = [self.markers[unit.id] for unit in self.plan.units]
        report = self._report("done")
        with UnitWriter(self.workspace, self.digest, Unit(FINISH_UNIT, 0.0, 0)) as writer:
            found = self.job.finish(markers, writer)
            report.outputs = {name: str(path) for name, path in found.items() if isinstance(path, Path)}
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
                self.job.planned_rejects(), reject_files, [file.path for file in self.plan.inputs]
            ):
                merged.write(line)
                listed += 1
            if listed != report.rejects:
                raise AccountingError(f"{report.rejects} records were rejected, but {listed} are listed")
            final = writer.publish()
        report.num_bytes += sum(file.num_bytes for file in final.files.values())
        self._judge(report)
        write_json(self.workspace.report_file, report)
        self.workspace.remove_stale_tmp()
        return report

    def _report(self, status: str) -> Report:
        report = build_report(self.job.command, str(self.workspace.out), self.digest, self.plan, self.markers)
        report.rejects_filepath = str(self.workspace.rejects_file)
        if status == "nothing_to_do":
            stored = read_json(self.workspace.report_file) or {}
            report.status = status
            report.details = stored.get("details", {})
            report.outputs = stored.get("outputs", {})
            report.num_bytes = stored.get("num_bytes", report.num_bytes)
        self._judge(report)
        return report

    def _judge(self, report: Report) -> None:
        complete = report.status != "incomplete"
        if complete and self.options.budget.exceeded(report.rejects_by_reason, report.records_in):
            report.status = "too_many_rejects"
        if not complete:
            report.continue_with = command_line()


def run_job(job: Job, workspace: Workspace, options: RunOptions) -> Report:
    """Run `job` as the rank in `options`; see `Run.execute` for what is raised.

    An exception that is no `PrepcliError` is a bug or a fault of the machine: its traceback is kept in
    `OUT.prepcli/traceback_<rank>.txt`, and the run can be continued.
    """
    lifeline = os.environ.get(LIFELINE)
    if lifeline:
        exit_when_ready(int(lifeline))
    with stop_on_signals():
        try:
            return Run(job, workspace, options).execute()
        except BaseException as error:
            with contextlib.suppress(OSError):
                workspace.remove_own_tmp()
                workspace.remove_stale_tmp()
            if isinstance(error, PrepcliError) or not isinstance(error, Exception):
                raise
            raise PrepcliError(_describe(error, workspace, options.rank)) from error


def _describe(error: Exception, workspace: Workspace, rank: Rank) -> str:
    name = workspace.root / f"traceback_{rank.rank}.txt"
    kept = ""
    with contextlib.suppress(OSError):
        name.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        kept = f" (traceback in {name})"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return (
            f"{where}{error.strerror or error}; nothing half written was published. Mend it and run the same "
            f"command again to continue{kept}"
        )
    return f"a bug in prepcli: {type(error).__name__}: {error}{kept}; please report it"
