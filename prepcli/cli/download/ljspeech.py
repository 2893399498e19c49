"""`prepcli download ljspeech`."""

from typing import Annotated

import typer

from prepcli.cli.download.options import DataRoot, FetchOptions
from prepcli.cli.groups import takes
from prepcli.cli.options import JobOptions

SUMMARY = "English, one reader, 24 h, 22.05 kHz. Archive 2.7 GB, public domain, fetched from keithito.com."


@takes(fetch=FetchOptions, common=JobOptions)
def ljspeech(
    data_root: DataRoot,
    val_size: Annotated[int, typer.Option(min=0, help="Utterances of the validation part.")] = 100,
    test_size: Annotated[int, typer.Option(min=0, help="Utterances of the test part.")] = 500,
    split_seed: Annotated[int, typer.Option(help="Another seed gives another split; the same on every machine.")] = 0,
    *,
    fetch: FetchOptions,
    common: JobOptions,
) -> None:
    """Fetch LJSpeech 1.1 and make NeMo manifests of it, and the file lists of Tacotron 2 and WaveGlow.

    Writes D/LJSpeech-1.1/{train,val,test}_manifest.json with text and normalized_text, and
    D/filelists/ljs_audio_text_{train,val,test}_filelist.txt with lines path|normalised text, paths from D.
    The recordings stay as they are published.

    Run the same command again to continue.

    Example: prepcli download ljspeech --data-root data/
    """
    from prepcli.cli.download.running import run_data_sets
    from prepcli.corpora.published import ljspeech as corpus

    chosen = [corpus.data_set(val_size, test_size, split_seed)]
    run_data_sets(chosen, data_root, fetch, common)
