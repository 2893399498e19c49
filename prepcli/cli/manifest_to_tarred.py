"""`prepcli manifest-to-tarred`."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from prepcli.cli.groups import takes
from prepcli.cli.options import AudioBaseDir, JobOptions


class Codec(str, Enum):
    """Formats that audio can be encoded to."""

    flac = "flac"
    wav = "wav"
    opus = "opus"
    mp3 = "mp3"


class Remainder(str, Enum):
    """What happens to the records that do not divide evenly."""

    spread = "spread"
    drop = "drop"


@takes(common=JobOptions)
def manifest_to_tarred(
    manifest: Annotated[
        str, typer.Argument(metavar="MANIFEST", help="NeMo manifest(s): a path, several with commas, or brace forms.")
    ],
    out: Annotated[
        Path | None,
        typer.Argument(metavar="OUT", help="Directory for the data set (with --concat-to: may be left out)."),
    ] = None,
    num_shards: Annotated[int | None, typer.Option("--num-shards", help="Number of shards.")] = None,
    shard_size: Annotated[int | None, typer.Option("--shard-size", help="Records a shard, at most.")] = None,
    shard_hours: Annotated[float | None, typer.Option("--shard-hours", help="Hours of audio a shard, about.")] = None,
    audio_base_dir: AudioBaseDir = None,
    min_duration: Annotated[float | None, typer.Option(help="Leave out shorter records (seconds).")] = None,
    max_duration: Annotated[
        float | None, typer.Option(help="Leave out records of this length and above (seconds).")
    ] = None,
    shuffle: Annotated[bool, typer.Option("--shuffle/--no-shuffle", help="Shuffle records over all shards.")] = False,
    shuffle_seed: Annotated[int, typer.Option(help="Seed of --shuffle.")] = 0,
    sort_in_shards: Annotated[bool, typer.Option("--sort-in-shards", help="Shortest first within a shard.")] = False,
    keep_files_together: Annotated[
        bool, typer.Option("--keep-files-together", help="All segments of an audio file go into one shard.")
    ] = False,
    slice_with_offset: Annotated[
        bool, typer.Option("--slice-with-offset", help="Cut every segment out and store it alone.")
    ] = False,
    force_codec: Annotated[
        Codec | None, typer.Option(help="Encode audio to this format.", show_default="as the files are")
    ] = None,
    target_sample_rate: Annotated[
        int | None, typer.Option(help="Resample to this rate (Hz).", show_default="as the files are")
    ] = None,
    remainder: Annotated[
        Remainder, typer.Option(help="Spread what does not divide evenly, or drop it (and list it as rejects).")
    ] = Remainder.spread,
    buckets_num: Annotated[
        int, typer.Option(help="Static buckets: as many data sets of equal duration ranges, bucket1/, bucket2/, ...")
    ] = 1,
    dynamic_buckets_num: Annotated[int, typer.Option(help="Duration bins to write into metadata.yaml.")] = 30,
    no_shard_manifests: Annotated[
        bool, typer.Option("--no-shard-manifests", help="Only the one manifest over all shards.")
    ] = False,
    only_manifests: Annotated[
        bool, typer.Option("--only-manifests", help="Write the manifests without the tars, to look at them first.")
    ] = False,
    concat_to: Annotated[
        Path | None, typer.Option("--concat-to", help="Add the shards to the tarred set in this directory.")
    ] = None,
    *,
    common: JobOptions,
) -> None:
    """Turn NeMo manifests into tar shards with their manifests.

    Writes OUT/audio_{i}.tar, OUT/sharded_manifests/manifest_{i}.json, OUT/tarred_audio_manifest.json and
    OUT/metadata.yaml, as NeMo's data loaders and webdataset read them. Files that need no change are copied
    byte for byte. Run the same command again to continue after an interruption.

    Example: prepcli manifest-to-tarred train.json tarred/ --num-shards 64 --shuffle --force-codec flac
    """
    from prepcli.cli.output import run_or_plan
    from prepcli.engine.workspace import Workspace
    from prepcli.errors import UsageError
    from prepcli.manifest.sources import expand_paths
    from prepcli.tarred.concat import concat_job
    from prepcli.tarred.job import TarredJob
    from prepcli.tarred.plan import TarredOptions

    engine = common.engine()
    options = TarredOptions(
        num_shards=num_shards,
        shard_size=shard_size,
        shard_hours=shard_hours,
        audio_base_dir=audio_base_dir,
        min_duration=min_duration,
        max_duration=max_duration,
        shuffle=shuffle,
        shuffle_seed=shuffle_seed,
        sort_in_shards=sort_in_shards,
        keep_files_together=keep_files_together,
        slice_with_offset=slice_with_offset,
        force_codec=force_codec.value if force_codec else None,
        target_sample_rate=target_sample_rate,
        remainder=remainder.value,
        buckets_num=buckets_num,
        dynamic_buckets_num=dynamic_buckets_num,
        shard_manifests=not no_shard_manifests,
        only_manifests=only_manifests,
    )
    manifests = expand_paths(manifest)
    if concat_to is not None:
        if out is not None and out.absolute() != concat_to.absolute():
            raise UsageError(f"--concat-to {concat_to} adds to that directory; leave OUT ({out}) out")
        job, workspace = concat_job(manifests, concat_to, options, engine.num_workers, common.dry_run, common.overwrite)
    elif out is None:
        raise UsageError("OUT is missing: where should the data set go?")
    else:
        workspace = Workspace(out)
        work = None if common.dry_run else workspace.root
        job = TarredJob(manifests, out, work, options, num_workers=engine.num_workers)
    run_or_plan(job, workspace, engine, dry_run=common.dry_run, as_json=common.as_json)
