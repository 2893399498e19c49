"""Data sets as inputs: refuses those that are not complete, because their run has not finished or files are gone."""

from pathlib import Path
from typing import NamedTuple

from prepcli.engine.ledger import Pending, part_of
from prepcli.engine.publishing.publish import Marker
from prepcli.engine.run.report import Report
from prepcli.engine.run.status import Status, read_status
from prepcli.engine.state.plan import PLAN_FORMAT, StoredPlan
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.stored_units import has_units, read_units
from prepcli.engine.state.work_folder import work_folder_or_none
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.errors import UsageError
from prepcli.interface.printing import number_of, printable_command
from prepcli.storage.paths import AnyPath

_INDEX = ".idx"


def refuse_unfinished(out: AnyPath, work_dir: Path | None = None) -> None:
    """Check that the run that made the data set `out` has finished, and that all files of its units exist.

    Does nothing if no run is known: its state may be elsewhere, as `--work-dir` of a set in an object store. Changes of
    the files are not detected.

    Raises:
        UsageError: the run has not finished, or a file is missing; the message has the command that continues the run.
    """
    root = work_folder_or_none(out, work_dir)
    if root is not None and (workspace := Workspace(out, work_dir=work_dir)).plan_file.is_file():
        refuse_unfinished_run(workspace)


def refuse_changing(workspace: Workspace, change: Pending | None) -> None:
    """Check that no `change` of the output is under way: files of two runs may be there, or files may be missing.

    Raises:
        UsageError: it is under way, or was interrupted; the message has the command that completes it.
    """
    if change is not None:
        raise UsageError(
            f"files of {workspace.named} are being replaced, added or removed, or that was interrupted; complete it "
            f"with: {printable_command(change.run_with)}"
        )


def refuse_unfinished_run(workspace: Workspace) -> None:
    """As `refuse_unfinished`, for the run in `workspace`, such as one that adds shards to a set."""
    refuse_changing(workspace, workspace.ledger().change_of(part_of(workspace.root)))
    plan, report = read_document(workspace.plan_file, StoredPlan), read_document(workspace.report_file, Report)
    if plan is None:
        raise UsageError(f"{workspace.named} is not finished")
    if plan.format != PLAN_FORMAT or not has_units(workspace, plan):
        return  # nothing shows which files there should be
    units = published_units(workspace, plan)
    is_reported = report is not None and report.digest == plan.digest and not workspace.is_begun
    if units.num_marked < units.num_units or not is_reported:
        raise UsageError(f"{workspace.named} is not finished{_progress(read_status(workspace), units)}")
    if units.missing is not None:
        command = printable_command(plan.run_again(workspace.named))
        raise UsageError(f"{workspace.named} lacks {units.missing}; copy it again, or make it again: {command}")


class PublishedUnits(NamedTuple):
    """The units of a plan that are done.

    Attributes:
        num_units: the number of all units.
        num_marked: the number of those that have a marker.
        num_complete: the number of those all of whose files exist, too.
        missing: the name of the first file of a unit that does not exist; None if there is no such file.
    """

    num_units: int
    num_marked: int
    num_complete: int
    missing: str | None


def published_units(workspace: Workspace, plan: StoredPlan) -> PublishedUnits:
    """Look for the files of all units. Indexes are left out: `index` may move them, and makes them again."""
    units, found = read_units(workspace, plan), OutputFiles(workspace.out)
    num_marked, num_complete, first = 0, 0, None
    for unit in units:
        marker = read_document(workspace.marker_file(unit.id), Marker)
        if marker is None or marker.digest != plan.digest:
            continue
        names = (name for name in marker.files if not name.endswith(_INDEX))
        in_out = (name for name in names if workspace.made_file(unit.id, name) == workspace.out / name)
        missing = next((name for name in in_out if not found.has(name)), None)
        first = first or missing
        num_marked += 1
        num_complete += missing is None
    return PublishedUnits(len(units), num_marked, num_complete, first)


def _progress(status: Status, units: PublishedUnits) -> str:
    """The end of the message on a run that is not finished: the command that waits for the run or continues it."""
    if status.state in ("running", "finishing"):
        return f", its run goes on; wait for its end: prepcli status --watch {status.out}"
    command = printable_command(status.continue_with or "")
    return f": {units.num_complete:,} of {number_of(units.num_units, 'unit')} are done; continue with: {command}"
