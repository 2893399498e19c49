"""The `prepcli` program: its commands, and what becomes of an error."""

import atexit
import contextlib
import errno
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
from prepcli.engine.signals import Interruption, stop_on_signals
from prepcli.errors import PrepcliError, UsageError
from prepcli.printing import printable

SHOW_TRACEBACK = "PREPCLI_TRACEBACK"
"""Environment variable under which an unexpected error shows where it comes from."""

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

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
    """Refuse names that are not UTF-8 (manifests and plans are JSON, and could not hold them), and empty ones.

    A current folder that was deleted has no name at all: nothing relative to it can be found.
    """
    if "" in sys.argv[1:]:
        raise UsageError("an argument is empty: is a variable of the shell not set?")
    try:
        here = [str(Path.cwd())]
    except FileNotFoundError:
        if {"--help", "-h", "--version"}.isdisjoint(sys.argv):
            raise UsageError("the current folder was deleted; change to one that exists (cd)") from None
        here = []
    except OSError:
        here = []
    for text in sys.argv[1:] + here:
        if any("\ud800" <= char <= "\udfff" for char in text):
            shown = ascii(text).strip("'\"")
            raise UsageError(f"{shown} is no name in UTF-8, and no manifest could hold it; rename it, or link to it")


def _command() -> None:
    """Run the command, and write out what it has printed while an error can still be reported."""
    try:
        app()
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()


def _give_up_stdout() -> None:
    """Send what could not be written nowhere: Python tries again at its end, and would print an error of its own."""
    with contextlib.suppress(OSError, ValueError, AttributeError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _of_system(error: OSError) -> str:
    """What an error of the operating system says, with the file where it is known."""
    why = error.strerror or str(error)
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {why}"
    return f"cannot write the output: {why}" if error.errno in _CANNOT_WRITE else why


def _print_error(message: str) -> None:
    """One line, whatever a path or a manifest holds."""
    print(f"prepcli: {printable(message)}", file=sys.stderr)


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
        _command()
    except BrokenPipeError:
        # The reader of our output (`| head`) has gone; nothing is wrong.
        _give_up_stdout()
        sys.stderr.close()
        sys.exit(0)
    except PrepcliError as error:
        # What is wrong with the call is the same for all ranks that the command has started: one says it.
        if not (is_own_rank() and error.exit_code == 2 and os.environ.get("RANK") != "0"):
            _print_error(str(error))
        sys.exit(error.exit_code)
    except Exception as error:
        if os.environ.get(SHOW_TRACEBACK):
            raise
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            _print_error(f"longer than a path may be: {error.filename}")
            sys.exit(2)
        if isinstance(error, OSError):  # a full disk, a file that went away: not ours
            _give_up_stdout()
            _print_error(_of_system(error))
            sys.exit(1)
        print(
            f"prepcli: a bug in prepcli: {type(error).__name__}: {printable(str(error))}; please report it with what "
            f"the same command prints under {SHOW_TRACEBACK}=1",
            file=sys.stderr,
        )
        sys.exit(1)
