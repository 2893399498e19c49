"""HiFiTTS-2: 36,700 hours of English audio books; manifests on the Hugging Face Hub, recordings at LibriVox."""

from typing import TYPE_CHECKING, Annotated, Literal

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DataRoot
from prepcli.engine.run.options import JobArguments
from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText

if TYPE_CHECKING:
    from prepcli.commands.download.report import DownloadReport


@command("download hifitts2")
def download_hifitts2(
    data_root: DataRoot,
    *,
    sampling_rate: Annotated[
        Literal["22khz", "44khz"], Option("The edition: 22.05 kHz, or the part of it at 44.1 kHz.")
    ] = "22khz",
    metadata: Annotated[
        PathText | None,
        Option(
            "Folder with the published manifests, instead of fetching them.",
            metavar="DIR",
            must_exist="folder",
            shapes_output=False,
        ),
    ] = None,
    chapters: Annotated[
        PathText | None,
        Option(
            "Folder with a copy of the chapters under their published paths, instead of fetching them.",
            metavar="DIR",
            must_exist="folder",
            shapes_output=False,
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        Option(
            "Fetch manifests and chapters below this address.",
            shown_default="the publishers'",
            shapes_output=False,
        ),
    ] = None,
    fetch_only: Annotated[bool, Option("Only fetch the published manifests.", shapes_output=False)] = False,
    **more: Unpack[JobArguments],
) -> "DownloadReport":
    """Cut the audio books of HiFiTTS-2 into utterances, and make NeMo manifests of them.

    Reads the published manifest_22khz.json and chapters_22khz.json, which are fetched or in --metadata. Each chapter is
    fetched from LibriVox, or read below --chapters, compared with its published duration, resampled and cut; its file
    is not kept. Writes D/hifitts2_22khz/{train,dev_seen,dev_unseen,test_seen,test_unseen}.json with the published
    fields, the speaker as Magpie-TTS needs it, and the measured duration; the FLAC files lie beside them.

    A record is a line of the published manifest. A chapter that is gone or has changed makes rejects of its records.
    Memory per worker: a whole chapter, 0.6 GB for an hour at 44.1 kHz. Run the same command again to continue.

    Example: prepcli download hifitts2 --data-root data/ --max-rejects 0.1

    Returns:
        The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.

    Raises:
        UsageError: the data set is unknown, other files are in its place, or the given archive is damaged.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_hifitts2("data", metadata="hifitts2", chapters="chapters")
        >>> report.outputs["train"]
        '/.../data/hifitts2_22khz/train.json'
    """
    from prepcli.commands.download.chapters import cut_corpus

    return cut_corpus()
