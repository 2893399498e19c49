"""The output of `prepcli verify`."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from prepcli.verification.options import Verify
    from prepcli.verification.report import VerifyReport


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
        lines = [f"verify: {options.out} is {report.status}"]
        if report.kind not in ("manifest", "mels", "quick"):
            lines.append(f"  shards   {report.shards:,}")
        if report.manifests:
            lines.append(f"  manifests {report.manifests:,}")
        lines += [
            f"  records  {report.records:,}{_within(report)}",
            f"  hashes   {'not compared (--quick)' if report.kind == 'quick' else _hashes(report)}",
            *(f"  note     {note}" for note in report.notes),
            *(f"  PROBLEM  {problem}" for problem in report.problems),
        ]
        print_lines(lines)
    if report.problems:
        raise typer.Exit(1)


def _within(report: "VerifyReport") -> str:
    """The members that hold the records, and their hours; mels do not tell how long their audio was."""
    if report.kind == "mels":
        return f", {report.members:,} mels" if report.members else ", without mels"
    members = "" if report.kind in ("manifest", "quick") else f" in {report.members:,} members"
    return f"{members}, {report.seconds / 3600:,.2f} hours"


def _hashes(report: "VerifyReport") -> str:
    if not report.hashes_known:
        return "unknown (no OUT.prepcli)"
    but = f", except those of {report.files_not_compared:,} files" if report.files_not_compared else ""
    return f"compared with what was published{but}"
