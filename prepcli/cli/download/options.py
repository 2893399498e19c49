"""Options that the commands of `prepcli download` share."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from prepcli.corpus_fetch import Fetching
    from prepcli.run.engine import RunOptions


class AudioFormat(str, Enum):
    """What becomes of the published audio."""

    wav = "wav"
    flac = "flac"


DataRoot = Annotated[Path, typer.Option("--data-root", help="Folder for the corpus, its audio and its manifests.")]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        help="Fetch from this address, to which the archive's name is added.",
        show_default="the publisher's",
    ),
]
Archives = Annotated[
    list[Path] | None,
    typer.Option(
        "--archive",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="An archive that is there already, under its published name; checked as if it were fetched. Repeatable.",
        show_default=False,
    ),
]
Checksums = Annotated[
    Path | None,
    typer.Option(
        "--checksums",
        metavar="FILE",
        help="For mirrors with other archives: lines of md5sum or sha256sum, instead of the published checksums.",
    ),
]
KeepArchives = Annotated[bool, typer.Option("--keep-archives", help="Keep the archives in D/archives.")]
FetchOnly = Annotated[
    bool,
    typer.Option("--fetch-only", help="Fetch and unpack, and leave the rest to a later call, perhaps with many ranks."),
]


def fetching_options(
    base_url: str | None,
    archives: list[Path] | None,
    checksums: Path | None,
    keep_archives: bool,
    options: "RunOptions",
) -> "Fetching":
    """Where archives come from, from the command line's options."""
    from prepcli.corpora.fetch import read_checksums
    from prepcli.corpus_fetch import Fetching

    return Fetching(
        base_url=base_url,
        archives=tuple(archives or ()),
        checksums=read_checksums(checksums) if checksums else {},
        keep_archives=keep_archives,
        overwrite=options.overwrite and not options.rank.restarts,
        num_workers=options.num_workers,
    )
