"""The plan without the work: what a run would do, and how evenly it would lie on the ranks."""

from typing import Any

from prepcli.engine.job import Job
from prepcli.engine.plan import pack, spread
from prepcli.engine.ranks import Rank
from prepcli.engine.report import Report


def dry_run(job: Job, rank: Rank) -> dict[str, Any]:
    """The plan, and nothing written: units, hours, and seconds of audio per rank with their spread."""
    plan = job.plan()
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
        "seconds": round(plan.total_cost, 3),
        "hours": round(plan.total_cost / 3600, 3),
        "world_size": rank.world_size,
        "seconds_per_rank": [round(seconds, 3) for seconds in world_spread.seconds],
        "spread_max_over_mean": round(world_spread.max_over_mean, 4),
        "notes": list(plan.notes),
    }
    if largest is not None and rank.world_size > 1 and largest.cost > plan.total_cost / rank.world_size:
        document["notes"].append(
            f"unit {largest.id} alone ({largest.cost / 3600:.2f} h) is more than a rank's mean share: "
            "more ranks will not make this run faster"
        )
    return document


def dry_run_report(job: Job, rank: Rank, out: str) -> Report:
    """The plan as a report, with all of it in `details`."""
    plan = dry_run(job, rank)
    return Report(
        command=job.command,
        status="dry_run",
        out=out,
        records_in=plan["records_in"],
        records_out=0,
        rejects=sum(plan["rejects_by_reason"].values()),
        rejects_by_reason=plan["rejects_by_reason"],
        skipped=plan["skipped"],
        units=plan["units"],
        units_done=0,
        seconds=plan["seconds"],
        num_bytes=0,
        digest="",
        notes=plan["notes"],
        details=plan,
    )
