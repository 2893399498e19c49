"""The options of `manifest-to-tarred`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from prepcli.audio.channels import chosen_channel
from prepcli.audio.limits import check_target_rate
from prepcli.engine.run.options import JobOptions
from prepcli.errors import UsageError, option
from prepcli.interface.options import Option
from prepcli.interface.shared_options import (
    AudioBaseDir,
    Channel,
    CheckAudio,
    ForceCodec,
    SetInput,
    TargetRate,
    WorkDir,
)
from prepcli.storage.paths import AnyPath

DYNAMIC_BUCKETS = 30


Tarred = TypeVar("Tarred", bound="TarredOptions")


@dataclass(frozen=True)
class TarredOptions(SetInput):
    """The options that shape a tarred data set; durations in seconds, rates in Hz.

    Exactly one of `num_shards`, `shard_size` (records) and `shard_hours` defines how the records are divided. An
    option that is None is not given: `decided` fills in its default. For additions to a set, see module `own_options`.
    """

    num_shards: Annotated[int | None, Option("One of three: number of shards.", minimum=1, order=-1)] = None
    shard_size: Annotated[
        int | None, Option("One of three: maximum number of records per shard.", minimum=1, order=-1)
    ] = None
    shard_hours: Annotated[
        float | None, Option("One of three: approximate hours of audio per shard.", above=0, order=-1)
    ] = None
    audio_base_dir: AudioBaseDir = None
    min_duration: Annotated[float | None, Option("Leave out shorter records (seconds).", minimum=0)] = None
    max_duration: Annotated[float | None, Option("Leave out records of this length and above (seconds).", above=0)] = (
        None
    )
    shuffle: Annotated[bool | None, Option("Shuffle records over all shards.", names=("--shuffle/--no-shuffle",))] = (
        None
    )
    shuffle_seed: Annotated[int | None, Option("Seed of --shuffle.", shown_default="0")] = None
    sort_in_shards: Annotated[bool, Option("Sort the records of each shard by duration, shortest first.")] = False
    keep_files_together: Annotated[bool, Option("Put all segments of an audio file into one shard.")] = False
    slice_with_offset: Annotated[bool, Option("Store each segment as a file of its own.")] = False
    force_codec: ForceCodec = None
    target_sample_rate: TargetRate = None
    channel: Channel = None
    remainder: Annotated[
        Literal["spread", "drop"] | None,
        Option(
            "Records that do not divide evenly: spread them over the shards, or drop them (as rejects).",
            shown_default="spread",
        ),
    ] = None
    buckets_num: Annotated[
        int,
        Option("Static buckets: this many data sets with equal duration ranges, bucket1/, bucket2/, ...", minimum=1),
    ] = 1
    dynamic_buckets_num: Annotated[
        int | None,
        Option(
            "Number of buckets; their duration bins go into metadata.yaml and train_ds.yaml.",
            minimum=2,
            shown_default=str(DYNAMIC_BUCKETS),
        ),
    ] = None
    shard_manifests: Annotated[
        bool,
        Option(
            "Write no manifest per shard, only the one over all shards.",
            names=("--no-shard-manifests",),
            help_in_python="Write a manifest for each shard, in addition to the one over all shards.",
        ),
    ] = True
    index: Annotated[
        bool,
        Option(
            "Write no indexes (.idx). With them, lhotse 2 and NeMo after 3.0 resume in the middle of an epoch.",
            names=("--no-index",),
            help_in_python="Write indexes (.idx), with which lhotse 2 and NeMo after 3.0 resume in mid-epoch.",
        ),
    ] = True
    only_manifests: Annotated[
        bool,
        Option(
            "Write only the manifests, without the tars, to check them first. The same command without it, and with "
            "--overwrite, makes the whole set.",
            disables=("check_audio", "target_sample_rate", "channel"),
        ),
    ] = False
    check_audio: CheckAudio = False
    concat_to: Annotated[
        Path | None,
        Option(
            "Add the shards to the tarred set in this directory. The options that it was made with are the defaults.",
            metavar="DIR",
            shapes_output=False,
        ),
    ] = None
    allow_duplicates: Annotated[
        bool,
        Option("With --concat-to: add records that are in the set already.", shapes_output=False, needs="concat_to"),
    ] = False
    undo_concat: Annotated[
        bool,
        Option(
            "Remove what the last --concat-to has added: the set of --concat-to, or OUT, goes back one version.",
            shapes_output=False,
        ),
    ] = False

    def decided(self: Tarred) -> Tarred:
        """The options; those that are not given get their default, if they have one."""
        return replace(
            self,
            shuffle=bool(self.shuffle),
            shuffle_seed=self.shuffle_seed or 0,
            remainder=self.remainder or "spread",
            dynamic_buckets_num=self.dynamic_buckets_num or DYNAMIC_BUCKETS,
        )

    def check(self) -> None:
        """Check that the options agree.

        Raises:
            UsageError: the message names the options of the command line and says what to do.
        """
        if sum(value is not None for value in (self.num_shards, self.shard_size, self.shard_hours)) != 1:
            raise UsageError(
                f"give one of {option('--num-shards')}, {option('--shard-size')} and {option('--shard-hours')}"
            )
        low, high = self.min_duration, self.max_duration
        if low is not None and high is not None and low >= high:
            raise UsageError(f"{option('--min-duration', low)} leaves nothing below {option('--max-duration', high)}")
        if self.remainder == "drop":
            if self.shard_hours is not None:
                raise UsageError(
                    f"{option('--remainder', 'drop')} makes shards with equal numbers of records: use "
                    f"{option('--num-shards')} or {option('--shard-size')}"
                )
            if self.keep_files_together:
                raise UsageError(
                    f"{option('--remainder', 'drop')} and {option('--keep-files-together')} exclude each other: "
                    "leave one of them out"
                )
        check_target_rate(self.target_sample_rate)
        chosen_channel(self.channel)
        if self.buckets_num > 1 and (high is None or self.shard_hours is not None):
            raise UsageError(
                f"{option('--buckets-num')} needs {option('--max-duration')}, and {option('--num-shards')} or "
                f"{option('--shard-size')} for each bucket"
            )
        if self.shuffle_seed is not None and not self.shuffle:  # not `needs`: `--shuffle` may come from the set
            seed = option("--shuffle-seed")
            raise UsageError(f"{seed} has no effect without {option('--shuffle')}: give both, or leave {seed} out")
        if self.only_manifests and self.slice_with_offset and self.force_codec:
            raise UsageError(f"{option('--only-manifests')} reads no audio: leave out {option('--force-codec')}")


@dataclass(frozen=True, kw_only=True)
class ManifestToTarred(TarredOptions, JobOptions):
    """Turn NeMo manifests into tar shards with their manifests.

    Writes OUT/audio_{i}.tar, OUT/sharded_manifests/manifest_{i}.json, OUT/tarred_audio_manifest.json and
    OUT/metadata.yaml, as NeMo's data loaders and webdataset read them, and beside tars and manifests their indexes
    (.idx). Files that need no change are copied byte for byte. Run the same command again to continue after an
    interruption.

    Example: prepcli manifest-to-tarred train.json tarred/ --num-shards 64 --shuffle --force-codec flac
    """

    manifest: Annotated[
        str | None,
        Option(
            "NeMo manifest(s), or a data set (tarred, Shar, WeNet, webdataset, Parquet, zip): a path, several "
            "separated by commas, or a brace pattern; required, but not with --undo-concat.",
            metavar="MANIFEST",
            is_argument=True,
            shapes_output=False,
            takes_address=True,
        ),
    ] = None
    out: Annotated[
        AnyPath | None,
        Option(
            "Directory for the data set; optional with --concat-to.",
            metavar="OUT",
            is_argument=True,
            shapes_output=False,
        ),
    ] = None
    work_dir: WorkDir = None
