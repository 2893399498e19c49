"""`prepcli download aishell`."""

from prepcli.cli.download.options import DataRoot, FetchOptions
from prepcli.cli.groups import takes
from prepcli.cli.options import JobOptions

SUMMARY = "Mandarin, 178 h, 16 kHz. Archive 15.6 GB, Apache 2.0, fetched from OpenSLR."


@takes(fetch=FetchOptions, common=JobOptions)
def aishell(data_root: DataRoot, *, fetch: FetchOptions, common: JobOptions) -> None:
    """Fetch AISHELL-1 and make NeMo manifests of it.

    Writes D/data_aishell/train.json, dev.json and test.json, and vocab.txt with the characters of all texts, the most
    frequent first. The recordings stay as they are published. Texts have no blanks.

    Run the same command again to continue.

    Example: prepcli download aishell --data-root data/
    """
    from prepcli.cli.download.running import run_data_sets
    from prepcli.corpora.published import aishell as corpus

    run_data_sets([corpus.data_set()], data_root, fetch, common)
