"""Resolves the inputs that users and configs name: manifests, weighted lists, `input_cfg`, Shar, tarred sets."""

import os
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from prepcli.errors import UsageError
from prepcli.formats.loader_sections import file_and_part
from prepcli.manifest.braces import split_as_written
from prepcli.manifest.datasets import DataSet, Mix, TextSet, data_in_directory, parse_paths
from prepcli.manifest.input_cfg import Texts, parse_input_cfg
from prepcli.manifest.loader_keys import DATA_KEYS
from prepcli.manifest.mixing import leaves_of
from prepcli.manifest.parts import ParquetColumns
from prepcli.manifest.sources import expand_paths
from prepcli.storage.paths import is_dir


def resolve_input(spec: str, texts: Texts = "refuse") -> DataSet | Mix:
    """The data that `spec` names.

    `spec` has one of these forms:

    - paths of manifests, as in `expand_paths`
    - a list with or without weights: `[[a.json,0.7],[b.json,0.3]]` or `[[a.json],[b.json]]`
    - a YAML file: an `input_cfg` or a training config; `FILE.yaml:PART` is a part of its `multi_config`
    - a directory with Lhotse Shar, a tarred set or Parquet files (see `data_in_directory`)
    - Parquet files
    - `KEY=VALUE`, with one of `DATA_KEYS`, unless a path with this name exists

    `texts`: the treatment of `input_cfg` entries without audio.

    Raises:
        UsageError: `spec` is none of these, a file is missing, or all entries are left out.
    """
    key, equals, value = spec.partition("=")
    if equals and not os.path.exists(spec):
        if key not in DATA_KEYS:
            raise UsageError(f"unknown key in {spec!r}; known are {', '.join(DATA_KEYS)}")
        value = value.strip("'\"")
        if key != "input_cfg":
            return parse_paths({key: _parse_list(value) if _is_list(value) else _parse_fields(value) or value})
        return _in_config(_parse_list(value) if _is_list(value) else value, texts)
    if file_and_part(spec)[0].endswith((".yaml", ".yml")):
        return _in_config(spec, texts)
    if is_dir(spec):
        return data_in_directory(spec)
    if spec.endswith(".parquet"):
        return DataSet(tuple(expand_paths(spec)), parquet=ParquetColumns())
    return parse_paths({"manifest_filepath": _parse_list(spec) if _is_list(spec) else spec})


def _in_config(value: Any, texts: Texts) -> DataSet | Mix:
    data = parse_input_cfg(value, texts=texts)
    leaves = leaves_of(data)
    if all(leaf.left_out for leaf in leaves):
        kinds = ", ".join(dict.fromkeys(str(leaf.left_out) for leaf in leaves))
        raise UsageError(f"{value} has no entry with audio, only {kinds}; prepcli estimate-token-bins reads texts")
    return data


def notes_on_input(data: DataSet | Mix) -> list[str]:
    """Sentences for users about parts of an input that are left out, or not interpreted as they may expect."""
    leaves = leaves_of(data)
    left_out = [leaf.left_out for leaf in leaves if leaf.left_out]
    remarks = [remark for leaf in leaves for remark in leaf.settings.remarks]
    if left_out:
        kinds = ", ".join(f"{left_out.count(kind)} {kind}" for kind in dict.fromkeys(left_out))
        remarks.append(f"entries without audio are left out: {kinds}")
    return list(dict.fromkeys(remarks))


def files_of(data: DataSet | Mix) -> Iterator[str]:
    """Manifests, cuts and texts of all data sets, and the configs that name them: no output may replace them.

    A training config is not included, because bins may be written into the config that names the data. The result may
    have empty paths, for files that are not given.
    """
    for leaf in leaves_of(data):
        yield from (path for path in leaf.settings.config_files if path != leaf.settings.training_config)
        yield from leaf.paths
        if isinstance(leaf, TextSet):
            yield from leaf.target_paths
            yield leaf.questions_path or ""


def _is_list(text: str) -> bool:
    """Whether one pair of brackets encloses the text: `[[a],[b]]` or `[a,b]`. An existing path is not a list."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")) or os.path.exists(text):
        return False
    depths = list(accumulate((char == "[") - (char == "]") for char in text))
    return depths.index(0) == len(text) - 1 if 0 in depths else False


def _items(text: str) -> list[str]:
    """The items between the outer brackets, split at commas outside brackets of any kind."""
    return [item.strip() for item in split_as_written(text.strip()[1:-1])]


def _parse_list(text: str) -> list[Any]:
    """The items of a list as typed in a shell, `[[path,0.7],[path]]`: quotes are not needed, numbers become floats."""
    return [
        [_scalar(part) for part in _items(item)] if item.startswith("[") and item.endswith("]") else _scalar(item)
        for item in _items(text)
        if item
    ]


def _parse_fields(text: str) -> dict[str, Any] | None:
    """The fields of a Shar set as typed in a shell: `{cuts: [a,b], target_audio: c}`; None if the text is a path."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    fields = {}
    for item in _items(text):
        name, colon, value = item.partition(":")
        if not colon or not name.strip("'\" ").isidentifier():
            return None
        value = value.strip()
        fields[name.strip("'\" ")] = _parse_list(value) if _is_list(value) else value.strip("'\"")
    return fields


def _scalar(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text.strip("'\"")
