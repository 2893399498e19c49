"""The options of `manifest-to-tarred` that shape a set, as one value."""

from typing import Annotated, Literal, TypedDict

from prepcli.engine.run.options import RecordArguments
from prepcli.errors import UsageError, option
from prepcli.interface.options import Option, PathText
from prepcli.interface.shared_options import Channel, CheckAudio, ForceCodec, TargetRate

DYNAMIC_BUCKETS = 30


class TarForm(TypedDict, total=False):
    """The options that shape a tarred data set; durations in seconds, rates in Hz.

    Exactly one of `num_shards`, `shard_size` (records) and `shard_hours` defines how the records are divided. An
    option that is None is not given: `decided` fills in its default. For additions to a set, see module `own_options`.
    """

    num_shards: Annotated[int | None, Option("One of three: number of shards.", minimum=1, order=-1)]
    shard_size: Annotated[int | None, Option("One of three: maximum number of records per shard.", minimum=1, order=-1)]
    shard_hours: Annotated[
        float | None, Option("One of three: approximate hours of audio per shard.", above=0, order=-1)
    ]
    min_duration: Annotated[float | None, Option("Leave out shorter records (seconds).", minimum=0)]
    max_duration: Annotated[float | None, Option("Leave out records of this length and above (seconds).", above=0)]
    shuffle: Annotated[bool | None, Option("Shuffle records over all shards.", names=("--shuffle/--no-shuffle",))]
    shuffle_seed: Annotated[int | None, Option("Seed of --shuffle.", shown_default="0")]
    sort_in_shards: Annotated[
        bool, Option("Sort the records of each shard by duration, shortest first.", default=False)
    ]
    keep_files_together: Annotated[bool, Option("Put all segments of an audio file into one shard.", default=False)]
    slice_with_offset: Annotated[bool, Option("Store each segment as a file of its own.", default=False)]
    force_codec: ForceCodec
    target_sample_rate: TargetRate
    channel: Channel
    remainder: Annotated[
        Literal["spread", "drop"] | None,
        Option(
            "Records that do not divide evenly: spread them over the shards, or drop them (as rejects).",
            shown_default="spread",
        ),
    ]
    buckets_num: Annotated[
        int,
        Option(
            "Static buckets: this many data sets with equal duration ranges, bucket1/, bucket2/, ...",
            minimum=1,
            default=1,
        ),
    ]
    dynamic_buckets_num: Annotated[
        int | None,
        Option(
            "Number of buckets; their duration bins go into metadata.yaml and train_ds.yaml.",
            minimum=2,
            shown_default=str(DYNAMIC_BUCKETS),
        ),
    ]
    shard_manifests: Annotated[
        bool,
        Option(
            "Write no manifest per shard, only the one over all shards.",
            names=("--no-shard-manifests",),
            help_in_python="Write a manifest for each shard, in addition to the one over all shards.",
            default=True,
        ),
    ]
    index: Annotated[
        bool,
        Option(
            "Write no indexes (.idx). With them, lhotse 2 and NeMo after 3.0 resume in the middle of an epoch.",
            names=("--no-index",),
            help_in_python="Write indexes (.idx), with which lhotse 2 and NeMo after 3.0 resume in mid-epoch.",
            default=True,
        ),
    ]
    only_manifests: Annotated[
        bool,
        Option(
            "Write only the manifests, without the tars, to check them first. The same command without it, and with "
            "--overwrite, makes the whole set.",
            disables=("check_audio", "target_sample_rate", "channel"),
            default=False,
        ),
    ]
    check_audio: CheckAudio
    concat_to: Annotated[
        PathText | None,
        Option(
            "Add the shards to the tarred set in this directory. The options that it was made with are the defaults.",
            metavar="DIR",
            shapes_output=False,
        ),
    ]
    allow_duplicates: Annotated[
        bool,
        Option(
            "With --concat-to: add records that are in the set already.",
            shapes_output=False,
            needs="concat_to",
            default=False,
        ),
    ]
    undo_concat: Annotated[
        bool,
        Option(
            "Remove what the last --concat-to has added: the set of --concat-to, or OUT, goes back one version.",
            shapes_output=False,
            default=False,
        ),
    ]


class TarredArguments(TarForm, RecordArguments, total=False):
    """The options of `manifest-to-tarred`."""


def decided(form: TarForm) -> TarForm:
    """The options; those that are not given get their default, if they have one."""
    return {
        **form,
        "shuffle": bool(form["shuffle"]),
        "shuffle_seed": form["shuffle_seed"] or 0,
        "remainder": form["remainder"] or "spread",
        "dynamic_buckets_num": form["dynamic_buckets_num"] or DYNAMIC_BUCKETS,
    }


def check_form(form: TarForm) -> None:
    """Check that the options agree.

    Raises:
        UsageError: the message names the options of the command line and says what to do.
    """
    from prepcli.audio.channels import chosen_channel
    from prepcli.audio.limits import check_target_rate

    if sum(value is not None for value in (form["num_shards"], form["shard_size"], form["shard_hours"])) != 1:
        raise UsageError(
            f"give one of {option('--num-shards')}, {option('--shard-size')} and {option('--shard-hours')}"
        )
    low, high = form["min_duration"], form["max_duration"]
    if low is not None and high is not None and low >= high:
        raise UsageError(f"{option('--min-duration', low)} leaves nothing below {option('--max-duration', high)}")
    if form["remainder"] == "drop":
        if form["shard_hours"] is not None:
            raise UsageError(
                f"{option('--remainder', 'drop')} makes shards with equal numbers of records: use "
                f"{option('--num-shards')} or {option('--shard-size')}"
            )
        if form["keep_files_together"]:
            raise UsageError(
                f"{option('--remainder', 'drop')} and {option('--keep-files-together')} exclude each other: "
                "leave one of them out"
            )
    check_target_rate(form["target_sample_rate"])
    chosen_channel(form["channel"])
    if form["buckets_num"] > 1 and (high is None or form["shard_hours"] is not None):
        raise UsageError(
            f"{option('--buckets-num')} needs {option('--max-duration')}, and {option('--num-shards')} or "
            f"{option('--shard-size')} for each bucket"
        )
    if form["shuffle_seed"] is not None and not form["shuffle"]:  # not `needs`: `--shuffle` may come from the set
        seed = option("--shuffle-seed")
        raise UsageError(f"{seed} has no effect without {option('--shuffle')}: give both, or leave {seed} out")
    if form["only_manifests"] and form["slice_with_offset"] and form["force_codec"]:
        raise UsageError(f"{option('--only-manifests')} reads no audio: leave out {option('--force-codec')}")
