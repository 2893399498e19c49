"""NeMo's `input_cfg`: weighted data sets and groups of them in YAML, alone or in a training config."""

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from prepcli.errors import UsageError
from prepcli.formats.loader_sections import file_and_part, loader_sections, sections_of_parts
from prepcli.formats.yaml_text import read_yaml
from prepcli.manifest.datasets import DataSet, EntrySettings, Mix, TextSet, parquet_set, parse_paths
from prepcli.manifest.foreign import check_is_config
from prepcli.manifest.loader_keys import (
    DATA_KEYS,
    INHERITED_KEYS,
    entries_in,
    find_section,
    is_reference,
    read_loader_keys,
    typed_value,
)
from prepcli.manifest.sources import check_file, expand_paths
from prepcli.storage.paths import path_of

# NeMo has more types (duplex speech, simulated mixtures, ...); prepcli knows the lengths of these.
TYPES = ("nemo", "nemo_tarred", "lhotse", "lhotse_shar", "group")
"""The types of `input_cfg` entries whose files have a line with a duration for each example, and `group`."""
AUDIO_TYPES = (*TYPES, "parquet")
TEXT_TYPES = ("txt", "txt_pair", "multimodal_conversation", "share_gpt", "share_gpt_webdataset")
_OTHER_TEXT_TYPES = ("txt_jsonl", "nemo_sft_jsonl")

Texts = Literal["refuse", "leave out", "read"]
"""The treatment of `input_cfg` entries with texts or conversations: refuse with an error, leave out, or read."""


def parse_input_cfg(
    value: Any, seen: tuple[str, ...] = (), settings: EntrySettings | None = None, texts: Texts = "refuse"
) -> DataSet | Mix:
    """The data of an `input_cfg`: a list of entries, or the path of a YAML file with such a list or a training config.

    An entry has a `type`: one of `AUDIO_TYPES` or, depending on `texts`, of the types of texts. A `group` has its own
    `input_cfg`. Either all entries of a list have a `weight`, or none of them; then their weights are equal, even if
    their lengths differ. Relative paths start from the working directory, as in NeMo.

    The keys `tags`, `force_finite` and `INHERITED_KEYS` of an entry become the settings of its data set. The entries of
    a group inherit them: a tag of the group replaces a tag of the entry, but other keys of the entry replace those of
    the group. Further keys are ignored.

    `seen` and `settings` are for the entries of a group: the chain of files that leads to them, and what they inherit.
    Raises `UsageError` for entries that NeMo would refuse, and for files that include each other.
    """
    types = {"refuse": (), "read": TEXT_TYPES, "leave out": (*TEXT_TYPES, *_OTHER_TEXT_TYPES)}[texts]
    parts: list[DataSet | Mix] = []
    weights = []
    for entry, kind, within, own in config_entries(value, (*AUDIO_TYPES, *types), seen, settings or EntrySettings()):
        weights.append(entry.get("weight"))
        if kind == "group":
            parts.append(parse_input_cfg(entry.get("input_cfg"), within, own, texts))
        elif kind in AUDIO_TYPES:
            parts.append(_with_settings(_audio(entry, kind, within), own))
        elif texts == "leave out":
            parts.append(DataSet((), settings=own, left_out=kind))
        else:
            parts.append(_texts(entry, kind, within, own))
    return parts[0] if len(parts) == 1 else Mix(tuple(parts), _weights(weights, seen))


def _audio(entry: dict[str, Any], kind: str, seen: tuple[str, ...]) -> DataSet | Mix:
    keys = ("shar_path", "cuts_path") if kind.startswith("lhotse") else ("manifest_filepath",)
    if not any(entry.get(key) for key in keys):
        raise UsageError(f"an entry{in_file(seen)} of type {kind} has no {' or '.join(keys)}")
    return parquet_set(entry) if kind == "parquet" else parse_paths({key: entry.get(key) for key in keys})


def _texts(entry: dict[str, Any], kind: str, seen: tuple[str, ...], settings: EntrySettings) -> TextSet:
    is_pair = kind == "txt_pair"
    singular = [
        key for key in ("source_path", "target_path") if is_pair and entry.get(key) and not entry.get(f"{key}s")
    ]
    for key in singular:
        entry = entry | {f"{key}s": entry[key]}
        remark = f"an entry{in_file(seen)} has {key}, which is read as {key}s; NeMo 3.0 reads only {key}s"
        settings = replace(settings, remarks=(*settings.remarks, remark))
    key = {"txt": "paths", "txt_pair": "source_paths", "share_gpt_webdataset": "data_dir"}.get(
        kind, "manifest_filepath"
    )
    paths = (str(entry[key]),) if key == "data_dir" and entry.get(key) else _paths(entry, key, kind, seen)
    tars = "tarred_audio_filepaths" if kind == "share_gpt" and entry.get("tarred_audio_filepaths") else ""
    placeholders = entry.get("audio_placeholders") or TextSet.placeholders
    targets = _paths(entry, "target_paths", kind, seen) if is_pair else ()
    if is_pair and len(targets) != len(paths):
        raise UsageError(
            f"an entry{in_file(seen)} of type {kind} has {len(paths)} source_paths and {len(targets)} target_paths"
        )
    questions = entry.get("questions_path")
    return TextSet(
        paths=paths,
        settings=settings,
        kind=kind,
        target_paths=targets,
        questions_path=None if questions is None else check_file(str(questions), "questions_path"),
        questions_language=entry.get("questions_language"),
        language=entry.get("source_language" if is_pair else "language"),
        target_language=entry.get("target_language"),
        tars=_paths(entry, tars, kind, seen) if tars else (),
        audio_root=entry.get("audio_root"),
        placeholders=(placeholders,) if isinstance(placeholders, str) else tuple(placeholders),
    )


def _paths(entry: dict[str, Any], key: str, kind: str, seen: tuple[str, ...]) -> tuple[str, ...]:
    value = entry.get(key)
    if not value:
        raise UsageError(f"an entry{in_file(seen)} of type {kind} has no {key}")
    return tuple(path for item in (value if isinstance(value, list) else [value]) for path in expand_paths(str(item)))


def config_entries(
    value: Any, types: Collection[str], seen: tuple[str, ...], settings: EntrySettings
) -> Iterator[tuple[dict[str, Any], str, tuple[str, ...], EntrySettings]]:
    """Yield the entries of an `input_cfg`, each with its type, its chain of files, and its settings.

    `value` is a list of entries, a mapping that names data, or the path of a YAML file with such a list or mapping. A
    mapping may be a training config: its section that names data (`find_section`), or the part of its `multi_config`
    that a path such as `train.yaml:speech` names, has the entries, which inherit the keys of the section. All settings
    inherit from `settings`. Raises `UsageError`, also for an entry whose type is not in `types`.
    """
    is_outermost, part = not seen, ""
    while isinstance(value, str | dict):
        if isinstance(value, dict):
            value, settings = _section(value, seen, settings, is_outermost, part)
            is_outermost, part = False, ""
            continue
        value, part = file_and_part(value)
        if value in seen:
            raise UsageError(f"input_cfg includes itself: {' -> '.join((*seen, value))}")
        check_is_config(value)
        seen = (*seen, value)
        value = _load(value)
    if part:
        raise UsageError(f"{seen[-1]} has no multi_config with a part {part}: it is a list of entries")
    if not isinstance(value, list) or not value:
        raise UsageError(f"an input_cfg{in_file(seen)} must be a list of entries, and not an empty one")
    for entry in value:
        kind = entry.get("type") if isinstance(entry, dict) else None
        if not isinstance(kind, str) or kind not in types:
            raise UsageError(f"an entry{in_file(seen)} has the type {kind!r}; prepcli reads {', '.join(types)}")
        yield entry, kind, seen, _inherit(settings, entry, seen)


def _section(
    config: dict[str, Any], seen: tuple[str, ...], settings: EntrySettings, is_outermost: bool, part: str
) -> tuple[Any, EntrySettings]:
    """The entries of a mapping that names data or is a training config, and `settings` with its other keys added.

    `part`: see `find_section`. `is_outermost`: whether no other file includes the mapping. In an included file, NeMo
    ignores limits and similar keys; then the `remarks` of the settings say that they are not used.
    """
    place_and_section = find_section(config, part)
    if place_and_section is None:
        raise _names_no_data(config, seen, part)
    place, section = place_and_section
    keys, others = read_loader_keys(section, _file(seen))
    if is_outermost:
        settings = replace(
            settings, loader=keys, config_files=seen, training_config=seen[0] if place and seen else None
        )
    else:
        given = {name: value for name, value in vars(keys).items() if value is not None}
        settings = _inherit(settings, {name: given.pop(name) for name in INHERITED_KEYS if name in given}, seen)
        others += given
    if others:
        remark = f"{_file(seen)} has keys that are not used here: {', '.join(others)}"
        settings = replace(settings, remarks=(*settings.remarks, remark))
    return entries_in(section), settings


def _names_no_data(config: dict[str, Any], seen: tuple[str, ...], part: str) -> UsageError:
    """The error for a mapping that names no data for `input_cfg`. Most often it is a whole training config."""
    file, parts = _file(seen), list(sections_of_parts(config))
    if part not in parts and (parts or part):
        has = "has a multi_config, and each of its parts has bins of its own" if not part else f"has no part {part}"
        named = " or ".join(f"{file}:{name}" for name in parts)
        return UsageError(
            f"{file} {has}: {f'give {named} as the input' if parts else 'its train_ds has no multi_config'}"
        )
    if not any(loader_sections(config)):
        return UsageError(
            f"an input_cfg{in_file(seen)} must be a list of entries (- type: ...), not a mapping with the keys "
            f"{', '.join(map(str, config))}"
        )
    which = f"{part} of its multi_config" if part else "train_ds"
    return UsageError(
        f"{seen[-1] if seen else 'this'} is a training config whose {which} names no data (input_cfg, "
        "manifest_filepath, shar_path or cuts_path)"
    )


def is_input_of(data: str, section: dict[str, Any]) -> bool:
    """Whether a section of a training config reads `data`, an input as users write it on the command line."""
    key, equals, value = data.partition("=")
    named = value.strip("'\"") if equals and key in DATA_KEYS else data
    texts = [section[key] for key in DATA_KEYS if isinstance(section.get(key), str)]
    if any(text == named or os.path.realpath(text) == os.path.realpath(named) for text in texts):
        return True
    entries = section.get("input_cfg")
    if not isinstance(entries, list) or not named.endswith((".yaml", ".yml")) or not os.path.isfile(named):
        return False
    content = _load(named)
    return entries == (content.get("input_cfg") if isinstance(content, dict) else content)


def _inherit(outer: EntrySettings, entry: dict[str, Any], seen: tuple[str, ...]) -> EntrySettings:
    tags = entry.get("tags") or {}
    if not isinstance(tags, dict):
        raise UsageError(f"the tags of an entry{in_file(seen)} must be a mapping, not {tags!r}")
    for name in ("text_field", "lang_field"):
        if not isinstance(entry.get(name, ""), str):
            raise UsageError(f"{name} of an entry{in_file(seen)} must be a field's name, not {entry[name]!r}")
    seconds = entry.get("token_equivalent_duration", outer.token_equivalent_duration)
    if seconds is not None:
        seconds = typed_value("token_equivalent_duration", seconds, _file(seen))
    tag = entry.get("audio_locator_tag", outer.audio_locator_tag)
    if tag is not None and not is_reference(tag):
        typed_value("audio_locator_tag", tag, _file(seen))
    finite = entry.get("force_finite")
    return replace(
        outer,
        tags=tuple({**tags, **dict(outer.tags)}.items()),
        text_field=entry.get("text_field", outer.text_field),
        lang_field=entry.get("lang_field", outer.lang_field),
        audio_locator_tag=tag,
        token_equivalent_duration=seconds,
        endless=outer.endless if finite is None else not finite,
        config_files=seen,
    )


def _with_settings(data: DataSet | Mix, settings: EntrySettings) -> DataSet | Mix:
    if isinstance(data, DataSet):
        return replace(data, settings=settings)
    return replace(data, parts=tuple(_with_settings(part, settings) for part in data.parts))


def _weights(weights: Sequence[Any], seen: tuple[str, ...]) -> tuple[float, ...]:
    if all(weight is None for weight in weights):
        return (1.0,) * len(weights)
    for weight in weights:
        if not isinstance(weight, int | float) or not 0 < weight <= sys.float_info.max:
            shown = text if len(text := str(weight)) <= 60 else f"{text[:20]}... ({len(text)} characters)"
            raise UsageError(
                f"where one entry of a list{in_file(seen)} has a weight, each needs one above 0; found {shown}"
            )
    return tuple(map(float, weights))


def _load(path: str) -> Any:
    import yaml

    check_file(path, "input_cfg")
    try:
        return read_yaml(path_of(path))
    except yaml.YAMLError as error:
        raise UsageError(
            f"{path} is not readable YAML, which an input_cfg must be: {' '.join(str(error).split())}"
        ) from None


def in_file(seen: tuple[str, ...]) -> str:
    """The words ` of FILE` for a message about an entry, with the last file of its chain; empty if there is no file."""
    return f" of {seen[-1]}" if seen else ""


def _file(seen: tuple[str, ...]) -> str:
    return seen[-1] if seen else "the input_cfg"
