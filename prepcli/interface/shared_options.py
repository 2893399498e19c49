"""Options that several commands have: the type, the help text and the limits of each are declared here."""

from pathlib import Path
from typing import Annotated

from prepcli.interface.options import Option
from prepcli.storage.paths import AnyPath

AudioBaseDir = Annotated[
    AnyPath | None,
    Option(
        "Base folder of relative audio paths.",
        shown_default="the manifest's folder",
        must_exist="folder",
        order=-1,
    ),
]
Manifest = Annotated[
    str,
    Option(
        "NeMo manifest(s): a path, several separated by commas, or a brace pattern.",
        metavar="MANIFEST",
        several_paths=True,
        is_argument=True,
        shapes_output=False,
        takes_address=True,
    ),
]
WorkDir = Annotated[
    Path | None,
    Option(
        "For an OUT in an object store (s3://bucket/prefix): the folder for the state of the run, which all ranks "
        "share.",
        shown_default="the current folder",
        metavar="DIR",
        shapes_output=False,
        order=2,
    ),
]
Channel = Annotated[
    str | None,
    Option(
        "Channel to take of audio with several: a number from 0, for records that do not name one in their field "
        "channel, or mix, the mean of all.",
        metavar="N|mix",
        shown_default="as its readers need, see the formats in the docs",
    ),
]
Json = Annotated[
    bool,
    Option(
        "Print the summary as one JSON object on stdout.", names=("--json",), only="command line", shapes_output=False
    ),
]
NumWorkers = Annotated[
    int | None,
    Option(
        "Number of local worker processes.",
        minimum=1,
        shown_default="available CPU cores",
        shapes_output=False,
    ),
]
MaxRejects = Annotated[
    float,
    Option(
        "Maximum rejects: a share (below 1) or a count; records that your settings leave out do not count. "
        "More rejects: exit code 3.",
        shapes_output=False,
        help_in_python="Maximum rejects: a share (below 1) or a count; records that your settings leave out do not "
        "count. More rejects: TooManyRejectsError.",
    ),
]
Progress = Annotated[
    bool,
    Option("Show a progress bar and notes on stderr.", only="Python", shapes_output=False),
]
