"""The text of the status of runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prepcli.errors import option
from prepcli.interface.printing import aligned, as_text, printable_command

if TYPE_CHECKING:
    from prepcli.engine.run.status import RankStatus, Status

HEAD = ("output", "command", "state", "done", "units", "records", "rejects", "records/s", "to go")
NUM_WORDS = 3
"""The number of columns that hold words."""


def text_of(found: "Sequence[Status]") -> str:
    """The lines for the runs of one output, or a table for several outputs."""
    if len({one.out for one in found}) == 1:
        lines = [line for number, one in enumerate(found) for line in ([""] * (number > 0) + lines_of(one))]
    else:
        lines = overview(found)
    return as_text(lines)


def overview(found: "Sequence[Status]") -> list[str]:
    """A table of all runs, followed by details of those that have stopped."""
    lines = aligned([list(HEAD), *map(row, found)], NUM_WORDS)
    for one in found:
        if one.state == "stopped":
            lines += ["", *lines_of(one)]
    return lines


def row(one: "Status") -> list[str]:
    """The cells of a run under `HEAD`."""
    running = one.state == "running"
    if one.stage:
        done = f"{one.stage_done:,}/{one.stage_total:,}"
        return [_where(one), one.command, f"{one.state}: {one.stage}", f"{_share_done(one):.0%}", done, *"----"]
    return [
        _where(one),
        one.command,
        one.state,
        f"{_share_done(one):.0%}",
        f"{one.units_done:,}/{one.units:,}",
        f"{one.records_out:,}/{one.records_in:,}",
        f"{sum(one.rejects.values()):,}",
        f"{one.records_per_second:,.0f}" if running else "-",
        _to_go(one) if running else "-",
    ]


def _where(status: "Status") -> str:
    return f"{status.out} ({status.part})" if status.part else status.out


def _share_done(status: "Status") -> float:
    if status.state == "not_started":
        return 0.0
    if status.stage:
        return status.stage_done / status.stage_total
    if status.seconds_total:
        return status.seconds_done / status.seconds_total
    rejects = sum(status.rejects.values())
    return (status.records_out + rejects) / status.records_in if status.records_in else 1.0


def _to_go(status: "Status") -> str:
    from prepcli.engine.ranks.progress import format_seconds

    eta = status.eta_seconds
    return "unknown" if eta is None or eta == float("inf") else format_seconds(max(eta, 0))


def lines_of(status: "Status") -> list[str]:
    """The details of a run."""
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
            f"    rank {rank.rank}: {rank.state}, {rank.units_done} of {rank.units_total} units, {rank.share_done:.0%}"
            + (f" on {rank.host}" if rank.host else "")
            + _working_on(rank)
            + (f": {rank.message}" if rank.message else "")
            for rank in status.ranks
        ]
    if status.retry_with:
        from prepcli.engine.run.report import retry_line

        lines.append(retry_line(status.retry_with, status.rejects))
    if status.continue_with:
        lines.append(f"  continue with: {printable_command(status.continue_with)}")
    return lines


def _planning_lines(status: "Status") -> list[str]:
    lines = [
        f"{_where(status)}: {status.command}, {status.state} before the first unit",
        f"  {status.stage}, {status.stage_done:,} of {status.stage_total:,} done",
        *(f"    rank {rank.rank}{_working_on(rank)}" for rank in status.ranks),
    ]
    if status.state == "stopped" and status.continue_with:
        lines.append(f"  continue with: {printable_command(status.continue_with)}")
    return lines


def _working_on(rank: "RankStatus") -> str:
    units = rank.working_on
    more = f" and {len(units) - 2:,} more" if len(units) > 2 else ""
    return f", at {', '.join(units[:2])}{more}" if units else ""


def _reject_lines(status: "Status") -> list[str]:
    """Bad records, with their share and most frequent reasons, and separately the records that settings left out."""
    from prepcli.engine.publishing.rejects import asked_for, commonest

    lines = []
    if status.left_out:
        left_out = {reason: count for reason, count in status.rejects.items() if asked_for(reason)}
        lines.append(f"  left out {status.left_out:,} by the settings ({commonest(left_out)})")
    bad = {reason: count for reason, count in status.rejects.items() if not asked_for(reason)}
    if not bad:
        return [*lines, "  rejects  none"]
    more = f" and {len(bad) - 3} more reasons" if len(bad) > 3 else ""
    share = f"{sum(bad.values()) / max(status.records_in, 1):.1%} of the records"
    allowed = f", more than {option('--max-rejects')} allows ({status.max_rejects})" if status.too_many_rejects else ""
    return [*lines, f"  rejects  {sum(bad.values()):,}, {share}{allowed}: {commonest(bad)}{more}"]
