"""`prepcli download aishell`."""

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

SUMMARY = "Mandarin, 178 h, 16 kHz. Archive 15.6 GB, Apache 2.0, fetched from OpenSLR."


def aishell(
    data_root: DataRoot,
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
    """Fetch AISHELL-1 and make NeMo manifests of it.

    Writes D/data_aishell/train.json, dev.json and test.json, and vocab.txt with the characters of all texts, the most
    frequent first. The recordings stay as they are published. Texts have no blanks.

    Run the same command again to continue.

    Example: prepcli download aishell --data-root data/
    """
    from prepcli.cli.download.running import run_data_sets
    from prepcli.corpora import aishell as corpus

    options = run_options(num_workers, overwrite, max_rejects, rank, world_size, launch_id)
    fetching = fetching_options(base_url, archive, checksums, keep_archives, options)
    chosen = [corpus.data_set()]
    run_data_sets(chosen, data_root, fetching, options, fetch_only=fetch_only, dry_run=dry_run, as_json=as_json)
