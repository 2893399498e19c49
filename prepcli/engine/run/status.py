"""The status of a run, from the files next to its output: progress, slowest rank, and how to continue."""

import shlex
import time
from collections import Counter
from collections.abc import Collection, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import msgspec

from prepcli.engine.ledger import part_of
from prepcli.engine.lock import is_held
from prepcli.engine.publishing.publish import Marker, read_marker, records_added
from prepcli.engine.publishing.rejects import commonest, is_asked_for, is_bad, is_unlisted, num_retryable
from prepcli.engine.ranks.drafts import units_at_work
from prepcli.engine.ranks.progress import RankProgress, format_seconds, is_running, read_progress
from prepcli.engine.ranks.stages import LOCK_FILE, STAGE_FILE, Stage
from prepcli.engine.run.report import (
    finished_report,
    format_bytes,
    repair_command,
    repair_line,
    retry_flag,
    retry_line,
)
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.stored_units import find_plan, read_units
from prepcli.engine.state.work_folder import version_roots, work_folder
from prepcli.engine.state.workspace import Workspace, read_document, workspace_of
from prepcli.errors import UsageError, option
from prepcli.interface.printing import aligned, as_text, number_of, printable_command
from prepcli.interface.reports import ShownInNotebooks
from prepcli.processes.owner import REPEAT_SECONDS, Owner, has_ended, last_change
from prepcli.processes.queue import queued_job
from prepcli.storage.addresses import is_address
from prepcli.storage.paths import AnyPath, absolute

SET_OUTPUTS_FILE = "prepared.json"
"""The document (`SetOutputs`) of a data set whose manifests are made by runs of their own."""


class RankStatus(msgspec.Struct):
    """The status of one rank of the newest launch.

    `state`: as in `prepcli.engine.ranks.progress.RankProgress`, or `silent` (running, but without a sign of life), or
    `not_started`. `share_done` is between 0 and 1, of the audio, or of the records if the plan does not know
    durations. `working_on`: the units that the rank is doing, from any share. While there is no plan, only the rank is
    listed that works on it.
    """

    rank: int
    state: str
    units_done: int = 0
    units_total: int = 0
    share_done: float = 0.0
    records_per_second: float = 0.0
    host: str = ""
    message: str = ""
    working_on: list[str] = []


class Status(ShownInNotebooks, msgspec.Struct):
    """The progress of a run. Rates cover the ranks that are running now.

    `state`: planning (there are no units yet: `stage` says what the ranks do, `stage_done` how many of its
    `stage_total` tasks are done), running, finished, stopped, waiting (Slurm will start the job again, which continues:
    `waits_for` names it), finishing (all units are done, and their parts are being merged) or not_started (no trace of
    a run was found). `part` names a run that added to `out` (`version_1`,
    `codes_<name>`), or the folder of an unfinished run that was begun in addition to another one, for example with
    `--overwrite`; it is empty for the run that made `out`. `missing`: the ids of units that are not done.
    `eta_seconds`: the seconds until the slowest rank will end; None if no rank is running, infinite if unknown.
    `retry_with` is the command that tries rejects again; None if none can be retried. `repair_with` is
    the command that measures wrong durations, as in `Report`. `max_rejects` is the limit from
    `--max-rejects`, in words; `too_many_rejects`: whether the run has more rejects; both are set when the run has
    finished. `left_out` counts the `rejects` that are not bad data. `num_bytes`: the size of the files that
    an unfinished run has made.
    """

    out: str
    part: str = ""
    command: str = "-"
    state: str = "not_started"
    units: int = 0
    units_done: int = 0
    missing: list[str] = []
    records_in: int = 0
    records_out: int = 0
    rejects: dict[str, int] = {}
    skipped: int = 0
    seconds_done: float = 0.0
    seconds_total: float = 0.0
    records_per_second: float = 0.0
    eta_seconds: float | None = None
    ranks: list[RankStatus] = []
    slowest_rank: int | None = None
    continue_with: str | None = None
    retry_with: str | None = None
    repair_with: str | None = None
    left_out: int = 0
    max_rejects: str = ""
    too_many_rejects: bool = False
    stage: str = ""
    stage_done: int = 0
    stage_total: int = 0
    num_bytes: int = 0
    waits_for: str = ""

    def __str__(self) -> str:
        """The lines that `status` prints for this run."""
        return text_of([self])


class Statuses(ShownInNotebooks, list[Status]):
    """The runs of one or several outputs: a list that also has the text and the document that `status` prints.

    `account`: with `--account`, the sums over the chain of runs, which are then printed in place of the list.
    """

    account: Any = None

    def __str__(self) -> str:
        return text_of(self) if self.account is None else str(self.account)

    def document(self) -> Any:
        """The document for `--json`: the account; else a single `Status` if there is only one, or the list of all."""
        if self.account is not None:
            return self.account
        return self[0] if len(self) == 1 else list(self)


def read_status(workspace: Workspace) -> Status:
    """The status of the run in `workspace`, from its plan, its markers and its progress files.

    Raises:
        UsageError: no state of a run was found, or it cannot be read (`find_plan`).
    """
    # The lock and the progress are read before documents and report: a rank that has ended has written all of these.
    begun = workspace.unfinished_runs()
    is_committing = is_held(workspace.lock_file) and workspace.run in (begun[:1] or [workspace.run])
    plan = find_plan(workspace)
    if plan is None:
        if (planning := _planning(workspace)) is not None:
            return planning
        advice = "the OUT of a run"
        if is_address(workspace.named):
            work_dir = option("--work-dir")
            advice = f"with {work_dir} the folder that the run had as {work_dir}, or in which it was started"
        raise UsageError(
            f"no run of prepcli is known for {workspace.named}: {workspace.plan_file} is not there; give {advice}"
        )
    ranks = _newest_launch(read_progress(workspace))
    units = read_units(workspace, plan)
    output_files = OutputFiles(workspace.out)
    found: dict[str, Marker | None] = dict.fromkeys(unit.id for unit in units)
    for unit in units:
        if (done := read_marker(workspace, unit, plan.digest, output_files)) is not None:
            found[unit.id] = done.slim()
    markers: list[Marker] = [marker for marker in found.values() if marker is not None]
    rejects = Counter(plan.planned_rejects)
    for marker in markers:
        rejects.update(marker.rejects)
    running = [rank for rank in ranks if is_running(workspace, rank)]
    missing = [unit_id for unit_id, marker in found.items() if marker is None]
    report = None if missing else finished_report(workspace, plan.digest)
    if report is not None:
        state = "finished"
    elif running or (is_committing and not missing):
        state = "running" if missing else "finishing"
    else:
        state = "planning" if _is_planning(workspace) else "stopped"
    change = workspace.ledger().change_of(part_of(workspace.root))
    if change is not None and state == "finished":
        state, report = "stopped", None
    run_again = change.run_with if change is not None else plan.run_again(workspace.named)
    waits_for = queued_job(ranks[0].launch_id) if state == "stopped" and ranks else ""
    rejects_file = absolute(workspace.rejects_file)
    retryable = num_retryable(rejects)  # including the rejects of the plan, for audio that was missing during indexing
    slowest = max(running, key=_seconds_to_go, default=None)
    return Status(
        out=str(workspace.named),
        part=_part(workspace),
        command=plan.command,
        state="waiting" if waits_for else state,
        waits_for=waits_for,
        units=len(units),
        units_done=len(markers),
        missing=missing,
        records_in=plan.records_in + records_added(markers),
        records_out=sum(marker.records_out for marker in markers),
        rejects=dict(sorted(rejects.items())),
        skipped=plan.skipped,
        seconds_done=(
            sum(unit.cost for unit in units if found[unit.id] is not None)
            if plan.knows_seconds
            else sum(marker.seconds for marker in markers)
        ),
        seconds_total=sum(unit.cost for unit in units) if plan.knows_seconds else 0.0,
        records_per_second=sum(_rate(rank) for rank in running),
        eta_seconds=_seconds_to_go(slowest) if slowest else None,
        ranks=_rank_rows(workspace, ranks, {rank.rank for rank in running}),
        slowest_rank=slowest.rank if slowest else None,
        continue_with=run_again if report is None and not waits_for else None,
        retry_with=f"{run_again} {retry_flag(plan.planned_rejects, plan.command)}"
        if report is not None and retryable
        else None,
        repair_with=None if report is None else repair_command(plan.command, rejects, rejects_file, plan.settings),
        left_out=sum(count for reason, count in rejects.items() if not is_bad(reason, plan.command)),
        max_rejects=report.max_rejects if report is not None else "",
        too_many_rejects=report is not None and report.status == "too_many_rejects",
        num_bytes=0 if workspace.is_committed else sum(map(_num_bytes, markers)),
    )


def _num_bytes(marker: Marker) -> int:
    return marker.num_bytes + sum(file.num_bytes for file in marker.work_files.values())


def _part(workspace: Workspace) -> str:
    is_added = workspace.root != work_folder(workspace.named, workspace.main_root.parent)
    return "/".join([workspace.root.name] * is_added + [workspace.run.name] * workspace.is_beside_another)


def _planning(workspace: Workspace) -> Status | None:
    """The status of a run that has no plan yet, from its newest `stage.json`; None if there is no such file.

    If no rank holds the lock of the stage, and the process that held it has ended, the state is `stopped`.
    """
    newest = max(workspace.index.glob(f"*/{STAGE_FILE}"), key=last_change, default=None)
    stage = None if newest is None else read_document(newest, Stage)
    if newest is None or stage is None:
        return None
    num_done = len(list(newest.parent.glob(stage.results)))
    owner, last_sign = Owner.parse(stage.owner), last_change(newest)
    is_here = owner is not None and owner.is_gone is False
    at_work = is_here or is_held(newest.parent / LOCK_FILE)
    at_work = at_work or not has_ended(owner, REPEAT_SECONDS, last_sign, workspace.clock())
    words = shlex.split(stage.run_with)
    return Status(
        str(workspace.named),
        command=words[1] if words[:1] == ["prepcli"] and len(words) > 1 else "-",
        state="planning" if at_work else "stopped",
        ranks=[RankStatus(stage.rank, "running", host=stage.host)] if at_work else [],
        continue_with=f"cd {shlex.quote(stage.run_in)} && {stage.run_with}",
        stage=stage.doing,
        stage_done=num_done,
        stage_total=stage.total,
    )


def _is_planning(workspace: Workspace) -> bool:
    """Whether a rank reads the manifests or plans, also for a run that has been planned before."""
    return any(map(is_held, workspace.index.glob(f"*/{LOCK_FILE}")))


def _newest_launch(ranks: list[RankProgress]) -> list[RankProgress]:
    """The ranks of the newest launch; the files of an earlier launch, which may have had more ranks, are ignored."""
    if not ranks:
        return []
    newest = max(ranks, key=lambda rank: rank.updated)
    return [rank for rank in ranks if (rank.launch_id, rank.world_size) == (newest.launch_id, newest.world_size)]


def _rank_rows(workspace: Workspace, ranks: list[RankProgress], running: Collection[int]) -> list[RankStatus]:
    by_number = {rank.rank: rank for rank in ranks}
    world_size = max((rank.world_size for rank in ranks), default=0)
    in_hand = units_at_work(workspace, ranks)
    rows = []
    for number in range(world_size):
        rank = by_number.get(number)
        if rank is None:
            rows.append(RankStatus(number, "not_started"))
            continue
        done, total = rank.work
        rows.append(
            RankStatus(
                rank=number,
                state="silent" if rank.state == "running" and number not in running else rank.state,
                units_done=rank.units_done,
                units_total=rank.units_total,
                share_done=round(done / total, 6) if total else 1.0,
                records_per_second=_rate(rank),
                host=rank.host,
                message=rank.message,
                working_on=in_hand.get(number, []) if rank.state == "running" else [],
            )
        )
    return rows


def _rate(rank: RankProgress) -> float:
    return rank.records_done / max(rank.updated - rank.started, 1e-3)


def _seconds_to_go(rank: RankProgress) -> float:
    done, total = rank.work
    rate, left = done / max(rank.updated - rank.started, 1e-3), total - done
    return left / rate - (time.time() - rank.updated) if rate > 0 else float("inf") if left > 0 else 0.0


class SetOutputs(msgspec.Struct):
    """The content of `SET_OUTPUTS_FILE`, a file in the workspace of a data set.

    Attributes:
        outputs: the files that runs of their own make of the data set, relative to the data root.
    """

    outputs: list[str] = []


def workspaces_of(out: AnyPath, work_dir: Path | None = None) -> list[Workspace]:
    """The workspaces of the run that made `out`, a directory or a file, and of the runs that added to it.

    Runs that add to an output append shards, add a codec's codes or text contexts, or write a data set of a corpus. The
    data sets of a corpus may also be files in `out` that runs of their own have made (`SetOutputs`).

    Raises:
        UsageError: `out` is for the data sets of a corpus, and none of them has been unpacked yet.
    """
    root = work_folder(out, work_dir)
    later = version_roots(root)
    later += sorted(
        path
        for pattern in ("codes_*", "cuts_*", "sets/*")
        for path in root.glob(pattern)
        if _is_begun(Workspace(out, path, work_dir=work_dir))
    )
    sets = [read_document(path, SetOutputs) for path in sorted(root.glob(f"sets/*/{SET_OUTPUTS_FILE}"))]
    files = [workspace_of(out / name) for one in sets if one is not None for name in one.outputs]
    files = [one for one in files if one.plan_file.exists()]
    unplanned = sorted(path.parent.name for path in root.glob("sets/*/lock"))
    if not later and not files and unplanned:
        raise UsageError(
            f"{out}: {', '.join(unplanned)} is still being fetched or unpacked, or that was interrupted; run the same "
            "download again to continue"
        )
    main = workspace_of(out, work_dir)
    own = [main] if main.plan_file.exists() or not (later or files) else []
    return [*own, *(Workspace(out, path, work_dir=work_dir) for path in later), *files]


def _is_begun(workspace: Workspace) -> bool:
    return workspace.plan_file.exists() or any(workspace.index.glob(f"*/{STAGE_FILE}"))


def workspaces_to_show(out: AnyPath, work_dir: Path | None = None) -> list[Workspace]:
    """As `workspaces_of`, and after each run the unfinished ones that would replace it."""
    shown = []
    for workspace in workspaces_of(out, work_dir):
        shown.append(workspace)
        for run in workspace.unfinished_runs():
            if run != workspace.run:
                shown.append(copy(workspace))
                shown[-1].enter(run)
    return shown


HEAD = ("output", "command", "state", "done", "units", "records", "rejects", "left out", "records/s", "to go")
NUM_WORDS = 3
"""The number of columns of `HEAD`, from the left, that hold text; the columns after them hold numbers."""


def text_of(found: Sequence[Status]) -> str:
    """The text that `status` prints: details of all runs of one output, or a table for several outputs."""
    if len({one.out for one in found}) == 1:
        lines = [line for number, one in enumerate(found) for line in ([""] * (number > 0) + lines_of(one))]
    else:
        lines = overview(found)
    return as_text(lines)


def overview(found: Sequence[Status]) -> list[str]:
    """A table of all runs, followed by details of those that have stopped."""
    lines = aligned([list(HEAD), *map(row, found)], NUM_WORDS)
    for one in found:
        if one.state == "stopped":
            lines += ["", *lines_of(one)]
    return lines


def row(one: Status) -> list[str]:
    """The cells for one run in the table with the columns `HEAD`."""
    running = one.state == "running"
    if one.stage:
        done = f"{one.stage_done:,}/{one.stage_total:,}"
        return [_where(one), one.command, f"{one.state}: {one.stage}", f"{_share_done(one):.0%}", done, *"-----"]
    return [
        _where(one),
        one.command,
        one.state,
        f"{_share_done(one):.0%}",
        f"{one.units_done:,}/{one.units:,}",
        f"{one.records_out:,}/{one.records_in:,}",
        f"{sum(one.rejects.values()) - one.left_out:,}",
        f"{one.left_out:,}",
        f"{one.records_per_second:,.0f}" if running else "-",
        _to_go(one) if running else "-",
    ]


def _where(status: Status) -> str:
    return f"{status.out} ({status.part})" if status.part else status.out


def _share_done(status: Status) -> float:
    if status.state == "not_started":
        return 0.0
    if status.stage:
        return status.stage_done / status.stage_total
    if status.seconds_total:
        return status.seconds_done / status.seconds_total
    rejects = sum(status.rejects.values())
    return (status.records_out + rejects) / status.records_in if status.records_in else 1.0


def _to_go(status: Status) -> str:
    eta = status.eta_seconds
    return "unknown" if eta is None or eta == float("inf") else format_seconds(max(eta, 0))


def lines_of(status: Status) -> list[str]:
    """The lines of text in which `status` shows the details of one run."""
    if status.stage:
        return _planning_lines(status)
    state = "finished with too many rejects" if status.too_many_rejects else status.state
    what = "audio" if status.seconds_total else "records"
    lines = [
        f"{_where(status)}: {status.command}, {state}, {_share_done(status):.1%} of the {what}",
        f"  units    {status.units_done:,} of {status.units:,} done",
        f"  records  {status.records_out:,} of {status.records_in:,} out, {status.skipped:,} skipped (_skipme)",
        *_reject_lines(status),
    ]
    if status.missing:
        more = f" and {len(status.missing) - 5:,} more" if len(status.missing) > 5 else ""
        lines.append(f"  missing  {', '.join(status.missing[:5])}{more}")
    if status.state == "running":
        lines.append(
            f"  rate     {status.records_per_second:,.0f} records/s, {_to_go(status)} to go "
            f"(slowest: rank {status.slowest_rank})"
        )
    if status.state != "finished" and len(status.ranks) > 1:
        lines += [
            f"    rank {rank.rank}: {rank.state}, {rank.units_done} of {number_of(rank.units_total, 'unit')}, "
            f"{rank.share_done:.0%}"
            + (f" on {rank.host}" if rank.host else "")
            + _working_on(rank)
            + (f": {rank.message}" if rank.message else "")
            for rank in status.ranks
        ]
    if status.retry_with:
        lines.append(retry_line(status.retry_with, status.rejects))
    if status.repair_with:
        lines.append(repair_line(status.repair_with))
    if status.num_bytes and status.state == "stopped":
        lines.append(f"  size     {format_bytes(status.num_bytes)} in {status.out}.prepcli")
    if status.waits_for:
        lines.append(f"  continues by itself: {status.waits_for}")
    if status.continue_with:
        lines.append(f"  continue with: {printable_command(status.continue_with)}")
    return lines


def _planning_lines(status: Status) -> list[str]:
    lines = [
        f"{_where(status)}: {status.command}, {status.state} before the first unit",
        f"  {status.stage}, {status.stage_done:,} of {status.stage_total:,} done",
        *(f"    rank {rank.rank} on {rank.host}" for rank in status.ranks),
    ]
    if status.state == "stopped" and status.continue_with:
        lines.append(f"  continue with: {printable_command(status.continue_with)}")
    return lines


def _working_on(rank: RankStatus) -> str:
    units = rank.working_on
    more = f" and {len(units) - 2:,} more" if len(units) > 2 else ""
    return f", at {', '.join(units[:2])}{more}" if units else ""


def _reject_lines(status: Status) -> list[str]:
    """Bad records, with their share and most frequent reasons, and separately the records that do not count."""
    lines = []
    if left_out := {reason: count for reason, count in status.rejects.items() if is_asked_for(reason)}:
        lines.append(f"  left out {sum(left_out.values()):,} by the settings ({commonest(left_out)})")
    if unlisted := sum(count for reason, count in status.rejects.items() if is_unlisted(reason, status.command)):
        lines.append(f"  unlisted {unlisted:,} named by no published transcript")
    bad = {reason: count for reason, count in status.rejects.items() if is_bad(reason, status.command)}
    if not bad:
        return [*lines, "  rejects  none"]
    more = f" and {len(bad) - 3} more reasons" if len(bad) > 3 else ""
    share = f"{sum(bad.values()) / max(status.records_in, 1):.1%} of the records"
    allowed = f", more than {option('--max-rejects')} allows ({status.max_rejects})" if status.too_many_rejects else ""
    return [*lines, f"  rejects  {sum(bad.values()):,}, {share}{allowed}: {commonest(bad)}{more}"]
