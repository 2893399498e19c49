"""`prepcli download an4`."""

from prepcli.cli.download.options import DataRoot, FetchOptions
from prepcli.cli.groups import takes
from prepcli.cli.options import JobOptions

SUMMARY = "English, spelling, 1,078 utterances, 16 kHz. Archive 64 MB, licence not stated, fetched from NVIDIA or CMU."


@takes(fetch=FetchOptions, common=JobOptions)
def an4(data_root: DataRoot, *, fetch: FetchOptions, common: JobOptions) -> None:
    """Fetch AN4 (CMU's census database) and make NeMo manifests of it.

    Writes D/an4/train_manifest.json, D/an4/test_manifest.json and a .wav beside each .sph. Nobody publishes a checksum
    of the archive: its length, the CRC inside and the end of the tar are checked; --checksums takes your own.

    Run the same command again to continue.

    Example: prepcli download an4 --data-root data/
    """
    from prepcli.cli.download.running import run_data_sets
    from prepcli.corpora.published import an4 as corpus

    run_data_sets([corpus.data_set()], data_root, fetch, common)
