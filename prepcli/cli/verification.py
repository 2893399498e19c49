"""What `prepcli verify` prints."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from prepcli.verification.options import Verify
    from prepcli.verification.verify import VerifyReport


def show_verification(options: "Verify", report: "VerifyReport") -> None:
    """What was checked, and each problem.

    Raises:
        typer.Exit: 1, where there are problems.
    """
    import msgspec

    from prepcli.cli.output import print_json

    if options.as_json:
        print_json(msgspec.to_builtins(report) | {"status": report.status})
    else:
        typer.echo(
            f"verify: {options.out} is {report.status}\n"
            f"  shards   {report.shards:,}\n"
            f"  records  {report.records:,} in {report.members:,} members, {report.seconds / 3600:,.2f} hours\n"
            f"  hashes   {'compared with what was published' if report.hashes_known else 'unknown (no OUT.prepcli)'}"
        )
        for problem in report.problems:
            typer.echo(f"  PROBLEM  {problem}")
    if report.problems:
        raise typer.Exit(1)
