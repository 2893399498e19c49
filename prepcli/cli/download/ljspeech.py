"""`prepcli download ljspeech`."""

from typing import Annotated

import typer

from prepcli.cli.download.options import (
    Archives,
    BaseUrl,
    Checksums,
    DataRoot,
    FetchOnly,
    KeepArchives,
    fetching_options,
)
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

SUMMARY = "English, one reader, 24 h, 22.05 kHz. Archive 2.7 GB, public domain, fetched from keithito.com."


def ljspeech(
    data_root: DataRoot,
    val_size: Annotated[int, typer.Option(min=0, help="Utterances of the validation part.")] = 100,
    test_size: Annotated[int, typer.Option(min=0, help="Utterances of the test part.")] = 500,
    split_seed: Annotated[int, typer.Option(help="Another seed gives another split; the same on every machine.")] = 0,
    base_url: BaseUrl = None,
    archive: Archives = None,
    checksums: Checksums = None,
    keep_archives: KeepArchives = False,
    fetch_only: FetchOnly = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    overwrite: Overwrite = False,
    max_rejects: MaxRejects = 0.05,
    num_workers: NumWorkers = None,
    rank: RankNumber = None,
    world_size: WorldSize = None,
    launch_id: LaunchId = None,
) -> None:
    """Fetch LJSpeech 1.1 and make NeMo manifests of it, and the file lists of Tacotron 2 and WaveGlow.

    Writes D/LJSpeech-1.1/{train,val,test}_manifest.json with text and normalized_text, and
    D/filelists/ljs_audio_text_{train,val,test}_filelist.txt with lines path|normalised text, paths from D.
    The recordings stay as they are published.

    Run the same command again to continue.

    Example: prepcli download ljspeech --data-root data/
    """
    from prepcli.cli.download.running import run_data_sets
    from prepcli.corpora import ljspeech as corpus

    options = run_options(num_workers, overwrite, max_rejects, rank, world_size, launch_id)
    fetching = fetching_options(base_url, archive, checksums, keep_archives, options)
    chosen = [corpus.data_set(val_size, test_size, split_seed)]
    run_data_sets(chosen, data_root, fetching, options, fetch_only=fetch_only, dry_run=dry_run, as_json=as_json)
