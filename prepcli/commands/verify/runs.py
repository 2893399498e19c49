"""The runs that made the verified data: the files that they published, and their counts of records."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prepcli.commands.verify.report import VerifyReport
from prepcli.engine.ledger import part_of
from prepcli.engine.publishing.hashes import OTHER_BYTES
from prepcli.engine.publishing.output_files import PublishedFile
from prepcli.engine.publishing.publish import Marker
from prepcli.engine.publishing.rejects import commonest, is_asked_for, is_bad
from prepcli.engine.run.report import Report
from prepcli.engine.run.status import Status, read_status, workspaces_of
from prepcli.engine.run.unfinished import refuse_changing
from prepcli.engine.state.plan import FINISH_UNIT, StoredPlan
from prepcli.engine.state.stored_units import find_plan, has_units, read_units
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.formats.audio_states import audio_records, compare_audio
from prepcli.interface.printing import number_of, printable_command
from prepcli.processes.pools import map_in_order
from prepcli.storage.paths import AnyPath


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """A run whose state is next to the output; `files`: its published files by name below OUT."""

    workspace: Workspace
    plan: StoredPlan
    status: Status
    is_finished: bool
    files: dict[str, PublishedFile]


def runs_of(out: AnyPath, work_dir: Path | None = None) -> list[PublishedRun]:
    """Read the runs that made `out` from their state, next to `out` or, for an output in a store, in `work_dir`.

    Raises:
        UsageError: the files of `out` are being changed, or that was interrupted.
    """
    runs = []
    for workspace in workspaces_of(out, work_dir):
        refuse_changing(workspace, workspace.ledger().pending)
        plan = find_plan(workspace)
        if plan is None or (part_of(workspace.root) and not workspace.is_committed):
            continue  # an addition that has not finished has changed nothing
        status = read_status(workspace)
        # A file of the finishing step that has changed is a separate problem.
        merged = (
            read_document(workspace.marker_file(FINISH_UNIT.id), Marker) is not None
            and read_document(workspace.report_file, Report) is not None
        )
        is_finished = status.state == "finished" or (merged and status.units_done == status.units)
        files: dict[str, PublishedFile] = {}
        for path in workspace.marker_files() if workspace.is_committed else ():
            marker = read_document(path, Marker)  # without a marker the unit is missing, and the status says so
            files |= marker.files if marker else {}
        runs.append(PublishedRun(workspace, plan, status, is_finished, files))
    return runs


def published_files(runs: Sequence[PublishedRun], report: VerifyReport) -> dict[str, PublishedFile]:
    """The files that runs have published; reports a problem for a run that is not finished."""
    files: dict[str, PublishedFile] = {}
    for run in runs:
        report.hashes_known = True
        if not run.is_finished:
            report.problems.append(
                f"the run is not finished: {run.status.units_done} of {number_of(run.status.units, 'unit')} are done; "
                f"continue with: {printable_command(run.status.continue_with or '')}"
            )
        files |= run.files
    return files


def plan_of(name: str, runs: Sequence[PublishedRun]) -> StoredPlan | None:
    """The plan of the run that published the file `name`; None if no run did.

    If there is only one run, its plan is returned for every name.
    """
    return next((run.plan for run in runs if name in run.files or len(runs) == 1), None)


def judge_runs(runs: Sequence[PublishedRun], report: VerifyReport) -> None:
    """Add a problem to the report if the output has no records, and notes on damaged files and rejected records."""
    if not report.records and not report.problems and not any(run.status.records_out for run in runs):
        report.problems.append(f"empty: {_why_empty(runs)}")
    if len(runs) == 1 and runs[0].is_finished and any(OTHER_BYTES in problem for problem in report.problems):
        again = printable_command(runs[0].plan.run_again(report.out))
        report.notes.append(f"to make a damaged file again, delete it and run the command again: {again}")
    for run in runs:
        status = run.status
        bad = sum(count for reason, count in status.rejects.items() if is_bad(reason, status.command))
        if status.too_many_rejects or (bad and report.records):
            too_many = f", more than --max-rejects allows ({status.max_rejects})" if status.too_many_rejects else ""
            report.notes.append(
                f"{bad:,} of {number_of(status.records_in, 'record')} {'was' if bad == 1 else 'were'} "
                f"rejected{too_many}"
            )


def _why_empty(runs: Sequence[PublishedRun]) -> str:
    records_in = sum(run.status.records_in for run in runs)
    if not records_in:
        return "it has no records"
    reasons: Counter[str] = Counter()
    for run in runs:
        reasons.update(run.status.rejects)
    what = "left out by the settings" if all(map(is_asked_for, reasons)) else "rejected"
    return f"all {records_in:,} records were {what} ({commonest(reasons)})"


def compare_with_audio(run: PublishedRun, folder: AnyPath, num_workers: int, report: VerifyReport) -> None:
    """Report codes that were made from other audio than the current audio, and audio that could not be compared.

    The run has noted the states of the audio files that it read: under paths relative to the Shar set `folder` for
    tars, under absolute paths for other audio.
    """
    workspace = run.workspace
    records = audio_records(workspace, read_units(workspace, run.plan)) if has_units(workspace, run.plan) else []
    states = list(map_in_order(partial(compare_audio, folder=str(folder)), records, num_workers))
    changed = [path for state in states for path in state.changed]
    num_missing = sum(state.num_missing for state in states)
    if changed:
        more = f", and of {len(changed) - 1:,} more files" if len(changed) > 1 else ""
        report.problems.append(
            f"{workspace.root.name}: made of other audio than {changed[0]} holds now{more}; run extend-codec-codes "
            "again with --overwrite"
        )
    if num_missing:
        report.notes.append(
            f"{workspace.root.name}: {num_missing:,} audio files are not where they were encoded from, and were not "
            "compared with what was encoded"
        )
