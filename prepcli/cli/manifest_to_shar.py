"""`prepcli manifest-to-shar`."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from prepcli.cli.groups import takes
from prepcli.cli.options import AudioBaseDir, JobOptions


class AudioFormat(str, Enum):
    """What the audio in the tars is encoded as; `original` keeps every file's own format."""

    flac = "flac"
    wav = "wav"
    opus = "opus"
    original = "original"


@takes(common=JobOptions)
def manifest_to_shar(
    manifest: Annotated[
        str, typer.Argument(metavar="MANIFEST", help="NeMo manifest(s): a path, several with commas, or brace forms.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Directory of the Shar data set.")],
    audio_base_dir: AudioBaseDir = None,
    shard_size: Annotated[int, typer.Option(min=1, help="Records a shard, at most.")] = 4096,
    audio_format: Annotated[
        AudioFormat, typer.Option(help="Encode audio to this format; original: to each file's own.")
    ] = AudioFormat.flac,
    target_sample_rate: Annotated[
        int | None, typer.Option(help="Resample to this rate (Hz).", show_default="as the files are; opus: 48000")
    ] = None,
    shuffle: Annotated[bool, typer.Option("--shuffle/--no-shuffle", help="Shuffle records over all shards.")] = False,
    shuffle_seed: Annotated[int, typer.Option(help="Seed of --shuffle.")] = 0,
    *,
    common: JobOptions,
) -> None:
    """Turn NeMo manifests, with or without context audio, into Lhotse Shar shards for Magpie-TTS.

    Writes OUT/cuts/cuts.{000000}.jsonl.gz, OUT/target_audio/recording.{000000}.tar and, where the records name a
    context, OUT/context_audio/recording.{000000}.tar, as CutSet.from_shar(fields=...) and NeMo's
    MagpieTTSLhotseDataset read them. Within a shard a segment is decoded and encoded once, however many records
    use it; a whole mono file that is in the right format and rate already is copied byte for byte.

    Memory, per worker: 256 MB of encoded audio that the shard will need again (what exceeds it waits in a file
    beside OUT), the longest segment decoded, and about 10 MB for each 4096 records of --shard-size; shared by all
    workers: 60 bytes a record of the manifests.

    Run the same command again to continue after an interruption.

    Example: prepcli manifest-to-shar train_withContextAudio.json shar/ --audio-base-dir audio/ --shard-size 4096
    """
    from prepcli.cli.output import run_or_plan
    from prepcli.engine.workspace import Workspace
    from prepcli.manifest.sources import expand_paths
    from prepcli.shar.job import SharJob
    from prepcli.shar.plan import SharOptions

    engine = common.engine()
    options = SharOptions(
        audio_base_dir=audio_base_dir,
        shard_size=shard_size,
        audio_format=audio_format.value,
        target_sample_rate=target_sample_rate,
        shuffle=shuffle,
        shuffle_seed=shuffle_seed,
    )
    workspace = Workspace(out)
    work = None if common.dry_run else workspace.root
    job = SharJob(expand_paths(manifest), out, work, options, num_workers=engine.num_workers)
    run_or_plan(job, workspace, engine, dry_run=common.dry_run, as_json=common.as_json)
