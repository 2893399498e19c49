"""download lhotse: makes manifests of a corpus that lhotse prepares."""

from typing import TYPE_CHECKING, Annotated

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DataRoot
from prepcli.engine.run.options import JobArguments
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths

if TYPE_CHECKING:
    from prepcli.commands.download.report import DownloadReport


@command("download lhotse")
def download_lhotse(
    recipe: Annotated[
        str,
        Option(
            "Name of the recipe; prepcli download --list has all.",
            metavar="RECIPE",
            is_argument=True,
            shapes_output=False,
        ),
    ],
    data_root: DataRoot,
    corpus: Annotated[
        Paths,
        Option(
            "Folder of the corpus; for some recipes several arguments, or none, as lhotse prepare takes them before "
            "its output folder.",
            metavar="[CORPUS_DIR]...",
            is_argument=True,
            may_be_path=True,
            shapes_output=False,
        ),
    ] = (),
    *,
    recipe_options: Annotated[
        str,
        Option(
            "Options of the recipe, in quotes, such as '--mic sdm --num-jobs 4'.",
            metavar="TEXT",
            shown_default="lhotse's",
            shapes_output=False,
        ),
    ] = "",
    run_commands: Annotated[
        bool,
        Option(
            "Run the commands of recordings whose audio is the output of a command. Only for a corpus that you trust.",
            shapes_output=False,
        ),
    ] = False,
    **more: Unpack[JobArguments],
) -> "DownloadReport":
    """Make NeMo manifests of a corpus that lhotse prepares, from your copy.

    Runs `lhotse prepare RECIPE` in a process of its own: it reads (and sometimes unpacks or fetches) as lhotse does,
    without the checks of prepcli's own corpora. Then joins recordings and supervisions as make-manifest does, and
    writes D/<part>.json for each part: durations are measured, a text that is longer than its audio is a reject,
    languages become codes. lhotse's own manifests stay in D.prepcli/. Audio in D is named relative to the manifest,
    other audio by its absolute path.

    Run the same command again to continue: a recipe that has ended is not run again, one that was stopped starts again.

    Example: prepcli download lhotse ljspeech LJSpeech-1.1/ --data-root data/

    Returns:
        The report; `data_sets` has the report of each part by its name. `outputs` are the manifests.

    Raises:
        UsageError: the recipe is unknown, no manifest can be made of its output, the arguments do not fit the recipe,
            lhotse is not installed, or several ranks run before the recipe has run once.
        PrepcliError: the recipe has failed; the message has the command to run by hand.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_lhotse("ljspeech", corpus="LJSpeech-1.1", data_root="data")
        >>> report.outputs["ljspeech_all"]
        '/.../data/ljspeech_all.json'
    """
    from prepcli.commands.download.lhotse import make_parts

    return make_parts()
