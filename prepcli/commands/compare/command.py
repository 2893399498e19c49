"""compare: shows in what two manifests or data sets differ."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText
from prepcli.interface.shared_options import Json, NumWorkers, Progress

if TYPE_CHECKING:
    from prepcli.commands.compare.report import Comparison


@command("compare")
def compare(
    before: Annotated[
        PathText,
        Option("NeMo manifest(s), a data set, or conversations.", metavar="A", is_argument=True, takes_address=True),
    ],
    after: Annotated[
        PathText,
        Option("What it is compared with.", metavar="B", is_argument=True, takes_address=True),
    ],
    *,
    no_audio: Annotated[
        bool, Option("Do not read the audio: files at other paths are then not compared.", names=("--no-audio",))
    ] = False,
    html: Annotated[
        PathText | None, Option("Also write a page with the result.", metavar="FILE.html", names_file=True)
    ] = None,
    num_workers: NumWorkers = None,
    as_json: Json = False,
    progress: Progress = False,
) -> "Comparison":
    """Show in what two manifests or data sets differ: records added, gone and changed, in which fields, and hours.

    Records are matched by their ids, by the paths or names of their audio, or by the names that prepcli's writers make
    of them, and by their offsets: by what matches most, which the result names. Audio that lies at two paths is
    decoded: it is the same file, the same samples in another file, or other audio; so is that of context_audio_filepath
    and ref_audio, if both records have it. Names, paths, offsets and shards do not count. Lines with a true _skipme
    are counted, and not compared. Of conversations the turns are compared.

    Example: prepcli compare release_1/train.json release_2/train.json

    Returns:
        The comparison; `is_same` is true if no record differs, and all audio lies in the same files.

    Raises:
        UsageError: an input cannot be read.

    Examples:
        >>> import prepcli
        >>> found = prepcli.compare("manifest.json", "segments.json")
        >>> found.is_same
        False
    """
    from prepcli.commands.compare.comparing import compare_sets
    from prepcli.commands.compare.page import check_page, write_page
    from prepcli.processes.workers import available_processors

    if html is not None:
        check_page(Path(html))
    found = compare_sets(str(before), str(after), num_workers or available_processors(), reads_audio=not no_audio)
    if html is not None:
        write_page(found, Path(html))
    return found
