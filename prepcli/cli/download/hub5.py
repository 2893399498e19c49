"""`prepcli download hub5`."""

from pathlib import Path
from typing import Annotated

import typer

from prepcli.cli.groups import takes
from prepcli.cli.options import JobOptions

SUMMARY = "English telephone talk, a test set of 11 h, 8 kHz. LDC licence: needs your copy of LDC2002S09, LDC2002T43."


@takes(common=JobOptions)
def hub5(
    data_root: Annotated[
        list[Path],
        typer.Option(
            help="Folder with LDC2002S09 and LDC2002T43; may be given more than once.", exists=True, file_okay=False
        ),
    ],
    dest_root: Annotated[Path, typer.Option(help="Directory of the slices and the manifest.")],
    min_slice_duration: Annotated[
        float, typer.Option(min=0, help="Seconds of speech a slice, at least; 0: each utterance by itself.")
    ] = 10.0,
    *,
    common: JobOptions,
) -> None:
    """Slice a licensed copy of the 2000 HUB5 English evaluation (11 hours, from the LDC) into a test set.

    Reads hub5e_00/english/*.sph and the reference hub5e00.english.000405.stm, less the stretches that it leaves out
    of scoring. Writes DEST/audio/en_4156_a_001.wav (8 kHz, 16 bits), DEST/manifest_hub5.json and DEST/vocab.txt, the
    characters of the texts.

    Slices are made as by `download fisher`. Recordings that are compressed with shorten need sph2pipe
    (`lhotse install-sph2pipe`). Run the same command again to continue after an interruption.

    Example: prepcli download hub5 --data-root /corpora/LDC --dest-root hub5/
    """
    from prepcli.cli.output import run_or_plan
    from prepcli.corpora.published.hub5 import Hub5
    from prepcli.corpora.slices import Hub5Job
    from prepcli.engine.workspace import Workspace

    engine = common.engine()
    workspace = Workspace(dest_root)
    job = Hub5Job(Hub5(data_root), workspace, min_slice_duration, num_workers=engine.num_workers)
    run_or_plan(job, workspace, engine, dry_run=common.dry_run, as_json=common.as_json)
