"""The `prepcli` program: its commands, and what becomes of an error."""

import atexit
import contextlib
import gc
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from prepcli import __version__
from prepcli.cli.download import download
from prepcli.cli.estimate_bins import estimate_bins
from prepcli.cli.estimate_bins_2d import estimate_bins_2d
from prepcli.cli.estimate_token_bins import estimate_token_bins
from prepcli.cli.extend_codec_codes import extend_codec_codes
from prepcli.cli.extend_context_audio import extend_context_audio
from prepcli.cli.inspect import inspect
from prepcli.cli.manifest_to_shar import manifest_to_shar
from prepcli.cli.manifest_to_tarred import manifest_to_tarred
from prepcli.cli.options import is_own_rank
from prepcli.cli.startup import INTERRUPTED, open_closed_streams
from prepcli.cli.status import status
from prepcli.cli.variadic import VariadicCommand
from prepcli.cli.verify import verify
from prepcli.errors import PrepcliError, UsageError
from prepcli.run.signals import Interruption, stop_on_signals

SHOW_TRACEBACK = "PREPCLI_TRACEBACK"
"""Environment variable under which an unexpected error shows where it comes from."""

# Plain help: rich doubles the time of `--help`, and plain text can be piped and searched.
app = typer.Typer(
    name="prepcli",
    help="Turns speech corpora into what trainers read: tar shards, Lhotse Shar, bucket bins.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
app.add_typer(download)
app.command("manifest-to-tarred")(manifest_to_tarred)
app.command("manifest-to-shar")(manifest_to_shar)
app.command("extend-context-audio")(extend_context_audio)
app.command("extend-codec-codes")(extend_codec_codes)
app.command("estimate-bins")(estimate_bins)
app.command("estimate-bins-2d", cls=VariadicCommand)(estimate_bins_2d)
app.command("estimate-token-bins", cls=VariadicCommand)(estimate_token_bins)
app.command("inspect")(inspect)
app.command("status")(status)
app.command("verify")(verify)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"prepcli {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Turns speech corpora into what trainers read: tar shards, Lhotse Shar, bucket bins."""


def _check_names() -> None:
    """Refuse names that are not UTF-8 (manifests and plans are JSON, and could not hold them), and empty ones."""
    if "" in sys.argv[1:]:
        raise UsageError("an argument is empty: is a variable of the shell not set?")
    here = []
    with contextlib.suppress(OSError):
        here.append(str(Path.cwd()))
    for text in sys.argv[1:] + here:
        if any("\ud800" <= char <= "\udfff" for char in text):
            shown = ascii(text).strip("'\"")
            raise UsageError(f"{shown} is no name in UTF-8, and no manifest could hold it; rename it, or link to it")


def main() -> None:
    """Run the command line; errors become one line on stderr and the exit code that belongs to them."""
    # What is alive at the end need not be searched for cycles: 10 to 20 ms of each command.
    atexit.register(gc.freeze)
    open_closed_streams()
    with stop_on_signals(Interruption):
        try:
            _run()
        except Interruption as stopped:
            print(f"prepcli: {stopped}; run the same command again", file=sys.stderr)
            sys.exit(INTERRUPTED)


def _run() -> None:
    try:
        _check_names()
        app()
    except BrokenPipeError:
        # The reader of our output (`| head`) has gone; nothing is wrong.
        sys.stderr.close()
        sys.exit(0)
    except PrepcliError as error:
        # What is wrong with the call is the same for all ranks that the command has started: one says it.
        if not (is_own_rank() and error.exit_code == 2 and os.environ.get("RANK") != "0"):
            # One line, whatever a path or a manifest holds.
            shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in str(error))
            print(f"prepcli: {shown}", file=sys.stderr)
        sys.exit(error.exit_code)
    except Exception as error:
        if os.environ.get(SHOW_TRACEBACK):
            raise
        print(
            f"prepcli: a bug in prepcli: {type(error).__name__}: {error}; please report it with what the same "
            f"command prints under {SHOW_TRACEBACK}=1",
            file=sys.stderr,
        )
        sys.exit(1)
