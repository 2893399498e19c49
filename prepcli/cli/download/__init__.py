"""`prepcli download`: a command a corpus, each in a file of its own."""

import typer

from prepcli.cli.download import aishell, aishell2, an4, fisher, hub5, librispeech, ljspeech

download = typer.Typer(
    name="download",
    help="Turn published corpora into audio and NeMo manifests: fetched and checked where that is allowed, or "
    "read from a licensed copy. Each can be stopped and run again at any point.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
download.command("librispeech", short_help=librispeech.SUMMARY)(librispeech.librispeech)
download.command("an4", short_help=an4.SUMMARY)(an4.an4)
download.command("aishell", short_help=aishell.SUMMARY)(aishell.aishell)
download.command("aishell2", short_help=aishell2.SUMMARY)(aishell2.aishell2)
download.command("ljspeech", short_help=ljspeech.SUMMARY)(ljspeech.ljspeech)
download.command("fisher", short_help=fisher.SUMMARY)(fisher.fisher)
download.command("hub5", short_help=hub5.SUMMARY)(hub5.hub5)
