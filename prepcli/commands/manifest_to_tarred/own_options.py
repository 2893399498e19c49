"""The options that a set was made with, which are the defaults for additions."""

from dataclasses import replace
from typing import Any, Literal

import msgspec

from prepcli.commands.manifest_to_tarred.options import TarredOptions
from prepcli.errors import UsageError, option
from prepcli.formats.tarred import ExistingSet, metadata_name
from prepcli.interface.options import declared


class _OwnOptions(msgspec.Struct, frozen=True):
    """The options of a set that apply to additions; None if the set was made without a value.

    Options in `NEEDS_EQUAL` shape the audio, the lines and the files of all shards of a set. Other options shape the
    order of the added records, and may differ from addition to addition.
    """

    min_duration: float | None = None
    max_duration: float | None = None
    force_codec: Literal["flac", "wav", "opus", "mp3"] | None = None
    target_sample_rate: int | None = None
    channel: str | None = None
    slice_with_offset: bool | None = None
    shard_manifests: bool | None = None
    index: bool | None = None
    only_manifests: bool | None = None
    shuffle: bool | None = None
    shuffle_seed: int | None = None
    sort_in_shards: bool | None = None
    keep_files_together: bool | None = None
    remainder: Literal["spread", "drop"] | None = None
    dynamic_buckets_num: int | None = None


NEEDS_EQUAL = frozenset(
    [
        "min_duration",
        "max_duration",
        "force_codec",
        "target_sample_rate",
        "channel",
        "slice_with_offset",
        "shard_manifests",
        "index",
        "only_manifests",
    ]
)


def own_config(options: TarredOptions) -> dict[str, Any]:
    """The options to store in the metadata of a set in addition to those of NeMo's script."""
    return {
        "target_sample_rate": options.target_sample_rate,
        "channel": options.channel,
        "remainder": options.remainder,
        "dynamic_buckets_num": options.dynamic_buckets_num,
    }


def with_own_options(options: TarredOptions, base: ExistingSet) -> TarredOptions:
    """The options of an addition: those that are given; for the others, those of the set.

    An option with its default value counts as not given. An option that the set was made without may be given: it
    limits or converts the added records, and breaks no promise of the set.

    Raises:
        UsageError: an option contradicts that of the set; the message has both values.
    """
    own = _own_options(base)
    folder = base.manifest.parent
    taken: dict[str, Any] = {}
    for one in declared(TarredOptions):
        value, theirs = getattr(options, one.name), getattr(own, one.name, None)
        if theirs is None or value == theirs:
            continue
        if value is None or value == one.default:
            taken[one.name] = theirs
        elif one.name in NEEDS_EQUAL:
            made = f"with {option(*one.words(theirs))}" if one.words(theirs) else f"without {option(one.long_name)}"
            raise UsageError(
                f"{folder} was made {made}, and now {option(*one.words(value))} is given: leave it out, so that all "
                "shards are alike, or make another set"
            )
    if options.num_shards is None and options.shard_size is None and options.shard_hours is None:
        if not base.num_samples_per_shard:
            raise UsageError(
                f"the set does not say how many records a shard has; give {option('--num-shards')} or "
                f"{option('--shard-size')}"
            )
        taken["shard_size"] = base.num_samples_per_shard
    return replace(options, **taken)


def _own_options(base: ExistingSet) -> _OwnOptions:
    """The options in the metadata of a set, and options that its files show."""
    known = base.dataset_config | base.own_config
    known |= {"shard_manifests": base.has_shard_manifests, "index": base.has_indexes, "only_manifests": False}
    try:
        return msgspec.convert(known, _OwnOptions)
    except msgspec.ValidationError as error:
        file = base.manifest.with_name(metadata_name(base.version))
        raise UsageError(f"{file} has an option that prepcli cannot follow: {error}") from None
