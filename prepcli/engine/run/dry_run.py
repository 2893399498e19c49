"""A dry run: what a run would do, and how evenly the work is divided among the ranks."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.job import AnyJob
from prepcli.engine.run.report import Report
from prepcli.engine.run.starting import check_sample
from prepcli.engine.state.plan import AnyPlan, pack, spread
from prepcli.engine.state.workspace import Workspace
from prepcli.processes.ranks import Rank


@contextlib.contextmanager
def temporary_workspace(out: Path) -> Iterator[Workspace]:
    """A workspace for planning only: nothing is written beside `out`, and compressed manifests are not unpacked.

    An index that an earlier run has left is used.
    """
    with tempfile.TemporaryDirectory(prefix="prepcli-") as root:
        workspace = Workspace(out, Path(root), spools=False)
        workspace.index = Workspace(out).index
        yield workspace


def dry_run(job: AnyJob, plan: AnyPlan, rank: Rank) -> dict[str, Any]:
    """The facts of a plan: units, hours, and seconds of audio per rank with their spread.

    If the plan does not know seconds, these are None, and the records of each rank are there instead.
    """
    world_spread = spread(pack(plan.units, rank.world_size))
    largest = max(plan.units, key=lambda unit: unit.cost, default=None)
    document: dict[str, Any] = {
        "command": job.command,
        "status": "dry_run",
        "records_in": plan.records_in,
        "records_planned": sum(unit.num_records for unit in plan.units),
        "rejects_by_reason": plan.planned_rejects,
        "skipped": plan.num_skipped,
        "units": len(plan.units),
        "seconds": round(plan.total_cost, 3) if plan.knows_seconds else None,
        "hours": round(plan.total_cost / 3600, 3) if plan.knows_seconds else None,
        "world_size": rank.world_size,
        "seconds_per_rank": [round(cost, 3) for cost in world_spread.costs] if plan.knows_seconds else None,
        "records_per_rank": None if plan.knows_seconds else [int(cost) for cost in world_spread.costs],
        "spread_max_over_mean": round(world_spread.max_over_mean, 4),
        "notes": list(plan.notes),
    }
    if largest is not None and rank.world_size > 1 and largest.cost > plan.total_cost / rank.world_size:
        size = f"{largest.cost / 3600:.2f} h" if plan.knows_seconds else f"{largest.num_records:,} records"
        document["notes"].append(
            f"unit {largest.id} alone ({size}) is more than a rank's mean share: "
            "more ranks will not make this run faster"
        )
    return document


def dry_run_report(job: AnyJob, out: Path, rank: Rank, budget: Budget | None = None) -> Report:
    """The plan as a report, with all of it in `details`; nothing is written.

    Args:
        job: what would be done.
        out: where.
        rank: this process, and how many ranks there would be.
        budget: how many rejects are allowed.

    Raises:
        UsageError: the inputs or the options cannot work, or no audio is where it is looked for.
    """
    with temporary_workspace(out) as workspace:
        made = job.plan(workspace)
    check_sample(job, made, budget or Budget())
    plan = dry_run(job, made, rank)
    return Report(
        command=job.command,
        status="dry_run",
        out=str(out),
        records_in=plan["records_in"],
        records_out=0,
        rejects=sum(plan["rejects_by_reason"].values()),
        rejects_by_reason=plan["rejects_by_reason"],
        skipped=plan["skipped"],
        units=plan["units"],
        units_done=0,
        seconds=plan["seconds"] or 0.0,
        num_bytes=0,
        digest="",
        notes=plan["notes"],
        details=plan,
    )
