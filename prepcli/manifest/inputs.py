"""The inputs that users and training configs can name: manifests, weighted lists, `input_cfg`, Shar, tarred sets."""

import os
from itertools import accumulate
from typing import Any

from prepcli.errors import UsageError
from prepcli.manifest.braces import split_as_written
from prepcli.manifest.datasets import DataSet, Mix, data_in_directory, parse_paths
from prepcli.manifest.input_cfg import DATA_KEYS, parse_input_cfg
from prepcli.storage.paths import is_dir


def resolve_input(spec: str) -> DataSet | Mix:
    """The data that `spec` names.

    It is one of: paths of manifests as in `expand_paths`; `[[a.json,0.7],[b.json,0.3]]` or `[[a.json],[b.json]]`;
    a `.yaml` with an `input_cfg`; a Shar directory or one that holds `cuts/`; a directory that
    `manifest-to-tarred` wrote; `key=value` with one of `DATA_KEYS`. A path that exists is always read as a path.

    Raises:
        UsageError: it is none of these, or a file is missing.
    """
    key, equals, value = spec.partition("=")
    if equals and not os.path.exists(spec):
        if key not in DATA_KEYS:
            raise UsageError(f"unknown key in {spec!r}; known are {', '.join(DATA_KEYS)}")
        value = value.strip("'\"")
        data = _parse_list(value) if _is_list(value) else value
        return parse_input_cfg(data) if key == "input_cfg" else parse_paths({key: data})
    if spec.endswith((".yaml", ".yml")):
        return parse_input_cfg(spec)
    if is_dir(spec):
        return data_in_directory(spec)
    return parse_paths({"manifest_filepath": _parse_list(spec) if _is_list(spec) else spec})


def _is_list(text: str) -> bool:
    """Whether the text is a list, `[[a],[b]]` or `[a,b]`, with brackets around all of it. What exists is a path."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")) or os.path.exists(text):
        return False
    depths = list(accumulate((char == "[") - (char == "]") for char in text))
    return depths.index(0) == len(text) - 1 if 0 in depths else False


def _items(text: str) -> list[str]:
    """The items between the outer brackets, split at commas outside brackets of any kind."""
    return [item.strip() for item in split_as_written(text.strip()[1:-1])]


def _parse_list(text: str) -> list[Any]:
    """A list as it is typed in a shell: `[[path,0.7],[path]]`; quotes are not needed. NeMo's values are YAML."""
    return [
        [_scalar(part) for part in _items(item)] if item.startswith("[") and item.endswith("]") else _scalar(item)
        for item in _items(text)
        if item
    ]


def _scalar(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text.strip("'\"")
