"""`prepcli download an4`."""

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

SUMMARY = "English, spelling, 1,078 utterances, 16 kHz. Archive 64 MB, licence not stated, fetched from NVIDIA or CMU."


def an4(
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
    """Fetch AN4 (CMU's census database) and make NeMo manifests of it.

    Writes D/an4/train_manifest.json, D/an4/test_manifest.json and a .wav beside each .sph. Nobody publishes a checksum
    of the archive: its length, the CRC inside and the end of the tar are checked; --checksums takes your own.

    Run the same command again to continue.

    Example: prepcli download an4 --data-root data/
    """
    from prepcli.cli.download.running import run_data_sets
    from prepcli.corpora import an4 as corpus

    options = run_options(num_workers, overwrite, max_rejects, rank, world_size, launch_id)
    fetching = fetching_options(base_url, archive, checksums, keep_archives, options)
    chosen = [corpus.data_set()]
    run_data_sets(chosen, data_root, fetching, options, fetch_only=fetch_only, dry_run=dry_run, as_json=as_json)
