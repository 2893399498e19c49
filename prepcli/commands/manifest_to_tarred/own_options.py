"""The options that a set was made with, which are the defaults for additions."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from prepcli.commands.manifest_to_tarred.options import TarForm
from prepcli.errors import UsageError, option
from prepcli.formats.tarred import ExistingSet, metadata_name
from prepcli.interface.calls import current_call
from prepcli.interface.options import declared

_ALIKE = (
    *("min_duration", "max_duration", "force_codec", "target_sample_rate", "channel", "slice_with_offset"),
    *("shard_manifests", "index", "only_manifests", "shuffle_seed"),
)
"""Options that shape the audio, the lines and the files of all shards of a set; an addition may not change them."""
_ORDER = {"shuffle": False, "sort_in_shards": False, "keep_files_together": False, "remainder": "spread"}
"""Options that shape the order of the records, and their defaults.

An addition may only change a default: the metadata say that all shards are shuffled, for instance, or not all.
"""
_OF_VERSION = "dynamic_buckets_num"
"""An addition may change this option: each version has new bins, for all of its records."""


def own_config(form: Mapping[str, Any], base: ExistingSet | None) -> dict[str, Any]:
    """The options that NeMo's script does not know; the metadata of a set have them in a section of their own.

    `base`: the set to which records are added, if any; its options stay those of the set.
    """
    names = ("target_sample_rate", "channel", "remainder", _OF_VERSION)
    own = {name: form[name] for name in names}
    return own if base is None else own | base.own_config | {_OF_VERSION: own[_OF_VERSION]}


def with_own_options(form: TarForm, base: ExistingSet) -> TarForm:
    """The options of an addition: given options, and for all others the options with which the set was made.

    An option with its default value counts as not given. An option that the set was made without may be given: it
    limits, converts or orders only the added records.

    Raises:
        UsageError: a given option that shapes all shards (`_ALIKE`, `_ORDER`) has another value than for the set (the
            message has both); the metadata of the set cannot be used; or the size of the new shards is neither given
            nor known.
    """
    own = _own_options(base)
    folder = base.manifest.parent
    taken: dict[str, Any] = {}
    for choice in declared(type(current_call().options)):
        value, theirs = form.get(choice.name), own.get(choice.name)
        if theirs is None or value == theirs:
            continue
        if value is None or value == choice.default:
            taken[choice.name] = theirs
        elif choice.name in _ALIKE or theirs != _ORDER.get(choice.name, theirs):
            made = (
                f"with {option(*choice.words(theirs))}"
                if choice.words(theirs)
                else f"without {option(choice.long_name)}"
            )
            raise UsageError(
                f"{folder} was made {made}, and now {option(*choice.words(value))} is given: leave it out, so that all "
                "shards are alike, or make another set"
            )
    if form["num_shards"] is None and form["shard_size"] is None and form["shard_hours"] is None:
        if not base.num_samples_per_shard:
            raise UsageError(
                f"the set does not say how many records a shard has; give {option('--num-shards')} or "
                f"{option('--shard-size')}"
            )
        taken["shard_size"] = base.num_samples_per_shard
    return cast(TarForm, {**form, **taken})


def _own_options(base: ExistingSet) -> dict[str, Any]:
    """The options with which a set was made, from its metadata and its files; None for an option that was not given.

    Raises:
        UsageError: the metadata have an option that cannot be used.
    """
    known = base.dataset_config | base.own_config
    known |= {"shard_manifests": base.has_shard_manifests, "index": base.has_indexes, "only_manifests": False}
    values: dict[str, Any] = {}
    for choice in declared(type(current_call().options)):
        if choice.name in (*_ALIKE, *_ORDER, _OF_VERSION):
            try:
                values[choice.name] = msgspec.convert(known.get(choice.name), choice.type | None)
            except msgspec.ValidationError as error:
                file = base.manifest.with_name(metadata_name(base.version))
                raise UsageError(f"{file} has an option that prepcli cannot follow, {choice.name}: {error}") from None
    if not values["shuffle"]:
        values["shuffle_seed"] = None  # the seed of other programs may be there all the same
    return values
