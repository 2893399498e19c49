"""Options that the commands of `prepcli download` share."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from prepcli.corpora.prepare import Fetching
    from prepcli.engine.run import RunOptions


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


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Where archives come from, and whether to stop when they are there."""

    base_url: BaseUrl = None
    archive: Archives = None
    checksums: Checksums = None
    keep_archives: KeepArchives = False
    fetch_only: FetchOnly = False

    def fetching(self, engine: "RunOptions") -> "Fetching":
        """The same for `prepcli.corpora.prepare`; raises `UsageError` for a list of checksums that is none."""
        from prepcli.corpora.fetch import read_checksums
        from prepcli.corpora.prepare import Fetching

        return Fetching(
            base_url=self.base_url,
            archives=tuple(self.archive or ()),
            checksums=read_checksums(self.checksums) if self.checksums else {},
            keep_archives=self.keep_archives,
            overwrite=engine.overwrite and not engine.rank.restarts,
            num_workers=engine.num_workers,
        )
