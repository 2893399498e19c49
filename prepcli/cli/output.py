"""The output of commands: a report as text or as JSON."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from prepcli.interface.printing import as_text, encodable

if TYPE_CHECKING:
    from prepcli.commands.status.options import ShowStatus
    from prepcli.engine.run.status import Status


def show(options: Any, report: Any) -> None:
    """Print a report: `str(report)`, the text of `--verbose` or `--quiet`, or one JSON object.

    Raises:
        typer.Exit: with the exit code of the report, if it is not 0.
    """
    if getattr(options, "watch", False):
        raise typer.Exit(_watch(options, report))
    if getattr(options, "as_json", False):
        print_json(report.document() if hasattr(report, "document") else report)
    else:
        spec = next((name for name in ("verbose", "quiet") if getattr(options, name, False)), "")
        typer.echo(format(report, spec))
    if code := getattr(report, "exit_code", 0):
        raise typer.Exit(code)


def print_json(document: Any) -> None:
    """Print one JSON object on stdout."""
    import msgspec

    try:
        text = msgspec.json.encode(document)
    except UnicodeEncodeError:  # a name that is not UTF-8
        text = msgspec.json.encode(encodable(msgspec.to_builtins(document)))
    typer.echo(text.decode())


def _watch(options: "ShowStatus", found: "Sequence[Status]") -> int:
    """Print the states until no run is active or waiting; returns the exit code."""
    from prepcli.commands.status.command import status
    from prepcli.engine.run.status_text import HEAD, aligned, overview, row

    shown: list[list[str]] = []
    while True:
        if options.as_json:
            print_json(found)
        elif sys.stdout.isatty():
            typer.echo("\033[H\033[J", nl=False)
            typer.echo(as_text(overview(found)))
        else:
            rows = [row(one) for one in found]
            new = [one for one in rows if one not in shown]
            if new:
                now = time.strftime("%H:%M:%S")
                rows_shown = aligned(new if shown else [list(HEAD), *new])
                typer.echo(as_text(f"{now}  {line}" for line in rows_shown))
            shown = rows
            sys.stdout.flush()
        if not any(one.state in ("planning", "running", "finishing", "not_started") for one in found):
            return 0 if all(one.state == "finished" for one in found) else 4
        time.sleep(options.every)
        found = status(options)
