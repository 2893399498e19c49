"""`prepcli status`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prepcli.cli.options import Json

if TYPE_CHECKING:
    from prepcli.run.status import Status


def status(
    out: Annotated[list[Path], typer.Argument(metavar="OUT...", help="Output directories of other commands.")],
    as_json: Json = False,
) -> None:
    """Show how far runs are: done, missing, rejects, rate, time to go, slowest rank, and how to continue.

    Reads only the files in OUT.prepcli/, so it works while ranks run, also on other machines.

    Example: prepcli status tarred/
    """
    from prepcli.cli.output import print_json
    from prepcli.run.status import read_status, workspaces_of

    found = [read_status(workspace) for path in out for workspace in workspaces_of(path)]
    if as_json:
        print_json(found[0] if len(found) == 1 else found)
        return
    for number, one in enumerate(found):
        typer.echo(("\n" if number else "") + "\n".join(_lines(one)))


def _lines(status: "Status") -> list[str]:
    from prepcli.run.progress import format_seconds

    share = status.seconds_done / status.seconds_total if status.seconds_total else 1.0
    rejects = ", ".join(f"{count:,} {reason}" for reason, count in status.rejects.items()) or "none"
    where = f"{status.out} ({status.part})" if status.part else status.out
    lines = [
        f"{where}: {status.command}, {status.state}, {share:.1%} of the audio",
        f"  units    {status.units_done:,} of {status.units:,} done",
        f"  records  {status.records_out:,} of {status.records_in:,} out, {status.skipped:,} passed over by _skipme",
        f"  rejects  {rejects}",
    ]
    if status.missing:
        more = f" and {len(status.missing) - 5:,} more" if len(status.missing) > 5 else ""
        lines.append(f"  missing  {', '.join(status.missing[:5])}{more}")
    if status.state == "running":
        eta = status.eta_seconds
        to_go = "unknown" if eta is None or eta == float("inf") else format_seconds(max(eta, 0))
        lines.append(
            f"  rate     {status.records_per_second:,.0f} records/s, {to_go} to go "
            f"(slowest: rank {status.slowest_rank})"
        )
    if status.state != "finished" and len(status.ranks) > 1:
        lines += [
            f"    rank {rank.rank}: {rank.state}, {rank.units_done} of {rank.units_total} units, {rank.share_done:.0%}"
            + (f" on {rank.host}" if rank.host else "")
            + (f": {rank.message}" if rank.message else "")
            for rank in status.ranks
        ]
    if status.continue_with:
        lines.append(f"  continue with: {status.continue_with}")
    return lines
