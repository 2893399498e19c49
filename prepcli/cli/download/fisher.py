"""`prepcli download fisher`."""

from pathlib import Path
from typing import Annotated

import typer

from prepcli.cli.groups import takes
from prepcli.cli.options import JobOptions

SUMMARY = "English telephone talk, 1,960 h, 8 kHz. LDC licence: needs your copy of LDC2004S13, LDC2005S13 or both."


@takes(common=JobOptions)
def fisher(
    ldc_root: Annotated[
        list[Path],
        typer.Option(
            help="Folder with LDC2004S13, LDC2005S13 or both, and their transcripts; may be given more than once.",
            exists=True,
            file_okay=False,
        ),
    ],
    dest_root: Annotated[Path, typer.Option(help="Directory of the slices and manifests.")],
    min_slice_duration: Annotated[float, typer.Option(min=0, help="Seconds of speech a slice, at least.")] = 10.0,
    keep_low_conf: Annotated[
        bool, typer.Option("--keep-low-conf", help="Keep lines with (( )), of which the transcriber was not sure.")
    ] = False,
    remove_noises: Annotated[
        bool, typer.Option("--remove-noises", help="Leave [laughter], [noise] and the like out of the text.")
    ] = False,
    noises_to_emoji: Annotated[
        bool, typer.Option("--noises-to-emoji", help="Write laughter and other noises as emoji.")
    ] = False,
    *,
    common: JobOptions,
) -> None:
    """Slice a licensed copy of Fisher English (1,960 hours, from the LDC) into utterances of one speaker.

    Reads LDC2004S13-Part1 and LDC2005S13-Part2 as the LDC ships them, one part alone as well. Writes
    DEST/{train,val,test}/fe_03_NNNNN_A_001.wav (8 kHz, 16 bits) and DEST/manifest_{train,val,test}.json: 80, 10 and
    10 % of the conversations by their sorted numbers.

    A slice joins utterances of one speaker until --min-slice-duration is reached, without the silence between them;
    what is left at the end of a conversation is listed as a reject. A record is a line of a transcript. Recordings
    that are compressed with shorten need sph2pipe (`lhotse install-sph2pipe`); the others are read as they are.

    Memory, per worker: a slice, or a whole conversation (80 MB in all) where it is compressed. Run the same command
    again to continue after an interruption.

    Example: prepcli download fisher --ldc-root /corpora/LDC --dest-root fisher/ --remove-noises
    """
    from prepcli.cli.output import run_or_plan
    from prepcli.corpora.published.fisher import Fisher
    from prepcli.corpora.slices import FisherJob
    from prepcli.corpora.spoken_text import Noises
    from prepcli.engine.workspace import Workspace
    from prepcli.errors import UsageError

    if remove_noises and noises_to_emoji:
        raise UsageError("--remove-noises and --noises-to-emoji exclude each other")
    noises = Noises.REMOVE if remove_noises else Noises.EMOJI if noises_to_emoji else Noises.KEEP
    engine = common.engine()
    workspace = Workspace(dest_root)
    job = FisherJob(
        Fisher(ldc_root, keep_low_conf, noises),
        workspace,
        min_slice_duration,
        {"keep-low-conf": keep_low_conf, "remove-noises": remove_noises, "noises-to-emoji": noises_to_emoji},
        num_workers=engine.num_workers,
    )
    run_or_plan(job, workspace, engine, dry_run=common.dry_run, as_json=common.as_json)
