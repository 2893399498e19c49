"""NeMo's `input_cfg`: weighted data sets and groups of them, in YAML."""

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from prepcli.errors import UsageError
from prepcli.formats.yaml_text import parse_yaml
from prepcli.manifest.datasets import DataSet, Mix, Notes, parse_paths
from prepcli.manifest.sources import check_file
from prepcli.storage.paths import path_of

# NeMo has more types (texts, conversations, ...); these are the ones whose items are utterances with a duration.
TYPES = ("nemo", "nemo_tarred", "lhotse", "lhotse_shar", "group")

DATA_KEYS = ("manifest_filepath", "shar_path", "cuts_path", "input_cfg")
"""The keys of a training config, and of inputs on the command line, that name data."""


def parse_input_cfg(value: Any, seen: tuple[str, ...] = (), notes: Notes | None = None) -> DataSet | Mix:
    """The data of an `input_cfg`: a list of entries, or the path of a YAML file that holds one.

    An entry has a `type` (one of `TYPES`), and a `weight` if any entry of its list has one; a `group` has an
    `input_cfg` of its own. Without weights all entries of a list weigh the same, however long they are. `tags`,
    `text_field`, `lang_field` and `force_finite` become the data sets' `Notes`, those of groups too: an outer tag
    replaces an inner one, all other keys of an inner entry replace the outer ones. Other keys are ignored. Relative
    paths start from the working directory, as in NeMo.
    Raises `UsageError` for what NeMo would refuse, and for files that include each other.
    """
    parts, weights = [], []
    for entry, kind, within, entry_notes in config_entries(value, TYPES, seen, notes or Notes()):
        weights.append(entry.get("weight"))
        if kind == "group":
            parts.append(parse_input_cfg(entry.get("input_cfg"), within, entry_notes))
            continue
        keys = ("manifest_filepath",) if kind.startswith("nemo") else ("shar_path", "cuts_path")
        if not any(entry.get(key) for key in keys):
            raise UsageError(f"an entry{in_file(within)} of type {kind} has no {' or '.join(keys)}")
        parts.append(_with_notes(parse_paths({key: entry.get(key) for key in keys}), entry_notes))
    return weighted_mix(parts, weights, seen)


def config_entries(
    value: Any, types: Collection[str], seen: tuple[str, ...], notes: Notes
) -> Iterator[tuple[dict[str, Any], str, tuple[str, ...], Notes]]:
    """The entries of an `input_cfg` (a list, or the path of a file that holds one), of the known `types`.

    Each with its type, its chain of files, and its notes, which inherit from `notes`. Raises `UsageError`.
    """
    if isinstance(value, str):
        if value in seen:
            raise UsageError(f"input_cfg includes itself: {' -> '.join((*seen, value))}")
        seen = (*seen, value)
        value = _load(value)
    if isinstance(value, dict) and "input_cfg" in value:
        value = value["input_cfg"]
    if isinstance(value, dict):
        raise _not_a_list(value, seen)
    if not isinstance(value, list) or not value:
        raise UsageError(f"an input_cfg{in_file(seen)} must be a list of entries, and not an empty one")
    for entry in value:
        kind = entry.get("type") if isinstance(entry, dict) else None
        if not isinstance(kind, str) or kind not in types:
            raise UsageError(f"an entry{in_file(seen)} has the type {kind!r}; prepcli reads {', '.join(types)}")
        tags = entry.get("tags") or {}
        if not isinstance(tags, dict):
            raise UsageError(f"the tags of an entry{in_file(seen)} must be a mapping, not {tags!r}")
        for name in ("text_field", "lang_field"):
            if not isinstance(entry.get(name, ""), str):
                raise UsageError(f"{name} of an entry{in_file(seen)} must be a field's name, not {entry[name]!r}")
        yield entry, kind, seen, _inherit(notes, entry, tags, seen)


def _not_a_list(config: dict[str, Any], seen: tuple[str, ...]) -> UsageError:
    """The error for a mapping where a list of entries belongs; most often that is a whole training config."""
    within = config.get("model") if isinstance(config.get("model"), dict) else config
    train_ds = within.get("train_ds") if isinstance(within, dict) else None
    if not isinstance(train_ds, dict):
        return UsageError(
            f"an input_cfg{in_file(seen)} must be a list of entries (- type: ...), not a mapping with the keys "
            f"{', '.join(map(str, config))}"
        )
    named = next((f"{key}={train_ds[key]}" for key in DATA_KEYS if isinstance(train_ds.get(key), str)), None)
    advice = f"give what its train_ds reads: {named}" if named else "its train_ds names no data (input_cfg, ...)"
    return UsageError(f"{seen[-1] if seen else 'this'} is a training config, not an input_cfg; {advice}")


def weighted_mix(parts: Sequence[DataSet | Mix], weights: Sequence[Any], seen: tuple[str, ...]) -> DataSet | Mix:
    """The only part, or a mix of all parts by their weights; raises `UsageError` for missing weights."""
    return parts[0] if len(parts) == 1 else Mix(tuple(parts), _weights(weights, seen))


def _inherit(outer: Notes, entry: dict[str, Any], tags: dict[str, Any], seen: tuple[str, ...]) -> Notes:
    finite = entry.get("force_finite")
    return Notes(
        tags=tuple({**tags, **dict(outer.tags)}.items()),
        text_field=entry.get("text_field", outer.text_field),
        lang_field=entry.get("lang_field", outer.lang_field),
        endless=outer.endless if finite is None else not finite,
        config_files=seen,
    )


def _with_notes(data: DataSet | Mix, notes: Notes) -> DataSet | Mix:
    if isinstance(data, DataSet):
        return replace(data, notes=notes)
    return replace(data, parts=tuple(_with_notes(part, notes) for part in data.parts))


def _weights(weights: Sequence[Any], seen: tuple[str, ...]) -> tuple[float, ...]:
    if all(weight is None for weight in weights):
        return (1.0,) * len(weights)
    for weight in weights:
        if not isinstance(weight, int | float) or not 0 < weight <= sys.float_info.max:
            found = text if len(text := str(weight)) <= 60 else f"{text[:20]}... ({len(text)} characters)"
            raise UsageError(
                f"where one entry of a list{in_file(seen)} has a weight, each needs one above 0; found {found}"
            )
    return tuple(map(float, weights))


def _load(path: str) -> Any:
    import yaml

    check_file(path, "input_cfg")
    try:
        return parse_yaml(path_of(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} is not readable YAML, which an input_cfg must be: {' '.join(str(error).split())}"
        ) from None


def in_file(seen: tuple[str, ...]) -> str:
    """The file of an entry, for messages."""
    return f" of {seen[-1]}" if seen else ""
