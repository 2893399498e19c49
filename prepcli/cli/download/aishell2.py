"""`prepcli download aishell2`."""

from pathlib import Path
from typing import Annotated

import typer

from prepcli.cli.download.options import DataRoot
from prepcli.cli.options import (
    DryRun,
    Json,
    LaunchId,
    MaxRejects,
    NumWorkers,
    Overwrite,
    RankNumber,
    WorldSize,
    run_options,
)

SUMMARY = "Mandarin, 1,000 h, 16 kHz. Free for academic use, on request to AISHELL: needs your copy."


def aishell2(
    audio_folder: Annotated[
        Path,
        typer.Option(
            "--audio-folder", exists=True, file_okay=False, help="The corpus: holds iOS/data, or transcript/ and wav/."
        ),
    ],
    data_root: DataRoot,
    dry_run: DryRun = False,
    as_json: Json = False,
    overwrite: Overwrite = False,
    max_rejects: MaxRejects = 0.05,
    num_workers: NumWorkers = None,
    rank: RankNumber = None,
    world_size: WorldSize = None,
    launch_id: LaunchId = None,
) -> None:
    """Make NeMo manifests of a copy of AISHELL-2.

    Writes D/train.json, dev.json and test.json (what is there of them), and D/vocab.txt with the characters of the
    training texts, the most frequent first. The recordings stay where they are; the manifests name them absolutely.

    Example: prepcli download aishell2 --audio-folder AISHELL-2/ --data-root data/
    """
    from prepcli.cli.download.running import run_data_sets
    from prepcli.corpora import aishell2 as corpus
    from prepcli.corpus_fetch import Fetching

    options = run_options(num_workers, overwrite, max_rejects, rank, world_size, launch_id)
    chosen = [corpus.data_set(audio_folder)]
    run_data_sets(chosen, data_root, Fetching(), options, fetch_only=False, dry_run=dry_run, as_json=as_json)
