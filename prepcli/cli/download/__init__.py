"""`prepcli download NAME`: published corpora to NeMo manifests."""

import typer

from prepcli.cli.download.fisher import fisher
from prepcli.cli.download.hub5 import hub5

download = typer.Typer(
    name="download",
    help="Published corpora to NeMo manifests.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
download.command("fisher")(fisher)
download.command("hub5")(hub5)
