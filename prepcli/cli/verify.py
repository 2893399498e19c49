"""`prepcli verify`."""

from pathlib import Path
from typing import Annotated

import typer

from prepcli.cli.options import Json, NumWorkers, available_processors


def verify(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Directory of a tarred or Shar data set.")],
    as_json: Json = False,
    num_workers: NumWorkers = None,
) -> None:
    """Check a data set: every shard readable and decodable, manifests and tars in step, bytes as published.

    Reads everything. Exit code 1 and a list where something is wrong.

    Example: prepcli verify tarred/
    """
    import msgspec

    from prepcli.cli.output import print_json
    from prepcli.verification.verify import verify as run_verify

    report = run_verify(out, num_workers or available_processors())
    if as_json:
        print_json(msgspec.to_builtins(report) | {"status": report.status})
    else:
        typer.echo(
            f"verify: {out} is {report.status}\n"
            f"  shards   {report.shards:,}\n"
            f"  records  {report.records:,} in {report.members:,} members, {report.seconds / 3600:,.2f} hours\n"
            f"  hashes   {'compared with what was published' if report.hashes_known else 'unknown (no OUT.prepcli)'}"
        )
        for problem in report.problems:
            typer.echo(f"  PROBLEM  {problem}")
    if report.problems:
        raise typer.Exit(1)
