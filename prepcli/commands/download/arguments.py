"""Options that the commands of several corpora share."""

from typing import Annotated, TypedDict

from prepcli.engine.run.options import JobArguments
from prepcli.interface.options import Option, Paths, PathText

DataRoot = Annotated[PathText, Option("Folder for the corpus, its audio and its manifests.", shapes_output=False)]
DestRoot = Annotated[PathText, Option("Directory of the slices and manifests.", shapes_output=False)]


class _Fetching(TypedDict, total=False):
    base_url: Annotated[
        str | None,
        Option(
            "Fetch from this address; the name of the archive is appended.",
            shown_default="the publisher's",
            shapes_output=False,
        ),
    ]
    archive: Annotated[
        Paths,
        Option(
            "An existing archive with its published name; it is checked like a fetched one. Repeatable.",
            metavar="FILE",
            must_exist="file",
            shown_default="",
            shapes_output=False,
            default=(),
        ),
    ]
    extracted: Annotated[
        PathText | None,
        Option(
            "Folder with the corpus as you have unpacked it, instead of an archive. Recordings that need no conversion "
            "stay there.",
            metavar="DIR",
            must_exist="folder",
            shapes_output=False,
            disables=("base_url", "archive", "checksums", "keep_archives", "fetch_only"),
        ),
    ]
    checksums: Annotated[
        PathText | None,
        Option(
            "Output of md5sum or sha256sum, used instead of the published checksums; for mirrors with other archives.",
            metavar="FILE",
            shapes_output=False,
        ),
    ]
    keep_archives: Annotated[bool, Option("Keep the archives, in D/archives.", shapes_output=False, default=False)]
    fetch_only: Annotated[
        bool,
        Option(
            "Only fetch and unpack; a later call does the rest, with any number of ranks.",
            shapes_output=False,
            default=False,
        ),
    ]


class FetchArguments(_Fetching, JobArguments, total=False):
    """The options of all corpora that are fetched as archives."""
