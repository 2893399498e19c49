"""`prepcli download librispeech`."""

from typing import Annotated

import typer

from prepcli.cli.download.options import AudioFormat, DataRoot, FetchOptions
from prepcli.cli.groups import takes
from prepcli.cli.options import JobOptions

SUMMARY = "English, 982 h, 16 kHz. Archives 61 GB (mini 0.5 GB), CC BY 4.0, fetched from OpenSLR."


@takes(fetch=FetchOptions, common=JobOptions)
def librispeech(
    data_root: DataRoot,
    data_sets: Annotated[
        str,
        typer.Option(
            "--data-sets",
            help="dev_clean, dev_other, test_clean, test_other, train_clean_100, train_clean_360, train_other_500, "
            "with commas between; ALL of these; or mini (dev_clean_2 and train_clean_5).",
        ),
    ] = "dev_clean",
    audio_format: Annotated[
        AudioFormat, typer.Option(help="wav: convert the published FLAC; flac: use it as it is.")
    ] = AudioFormat.wav,
    *,
    fetch: FetchOptions,
    common: JobOptions,
) -> None:
    """Fetch LibriSpeech or Mini LibriSpeech and make NeMo manifests of it.

    Writes D/LibriSpeech/<set>-processed/*.wav and D/<data_set>.json with audio_filepath, duration, lower-case text,
    speaker and chapter. Paths are relative to the manifest. The archives are checked by the published checksums.

    Run the same command again to continue, also in the middle of an archive; other data sets can be added later.

    Example: prepcli download librispeech --data-root data/ --data-sets dev_clean,train_clean_100
    """
    from prepcli.cli.download.running import run_data_sets
    from prepcli.corpora.published import librispeech as corpus

    chosen = corpus.data_sets(data_sets, audio_format.value)
    run_data_sets(chosen, data_root, fetch, common)
