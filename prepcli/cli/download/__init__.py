"""`prepcli download NAME`: published corpora to NeMo manifests."""

import typer

from prepcli.cli.download import fisher, hub5

download = typer.Typer(
    name="download",
    help="Published corpora to NeMo manifests.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
download.command("fisher", short_help=fisher.SUMMARY)(fisher.fisher)
download.command("hub5", short_help=hub5.SUMMARY)(hub5.hub5)
