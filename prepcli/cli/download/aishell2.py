"""`prepcli download aishell2`."""

from pathlib import Path
from typing import Annotated

import typer

from prepcli.cli.download.options import DataRoot, FetchOptions
from prepcli.cli.groups import takes
from prepcli.cli.options import JobOptions

SUMMARY = "Mandarin, 1,000 h, 16 kHz. Free for academic use, on request to AISHELL: needs your copy."


@takes(common=JobOptions)
def aishell2(
    audio_folder: Annotated[
        Path,
        typer.Option(
            "--audio-folder", exists=True, file_okay=False, help="The corpus: holds iOS/data, or transcript/ and wav/."
        ),
    ],
    data_root: DataRoot,
    *,
    common: JobOptions,
) -> None:
    """Make NeMo manifests of a copy of AISHELL-2.

    Writes D/train.json, dev.json and test.json (what is there of them), and D/vocab.txt with the characters of the
    training texts, the most frequent first. The recordings stay where they are; the manifests name them absolutely.

    Example: prepcli download aishell2 --audio-folder AISHELL-2/ --data-root data/
    """
    from prepcli.cli.download.running import run_data_sets
    from prepcli.corpora.published import aishell2 as corpus

    run_data_sets([corpus.data_set(audio_folder)], data_root, FetchOptions(), common)
