"""The `prepcli` program: its commands, and what becomes of an error."""

import sys
from typing import Annotated

import typer

from prepcli import __version__
from prepcli.cli.estimate_bins import estimate_bins
from prepcli.cli.manifest_to_shar import manifest_to_shar
from prepcli.cli.manifest_to_tarred import manifest_to_tarred
from prepcli.cli.status import status
from prepcli.cli.verify import verify
from prepcli.errors import PrepcliError

# Plain help: rich doubles the time of `--help`, and plain text can be piped and searched.
app = typer.Typer(
    name="prepcli",
    help="Turns speech corpora into what trainers read: NeMo manifests, tar shards, bucket bins.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
app.command("manifest-to-tarred")(manifest_to_tarred)
app.command("manifest-to-shar")(manifest_to_shar)
app.command("estimate-bins")(estimate_bins)
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
    """Turns speech corpora into what trainers read: NeMo manifests, tar shards, bucket bins."""


def main() -> None:
    """Run the command line; errors become one line on stderr and the exit code that belongs to them."""
    try:
        app()
    except PrepcliError as error:
        print(f"prepcli: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("prepcli: interrupted; run the same command again to continue", file=sys.stderr)
        sys.exit(4)
    except BrokenPipeError:
        # The reader of our output (`| head`) has gone; nothing is wrong.
        sys.stderr.close()
        sys.exit(0)
