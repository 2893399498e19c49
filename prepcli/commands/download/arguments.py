"""The decorator of corpora that are a description, and options that the commands of several corpora share."""

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypedDict

from prepcli.commands.download.data_set import CorpusPart
from prepcli.engine.run.options import JobArguments
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, PathText

if TYPE_CHECKING:
    from prepcli.commands.download.report import DownloadReport

P = ParamSpec("P")
_SECTIONS = """
Returns:
    The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.

Raises:
    UsageError: the data set is unknown, other files are in its place, or the given archive is damaged.

Examples:
"""

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


def corpus(name: str) -> Callable[[Callable[P, CorpusPart | list[CorpusPart]]], Callable[P, "DownloadReport"]]:
    """Make the command `download NAME` of a function that returns the parts of a corpus, which are then made.

    The docstring gets the sections `Returns` and `Raises`, before its `Examples`; they are the same for all corpora.
    """

    def made(describe: Callable[P, CorpusPart | list[CorpusPart]]) -> Callable[P, "DownloadReport"]:
        @functools.wraps(describe)
        def download(*args: P.args, **kwargs: P.kwargs) -> "DownloadReport":
            from prepcli.commands.download.job import make_manifests

            parts = describe(*args, **kwargs)
            return make_manifests(parts if isinstance(parts, list) else [parts])

        download.__doc__ = (inspect.getdoc(describe) or "").replace("\nExamples:\n", _SECTIONS)
        download.__annotations__ = describe.__annotations__ | {"return": "DownloadReport"}
        return command(f"download {name}")(download)

    return made
