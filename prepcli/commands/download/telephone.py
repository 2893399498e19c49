"""The corpora of `download` that are telephone calls, cut into slices; each is a command."""

from typing import TYPE_CHECKING, Annotated

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DestRoot
from prepcli.engine.run.options import JobArguments
from prepcli.errors import UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, listed

if TYPE_CHECKING:
    from prepcli.engine.run.report import Report


@command("download fisher")
def download_fisher(
    ldc_root: Annotated[
        Paths,
        Option(
            "Folder with LDC2004S13, LDC2005S13 or both, and their transcripts. Repeatable.",
            must_exist="folder",
            shapes_output=False,
        ),
    ],
    dest_root: DestRoot,
    *,
    min_slice_duration: Annotated[float, Option("Minimum seconds of speech per slice.", minimum=0)] = 10.0,
    keep_low_conf: Annotated[bool, Option("Keep lines with (( )), where the transcriber was not sure.")] = False,
    remove_noises: Annotated[bool, Option("Remove [laughter], [noise] and similar marks from the text.")] = False,
    noises_to_emoji: Annotated[bool, Option("Write laughter and other noises as emoji.")] = False,
    **more: Unpack[JobArguments],
) -> "Report":
    """Slice a licensed copy of Fisher English (1,960 hours, from the LDC) into utterances of one speaker.

    Reads LDC2004S13-Part1 and LDC2005S13-Part2 as the LDC ships them, or one of the two. Writes
    DEST/{train,val,test}/fe_03_NNNNN_A_001.wav (8 kHz, 16 bits) and DEST/manifest_{train,val,test}.json: 80, 10 and
    10 % of the conversations by their sorted numbers.

    A slice joins utterances of one speaker, without the silence between them, until --min-slice-duration is reached;
    the remainder at the end of a conversation is listed as a reject. A record is a line of a transcript. Recordings
    that are compressed with shorten need sph2pipe (`lhotse install-sph2pipe`); the others are read directly.

    Memory per worker: one slice, or one whole conversation (80 MB) if it is compressed. Run the same command again to
    continue after an interruption.

    Example: prepcli download fisher --ldc-root /corpora/LDC --dest-root fisher/ --remove-noises

    Returns:
        The report of the run; `outputs` are the manifests, `details["slices"]` is the number of slices.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_fisher("LDC", "fisher", remove_noises=True)
        >>> report.outputs["manifest_train"]
        '/.../fisher/manifest_train.json'
    """
    from pathlib import Path

    from prepcli.commands.download.published import fisher
    from prepcli.commands.download.slices import slice_corpus
    from prepcli.commands.download.spoken_text import Noises

    if remove_noises and noises_to_emoji:
        raise UsageError(f"{option('--remove-noises')} and {option('--noises-to-emoji')} exclude each other")
    noises = Noises.REMOVE if remove_noises else Noises.EMOJI if noises_to_emoji else Noises.KEEP
    corpus = fisher.corpus([Path(path) for path in listed(ldc_root)], keep_low_conf, noises)
    return slice_corpus(corpus, Path(dest_root), min_slice_duration)


@command("download hub5")
def download_hub5(
    data_root: Annotated[
        Paths,
        Option(
            "Folder with LDC2002S09 and LDC2002T43. Repeatable.",
            must_exist="folder",
            shapes_output=False,
        ),
    ],
    dest_root: DestRoot,
    *,
    min_slice_duration: Annotated[
        float, Option("Minimum seconds of speech per slice; 0: one slice per utterance.", minimum=0)
    ] = 10.0,
    **more: Unpack[JobArguments],
) -> "Report":
    """Slice a licensed copy of the 2000 HUB5 English evaluation (11 hours, from the LDC) into a test set.

    Reads hub5e_00/english/*.sph and the reference hub5e00.english.000405.stm, without the segments that it
    excludes from scoring. Writes DEST/audio/en_4156_a_001.wav (8 kHz, 16 bits), DEST/manifest_hub5.json and
    DEST/vocab.txt, the characters of the texts.

    Slices are made as in `download fisher`. Recordings that are compressed with shorten need sph2pipe
    (`lhotse install-sph2pipe`). Run the same command again to continue after an interruption.

    Example: prepcli download hub5 --data-root /corpora/LDC --dest-root hub5/

    Returns:
        The report of the run; `outputs` are the manifests, `details["slices"]` is the number of slices.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_hub5("LDC", "hub5")
        >>> report.outputs["manifest_hub5"]
        '/.../hub5/manifest_hub5.json'
    """
    from pathlib import Path

    from prepcli.commands.download.published import hub5
    from prepcli.commands.download.slices import slice_corpus

    return slice_corpus(hub5.corpus([Path(path) for path in listed(data_root)]), Path(dest_root), min_slice_duration)
