"""Before the work begins: is the folder right, what else is in OUT, and may an earlier plan be replaced?"""

import os
from itertools import islice
from pathlib import Path
from typing import Any

from prepcli.engine.publishing.publish import Marker
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.ranks.launch import clear_once, has_begun_to_clear
from prepcli.engine.ranks.progress import STALE_AFTER, is_alive, progress_file, read_progress
from prepcli.engine.ranks.stages import changed_within
from prepcli.engine.run.job import AnyJob
from prepcli.engine.run.kept_inputs import refuse_to_lose_inputs
from prepcli.engine.state.clearing import MAX_LISTED, check_stock, take_stock
from prepcli.engine.state.plan import PLAN_FORMAT, AnyPlan, StoredPlan, differences
from prepcli.engine.state.stored_units import write_units
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.errors import RejectReason, UsageError
from prepcli.interface.calls import command_line, tell
from prepcli.processes.owner import Owner
from prepcli.processes.ranks import Rank
from prepcli.storage.paths import StorePath, absolute


def check_sample(job: AnyJob, plan: AnyPlan, budget: Budget) -> None:
    """Stop before the work if a sample of the files that it reads is missing, unless so many rejects are allowed.

    Raises:
        UsageError: with a path that was tried.
    """
    all_missing = {RejectReason.MISSING_AUDIO.value: plan.records_in}
    if plan.units and budget.exceeded(all_missing, plan.records_in):
        message = job.missing_sample(plan)
        if message is not None:
            raise UsageError(message)


def note_other_files(job: AnyJob, workspace: Workspace) -> None:
    """Say, when a run begins in an OUT with files of others, that they stay; called before anything is written."""
    adds_to_another = workspace.root != workspace.main_root  # a codec's codes, for example
    if job.shares_out or adds_to_another:
        return
    if isinstance(workspace.out, StorePath):
        names = sorted({name.partition("/")[0] for name in workspace.found.names()})[:MAX_LISTED]
    elif not workspace.out.is_dir():
        return
    else:
        with os.scandir(workspace.out) as entries:
            names = sorted(entry.name for entry in islice(entries, MAX_LISTED) if not _is_without_files(entry))
    if names:
        count = f"{MAX_LISTED:,} or more files" if len(names) == MAX_LISTED else f"{len(names):,} file(s) or folder(s)"
        tell(
            f"note: {workspace.out} already holds {count}, such as {names[0]}; they are kept, and the output is "
            "written beside them. Choose an empty directory to keep the two apart"
        )


def _is_without_files(entry: "os.DirEntry[str]") -> bool:
    """Whether it is a folder with no file in it, at any depth; a run that was cleared leaves such."""
    return entry.is_dir(follow_symlinks=False) and not any(files for _, _, files in os.walk(entry.path))


def check_restart(job: AnyJob, plan: AnyPlan, workspace: Workspace, rank: Rank) -> None:
    """Check that a job may remove what earlier runs have written, before anything is.

    Raises:
        UsageError: an input is among it, or files stay that would be taken for a part of the new set.
    """
    if has_begun_to_clear(workspace, rank):
        return
    workspace.refuse_holder()
    try:
        stock = take_stock(workspace, job, plan)
        refuse_to_lose_inputs(job, plan, workspace, stock)
        check_stock(stock, workspace, job)
    except UsageError:
        if not has_begun_to_clear(workspace, rank):  # else what was found was half of it
            raise


def replace_failed(
    stored: StoredPlan, job: AnyJob, plan: AnyPlan, settings: dict[str, Any], workspace: Workspace, rank: Rank
) -> StoredPlan | None:
    """Clear the output of a run with other settings or inputs in which no record has succeeded.

    Such a run leaves nothing that anybody could want, and most often a wrong setting is the reason. Of another command
    it is left alone, and while it is at work; several ranks can agree to start again only by their launch id.

    Returns:
        The plan that is there now: `stored` where nothing was cleared.
    """
    if stored.command != job.command or (rank.world_size > 1 and rank.launch_id is None):
        return stored
    markers = [read_document(path, Marker) for path in sorted(workspace.done.glob("*.json"))]
    if any(marker is None or marker.records_out for marker in markers) or _is_at_work(stored, workspace):
        return stored
    check_restart(job, plan, workspace, rank)
    job.prepare()
    what = "; ".join(differences(stored, job.command, settings, plan, job.defaults))
    tell(f"note: no record has succeeded in {workspace.out} before: starting again ({what})")
    clear_once(workspace, rank, job, plan)
    return read_document(workspace.plan_file, StoredPlan)


def _is_at_work(stored: StoredPlan, workspace: Workspace) -> bool:
    """Whether a rank is at work on this plan, or about to be: its progress file comes a moment after the plan."""
    ranks = read_progress(workspace)
    for one in ranks:
        # The clock of another machine may be any: of its processes the time of their files counts.
        is_new = one.process.is_gone is None and changed_within(STALE_AFTER, [progress_file(workspace, one.rank)])
        if is_alive(one) or (one.state == "running" and is_new):
            return True
    begun_by = Owner.parse(stored.begun_by)
    if begun_by is None or begun_by.is_same_process(Owner.of_this_process("")):
        return False
    if any(begun_by.is_same_process(rank.process) for rank in ranks):  # it has ended its work
        return False
    gone = begun_by.is_gone
    return changed_within(STALE_AFTER, [workspace.plan_file]) if gone is None else not gone


def plan_document(
    job: AnyJob, plan: AnyPlan, settings: dict[str, Any], digest: str, workspace: Workspace
) -> StoredPlan:
    """What `plan.json` tells of the run that begins now; its units are written, for readers of it need them."""
    return StoredPlan(
        command=job.command,
        digest=digest,
        settings=settings,
        inputs=[{"path": file.path, "sha256": file.sha256} for file in plan.inputs],
        records_in=plan.records_in,
        skipped=plan.num_skipped,
        planned_rejects=plan.planned_rejects,
        seconds=plan.total_cost if plan.knows_seconds else 0.0,
        knows_seconds=plan.knows_seconds,
        run_with=command_line(of_rank=False),
        run_in=str(Path.cwd()),
        num_units=len(plan.units),
        units_bytes=write_units(workspace, digest, plan.units),
        writes_file=workspace.named != workspace.out,
        out=absolute(workspace.named),
        format=PLAN_FORMAT,
        begun_by=str(Owner.of_this_process(workspace.rank_id)),
    )
