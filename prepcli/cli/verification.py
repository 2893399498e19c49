"""What `prepcli verify` prints."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from prepcli.verification.options import Verify
    from prepcli.verification.verify import VerifyReport


def show_verification(options: "Verify", report: "VerifyReport") -> None:
    """Print what was checked, and each problem.

    Raises:
        typer.Exit: 1, if there are problems.
    """
    import msgspec

    from prepcli.cli.output import print_json, print_lines

    if options.as_json:
        print_json(msgspec.to_builtins(report) | {"status": report.status})
    else:
        lines = [
            f"verify: {options.out} is {report.status}",
            f"  shards   {report.shards:,}",
            f"  records  {report.records:,} in {report.members:,} members, {report.seconds / 3600:,.2f} hours",
            f"  hashes   {'compared with what was published' if report.hashes_known else 'unknown (no OUT.prepcli)'}",
        ]
        print_lines([*lines, *(f"  PROBLEM  {problem}" for problem in report.problems)])
    if report.problems:
        raise typer.Exit(1)
