"""What a training config may name as its data: manifests, weighted lists, `input_cfg`, Shar, tarred sets.

The forms and their meaning are those of NeMo 3.0, nemo/collections/common/data/lhotse/cutset.py.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.shar_files import regular_files, two_of_a_shard
from prepcli.manifest.braces import split_as_written
from prepcli.manifest.fields import parse_fields
from prepcli.manifest.sources import check_file, expand_paths, open_bytes

KEYS = ("manifest_filepath", "shar_path", "cuts_path", "input_cfg")


@dataclass(frozen=True)
class Notes:
    """What an `input_cfg` says of a data set besides where it is; durations do not depend on it."""

    tags: tuple[tuple[str, Any], ...] = ()
    """Fields for all its records, over their own."""
    text_field: str | None = None
    lang_field: str | None = None
    endless: bool = False
    """It says `force_finite: false`: a training run would read it again and again."""
    config_files: tuple[str, ...] = field(default=(), compare=False)
    """The files that led to it, one including the other."""


@dataclass(frozen=True)
class DataSet:
    """Files that are read one after the other: NeMo manifests, or with `cuts` lhotse cuts (`.jsonl`)."""

    paths: tuple[str, ...]
    cuts: bool = False
    notes: "Notes" = Notes()


@dataclass(frozen=True)
class Mix:
    """Data that are interleaved at random, in proportion to `weights`; None weighs by the number of lines."""

    parts: "tuple[DataSet | Mix, ...]"
    weights: tuple[float | None, ...]


def resolve_input(spec: str) -> DataSet | Mix:
    """The data that `spec` names.

    It is one of: manifest path(s) as in `expand_paths`; `[[a.json,0.7],[b.json,0.3]]` or `[[a.json],[b.json]]`;
    a `.yaml` with an `input_cfg`; a Shar directory or one that holds `cuts/`; a directory that
    `manifest-to-tarred` wrote; `key=value` with one of `KEYS`. A path that exists is taken as a path.
    Raises `UsageError` for anything else and for files that are missing.
    """
    key, equals, value = spec.partition("=")
    if equals and not os.path.exists(spec):
        if key not in KEYS:
            raise UsageError(f"unknown key in {spec!r}; known are {', '.join(KEYS)}")
        value = value.strip("'\"")
        return parse_config({key: _parse_list(value) if _is_list(value) else value})
    if spec.endswith((".yaml", ".yml")):
        return parse_config({"input_cfg": spec})
    if os.path.isdir(spec):
        return of_directory(spec)
    return parse_config({"manifest_filepath": _parse_list(spec) if _is_list(spec) else spec})


def parse_config(config: dict[str, Any]) -> DataSet | Mix:
    """The data of one entry of a config, chosen by which of `KEYS` it has, in NeMo's order of precedence."""
    if config.get("input_cfg") is not None:
        from prepcli.manifest.input_cfg import of_input_cfg

        return of_input_cfg(config["input_cfg"])
    if config.get("shar_path") is not None:
        return _of_shar_path(config["shar_path"])
    if config.get("cuts_path") is not None:
        return _of_cuts_path(config["cuts_path"])
    if config.get("manifest_filepath") is not None:
        return _of_manifest_filepath(config["manifest_filepath"])
    raise UsageError(f"an entry of the input has none of the keys {', '.join(KEYS)}")


def of_directory(directory: str) -> DataSet | Mix:
    """The data of a directory: Shar (`cuts.*`, also below `cuts/`), a tarred set, or a tarred set in buckets."""
    top = Path(directory)
    for folder in (top, top / "cuts"):
        if cuts := _cuts_in(folder):
            return DataSet(cuts, cuts=True)
    if manifests := _numbered(regular_files(top / "sharded_manifests"), r"manifest_(\d+)\.json"):
        return DataSet(manifests)
    if (whole := top / "tarred_audio_manifest.json").is_file():
        return DataSet((str(whole),))
    if buckets := _numbered(top.glob("bucket*"), r"bucket(\d+)"):
        return _mix([(of_directory(bucket), None) for bucket in buckets])
    raise UsageError(
        f"{directory} holds neither Shar (cuts.*, cuts/cuts.*) nor a tarred set "
        "(sharded_manifests/manifest_*.json, tarred_audio_manifest.json, bucket1/...)"
    )


def _cuts_in(folder: Path) -> tuple[str, ...]:
    """The files of cuts in a folder, without the indexes (`.idx`) that lhotse 2 writes beside them."""
    found: dict[str, Path] = {}
    for path in regular_files(folder):
        if path.name.startswith("cuts.") and path.name.endswith((".jsonl", ".jsonl.gz")):
            other = found.setdefault(path.name.removesuffix(".gz"), path)
            if other is not path:
                raise two_of_a_shard(other, path)
    return tuple(map(str, found.values()))


def _of_manifest_filepath(value: Any) -> DataSet | Mix:
    if isinstance(value, str):
        return _of_files(expand_paths(value))
    if not isinstance(value, list) or not value:
        raise UsageError(f"manifest_filepath must be a path or a list, not {value!r}")
    parts = []
    for item in value:
        path, weight = _path_and_weight("manifest_filepath", item if isinstance(item, list) else [item])
        parts.append((_of_files(expand_paths(path)), weight))
    return _mix(parts)


def _of_shar_path(value: Any) -> DataSet | Mix:
    if isinstance(value, str):
        found = of_directory(value) if os.path.isdir(value) else None
        if not isinstance(found, DataSet) or not found.cuts:
            raise UsageError(f"shar_path is no directory with cuts.*: {value}")
        return found
    if isinstance(value, dict):
        cuts = value.get("cuts")
        if not cuts:
            raise UsageError("shar_path given by fields must have the field `cuts`")
        specs = cuts if isinstance(cuts, list) else [cuts]
        return DataSet(tuple(path for spec in specs for path in expand_paths(str(spec))), cuts=True)
    if not isinstance(value, list) or not value:
        raise UsageError(f"shar_path must be a directory, a list or a mapping of fields, not {value!r}")
    parts = []
    for item in value:
        path, weight = _path_and_weight("shar_path", item if isinstance(item, list) else [item])
        parts.append((_of_shar_path(path), weight))
    return _mix(parts)


def _of_cuts_path(value: Any) -> DataSet:
    path = check_file(str(value), "cuts_path")
    if not path.endswith((".jsonl", ".jsonl.gz")):
        raise UsageError(f"cuts_path must be a .jsonl or .jsonl.gz file of lhotse cuts: {path}")
    return DataSet((path,), cuts=True)


def _of_files(paths: list[str]) -> DataSet:
    return DataSet(tuple(paths), cuts=_holds_cuts(paths[0]))


def _holds_cuts(path: str) -> bool:
    """Whether the file's first line is a lhotse cut and not a NeMo record; a pipe can be read once only: it is not."""
    if not os.path.isfile(path):
        return False
    try:
        with open_bytes(path) as file:
            fields = parse_fields(file.readline(1 << 20))
    except (OSError, EOFError, RecordRejected):
        return False  # whatever is wrong with it, reading it will tell
    kind = bytes(fields.get("type", msgspec.Raw(b"")))
    return kind.endswith(b'Cut"') and "audio_filepath" not in fields


def _mix(parts: Sequence[tuple[DataSet | Mix, float | None]]) -> DataSet | Mix:
    if len(parts) == 1:
        return parts[0][0]
    return Mix(tuple(part for part, _ in parts), tuple(weight for _, weight in parts))


def _path_and_weight(name: str, item: list[Any]) -> tuple[str, float | None]:
    if len(item) in (1, 2) and isinstance(item[0], str):
        if len(item) == 1:
            return item[0], None
        if isinstance(item[1], int | float) and item[1] > 0:
            return item[0], float(item[1])
    raise UsageError(f"an item of {name} must be [path] or [path, weight above 0], not {item!r}")


def _numbered(paths: Iterable[Path], pattern: str) -> tuple[str, ...]:
    """The paths whose names match, by their number."""
    found = [(int(match[1]), str(path)) for path in paths if (match := re.fullmatch(pattern, path.name))]
    return tuple(path for _, path in sorted(found))


def _is_list(text: str) -> bool:
    """`[[a],[b]]` or `[a,b]`: brackets around all of it; but what exists is a path."""
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
